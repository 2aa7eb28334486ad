"""The timeline in a real browser: it is drawn, and mouse, touch and keyboard change what is drawn."""

import numpy as np
import pytest
from PIL import Image

from speedproof.report.timeline.collect import read_timeline
from speedproof.report.timeline.fragment import TracedVariant, render_timeline
from tests.trace.handmade import many_pieces, two_epochs

HOSTILE = "</script><img src=x onerror=alert(1)> \u202e **bold** \x1b[31m " + "A" * 10_000
HEAD = 38  # pixels of the overview and the ruler
WHOLE = [0, 20_000_000]

HELPERS = """
  window.root = document.querySelector('.timeline');
  window.part = (name) => root.querySelector('.timeline-' + name);
  window.canvas = (variant) => root.querySelectorAll('canvas')[variant];
  window.view = () => root.dataset.view.split(' ').map(Number);
  window.say = (name) => part(name).textContent.replaceAll('\\u00a0', ' ');
  window.pixels = (variant) => {
    const {width, height} = canvas(variant), copy = new OffscreenCanvas(width, height - 38);
    const pen = copy.getContext('2d', {willReadFrequently: true});
    pen.drawImage(canvas(variant), 0, -38);
    return pen.getImageData(0, 0, width, height - 38).data.reduce((sum, value) => (sum * 31 + value) % 4294967296, 0);
  };
"""


@pytest.fixture
def opened(browser, tmp_path):
    """A function that opens these traces in the browser; at the end nothing was complained of, and nothing asked for."""

    def open_page(*variants):
        page = tmp_path / "page.html"
        head = (
            "<!doctype html><html lang=en><meta charset=utf-8><title>t</title><style>:root { color-scheme: light dark }</style>"
        )
        page.write_text(f"{head}<body>{render_timeline(variants)}", encoding="utf-8")
        browser.look(1000, 900)
        browser.open(page)
        browser.wait("document.querySelector('.timeline').dataset.ready")
        browser.evaluate(HELPERS)
        return browser

    yield open_page
    assert browser.problems == []
    assert all(url.startswith("file:") for url in browser.requests)
    assert len(browser.requests) == 1  # the page


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    return two_epochs().write(tmp_path_factory.mktemp("trace"))


def middle(page, variant=0):
    """The canvas' left and top, and half of its width."""
    return page.evaluate(f"(({{left, top, width}}) => [left, top, width / 2])(canvas({variant}).getBoundingClientRect())")


def length(view):
    return view[1] - view[0]


def test_the_mouse_zooms_and_pans(opened, trace):
    page = opened(TracedVariant("one", trace))
    left, top, half = middle(page)
    assert page.evaluate("view()") == WHOLE
    whole = page.evaluate("pixels(0)")
    page.mouse("mouseWheel", left + half, top + 100, deltaX=0, deltaY=-300)
    assert page.evaluate("view()") == WHOLE  # the wheel alone scrolls the page
    page.mouse("mouseWheel", left + half, top + 100, deltaX=0, deltaY=-300, modifiers=2)
    zoomed = page.evaluate("view()")
    assert length(zoomed) == pytest.approx(20_000_000 / 2.71828, rel=0.01)
    assert sum(zoomed) / 2 == pytest.approx(10_000_000, rel=0.01)  # what lies below the pointer stays there
    assert page.evaluate("pixels(0)") != whole
    page.drag(left + half, top + 100, left + half - 100, top + 100)
    dragged = page.evaluate("view()")
    assert length(dragged) == pytest.approx(length(zoomed), abs=2)
    assert dragged[0] - zoomed[0] == pytest.approx(100 / (2 * half) * length(zoomed), rel=0.02)
    page.evaluate("part('fit').click()")
    page.settle()
    assert page.evaluate("[view(), pixels(0)]") == [WHOLE, whole]
    page.click(left + half, top + HEAD + 25, count=2)  # on the second epoch
    assert page.evaluate("view()")[0] > 0


def test_the_keyboard_zooms_and_pans(opened, trace):
    page = opened(TracedVariant("one", trace))
    whole = page.evaluate("pixels(0)")
    page.evaluate("part('view').focus()")
    page.key("+")
    assert page.evaluate("view()") == [3_000_000, 17_000_000]
    assert page.evaluate("pixels(0)") != whole
    page.key("ArrowRight")
    assert page.evaluate("view()") == [5_100_000, 19_100_000]
    page.key("ArrowLeft", "Shift")
    assert page.evaluate("view()") == [0, 14_000_000]  # not beyond the trace
    page.key("-")
    page.key("Home")
    assert page.evaluate("[view(), pixels(0)]") == [WHOLE, whole]
    left, top, half = middle(page)
    page.mouse("mouseWheel", left + half, top + 100, deltaX=0, deltaY=-300)  # it has the focus: the wheel is its own
    assert length(page.evaluate("view()")) < 8_000_000


def test_two_fingers_zoom_and_one_pans(opened, trace):
    page = opened(TracedVariant("one", trace))
    left, top, _ = middle(page)

    def touch(kind, *places):
        points = [{"x": left + x, "y": top + 100, "id": number} for number, x in enumerate(places)]
        page.call("Input.dispatchTouchEvent", type=kind, touchPoints=points)

    touch("touchStart", 400, 600)
    for apart in (220, 260, 300, 400):
        touch("touchMove", 500 - apart / 2, 500 + apart / 2)
    touch("touchEnd")
    page.settle()
    zoomed = page.evaluate("view()")
    assert 0.4 < length(zoomed) / 20_000_000 < 0.7
    touch("touchStart", 500)
    for x in (490, 450, 400):
        touch("touchMove", x)
    touch("touchEnd")
    page.settle()
    panned = page.evaluate("view()")
    assert length(panned) == pytest.approx(length(zoomed), abs=2)
    assert panned[0] > zoomed[0]


def test_next_longest_gap_goes_from_the_longest_to_the_next(opened, trace):
    page = opened(TracedVariant("one", trace))
    page.evaluate("part('view').focus()")
    page.key("n")
    first = page.evaluate("say('status')")
    assert first.startswith("Gap 1 of 6, 7.4")
    start, end = page.evaluate("view()")
    assert start <= 7_600_000 < 15_025_000 <= end
    page.evaluate("part('next').click()")
    assert page.evaluate("say('status')").startswith("Gap 2 of 6, 4.86 ms without a kernel")
    page.key("p")
    assert page.evaluate("say('status')") == first
    page.evaluate("root.querySelectorAll('[data-gap]')[2].click()")
    assert page.evaluate("say('status')").startswith(
        "Gap 3 of 6, 4.20 ms without a kernel: 71 % of it transforms on the CPU · LoadImage"
    )


def test_a_gap_has_the_cause_of_most_of_its_time(opened, tmp_path):
    page = opened(TracedVariant("one", many_pieces().write(tmp_path / "trace")))
    page.evaluate("part('next').click()")
    told = page.evaluate("say('status')")
    assert told.startswith("Gap 1 of 1, 1.00 ms without a kernel: 60 % of it unknown host time in a phase · forward · ")
    assert told.endswith("3 pieces, the longest 200 µs")


def test_search_finds_and_goes_from_match_to_match(opened, trace):
    page = opened(TracedVariant("one", trace))
    whole = page.evaluate("pixels(0)")
    page.evaluate("part('view').focus()")
    page.key("/")
    page.type("LoadIM")
    # The range of 3 ms, and the idle stretch of as much.
    assert page.evaluate("say('found')") == "2 found, 6.00 ms in total"
    assert page.evaluate("pixels(0)") != whole
    page.key("Enter")
    first = page.evaluate("say('status')")
    page.key("Enter")
    assert {first.split(" · ")[0], page.evaluate("say('status')").split(" · ")[0]} == {"transforms on the CPU", "LoadImage"}
    assert page.evaluate("say('found')") == "2 of 2: 3.00 ms"
    page.type(" and more")
    assert page.evaluate("say('found')").startswith("0 found")
    page.key("Escape")
    page.evaluate("part('fit').click()")
    page.evaluate("part('view').focus()")
    page.key("Escape")
    assert page.evaluate("pixels(0)") == whole


def test_how_long_a_found_kernel_lasts_is_seen_however_long_its_name_is(opened, tmp_path):
    trace = two_epochs()
    trace.kernel(16_000, 16_123, name=f"void at::native::vectorized_{'elementwise_' * 40}kernel")
    page = opened(TracedVariant("one", trace.write(tmp_path / "trace")))
    page.look(420, 900)
    page.evaluate("part('search').focus()")
    page.type("vectorized_elementwise_elementwise")
    page.key("Enter")
    assert page.evaluate("say('found')") == "1 of 1: 123 µs"
    assert " · 123 µs · " in page.evaluate("say('status')")
    assert page.evaluate("part('status').scrollHeight <= part('status').clientHeight")  # all of it is seen


def test_pointer_and_arrows_tell_what_an_event_is(opened, trace):
    page = opened(TracedVariant("one", trace))
    left, top, _ = middle(page)
    page.mouse("mouseMoved", left + 100, top + HEAD + 25)
    assert page.evaluate("say('tip')").startswith("epoch 1")
    page.evaluate("part('view').focus()")
    told = []
    for key in ("ArrowDown", "ArrowDown", "."):
        page.key(key)
        told.append(page.evaluate("say('status')"))
    assert told[0].startswith("epoch 2 · 10.0 ms")  # what lies in the middle
    assert len(set(told)) == 3
    page.key("Enter")
    assert length(page.evaluate("view()")) < 20_000_000
    page.key("Escape")
    assert page.evaluate("say('status')").startswith("Click an event")


def test_two_variants_share_one_scale_or_have_their_own(opened, trace, tmp_path):
    short = two_epochs()
    for row in (row for table in ("ranges", "kernels", "copies", "api") for row in short.rows[table]):
        row["start_ns"], row["end_ns"] = row["start_ns"] // 2, row["end_ns"] // 2
    page = opened(TracedVariant("long", trace), TracedVariant("short", short.write(tmp_path / "short")))
    drawn = lambda: page.evaluate("[pixels(0), pixels(1)]")  # noqa: E731
    assert page.evaluate("part('scale').checked")
    whole = drawn()
    page.evaluate("part('view').focus()")
    page.key("+")
    assert all(one != other for one, other in zip(drawn(), whole, strict=True))
    page.key("Home")
    page.evaluate("part('scale').click()")
    page.settle()
    own = drawn()
    assert own[0] == whole[0] and own[1] != whole[1]  # the shorter one fills its width
    page.key("+")
    page.evaluate("part('view').focus()")
    page.key("+")
    assert drawn()[0] != own[0] and drawn()[1] == own[1]


def test_the_scale_is_each_variants_own_where_one_lasts_far_longer(opened, trace, tmp_path):
    short = two_epochs()
    for row in (row for table in ("ranges", "kernels", "copies", "api") for row in short.rows[table]):
        row["start_ns"], row["end_ns"] = row["start_ns"] // 20, row["end_ns"] // 20
    page = opened(TracedVariant("long", trace), TracedVariant("short", short.write(tmp_path / "short")))
    assert not page.evaluate("part('scale').checked")


def test_hostile_names_are_shown_and_not_run(opened, tmp_path):
    trace = two_epochs()
    trace.range(HOSTILE, 10_100, 10_900)
    page = opened(TracedVariant(HOSTILE, trace.write(tmp_path / "trace")))
    assert page.evaluate("document.images.length") == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= 1000
    page.evaluate("part('search').focus()")
    page.type("onerror")
    page.key("Enter")
    assert "</script><img src=x onerror=alert(#)> \\u202e **bold** \\x1b[#m AAA" in page.evaluate(
        "say('status')"
    )  # of an idle stretch
    page.key("Enter")
    assert "</script><img src=x onerror=alert(1)> \\u202e **bold** \\x1b[31m AAA" in page.evaluate(
        "say('status')"
    )  # of the range


def test_all_events_are_unpacked_and_all_rows_can_be_shown(opened, tmp_path):
    trace = two_epochs()
    for number in range(30):
        trace.call("cudaLaunchKernel", 100 * number, 100 * number + 1, thread=100 + number)
    folder = trace.write(tmp_path / "trace")
    page = opened(TracedVariant("many", folder))
    timeline = read_timeline("many", folder)
    assert page.evaluate("Number(root.dataset.events)") == timeline.events
    assert page.evaluate("say('more')") == f"Show all {len(timeline.rows)} rows"
    height = page.evaluate("part('sheet').offsetHeight")
    page.evaluate("part('more').click()")
    page.settle()
    assert page.evaluate("part('sheet').offsetHeight") > height + 30 * 14
    page.evaluate("part('view').focus()")
    for _ in range(len(timeline.rows) + 3):
        page.key("ArrowDown")
    assert page.evaluate("part('view').scrollTop") > 0  # what is selected is seen


def test_print_shows_all_rows_whole_and_light_and_the_screen_comes_back(opened, tmp_path):
    trace = two_epochs()
    for number in range(30):
        trace.call("cudaLaunchKernel", 100 * number, 100 * number + 1, thread=100 + number)
    page = opened(TracedVariant("many", trace.write(tmp_path / "trace")))
    page.look(1000, 900, "dark")
    page.evaluate("addEventListener('beforeprint', () => { window.left = part('more').textContent; }) || 0")
    page.call("Page.printToPDF")
    assert page.evaluate("left") == "6 of 37 rows"
    assert page.evaluate("part('more').textContent") == "Show all 37 rows"
    page.evaluate("part('more').click()")
    page.settle()
    seen = page.evaluate("[canvas(0).width, canvas(0).height, pixels(0)]")
    assert seen[1] < page.evaluate("part('sheet').offsetHeight")  # the rest is scrolled to
    page.evaluate("""addEventListener('beforeprint', () => {
      const [r, g, b] = canvas(0).getContext('2d').getImageData(1439, 60, 1, 1).data;
      window.printed = [canvas(0).width, canvas(0).height, part('sheet').offsetHeight, r > 200 && g > 200 && b > 200];
    }) || 0""")
    page.call("Page.printToPDF", printBackground=True)
    width, height, sheet, light = page.evaluate("printed")
    assert (width, height, light) == (1440, 2 * sheet, True)
    page.settle()
    assert page.evaluate("[canvas(0).width, canvas(0).height, pixels(0)]") == seen
    page.call("Emulation.setEmulatedMedia", media="print")
    page.settle()
    within = page.evaluate("""((outer, inner) => [inner.right - outer.right, inner.bottom - outer.bottom])(
      part('view').getBoundingClientRect(), canvas(0).getBoundingClientRect())""")
    page.call("Emulation.setEmulatedMedia", media="")
    assert max(within) <= 0


def test_dark_is_drawn_dark(opened, trace, tmp_path):
    page = opened(TracedVariant("one", trace))
    light = page.evaluate("pixels(0)")
    page.look(1000, 900, "dark")
    page.wait(f"pixels(0) !== {light}")
    picture = tmp_path / "dark.png"
    page.screenshot(picture)
    assert np.asarray(Image.open(picture).convert("L")).mean() < 80
