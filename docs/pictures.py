"""Makes the pictures of report pages in docs/: from kept records, and from a small proof that it runs.

PYTHONPATH=. .venv/bin/python -m docs.pictures            # all of them, minutes; it needs Chromium, and the tests' packages
PYTHONPATH=. .venv/bin/python -m docs.pictures report     # docs/report.webp alone
"""

import base64
import io
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from docs.live import ROOT, SPEEDPROOF, make_page
from docs.motion import BOX
from tests.chromium import Chromium, find_chromium

WIDTH, HEIGHT, SCALE = 1040, 900, 1.25  # CSS pixels of the window, and pixels of the picture in each
ASIDE, ABOVE = 28, 10  # CSS pixels around the element
FIRST_SCREEN = ".first"
# The proof of docs/your-script.md: the same training in double and in single precision.
PROGRAM = """\
import time
import numpy as np

data, layer = (np.random.default_rng(0).normal(size=(900, 900)).astype(np.{dtype}) for _ in range(2))
for epoch in range(1, 7):
    begun = time.perf_counter()
    for step in range(20):
        np.tanh(data @ layer)
    print(f"epoch {{epoch}} took {{time.perf_counter() - begun:.3f}} s", flush=True)
"""
PROOF = ["python a.py", "python b.py", "--epoch-s", r"took (\S+) s", "--claim", ">= 1.5", "--rounds", "6"]


@dataclass(frozen=True)
class Callout:
    """A number beside an element of the first screen; docs/report.md explains it in a row of the same number."""

    element: str  # an expression of JavaScript
    side: str  # left, right, above or below


def _find(selector: str) -> str:
    return f"document.querySelector({json.dumps(selector)})"


def _find_fact(name: str) -> str:
    return f"[...document.querySelectorAll('.facts dt')].find((name) => name.textContent === {json.dumps(name)})"


CALLOUTS = (
    Callout(_find(".badge"), "left"),
    Callout(_find("h1"), "left"),
    Callout(_find(".forest .value b"), "left"),
    Callout(_find(".forest .dot"), "below"),
    Callout(_find(".forest .band"), "above"),
    Callout(_find(".forest .axis span"), "left"),
    Callout(_find(".forest .said"), "left"),
    *(Callout(_find_fact(name), "left") for name in ("How sure", "Documented", "Machine", "Data", "Quality", "Why")),
)
_PLACES = {
    "left": "box.left - 13, box.top + Math.min(box.height / 2, 13)",
    "right": "box.right + 13, box.top + box.height / 2",
    "above": "(box.left + box.right) / 2, box.top - 12",
    "below": "(box.left + box.right) / 2, box.bottom + 13",
}
_STYLE = "position:absolute; width:20px; height:20px; border-radius:50%; background:#6d28d9; color:#fff; text-align:center;"
_STYLE += "font:bold 12px/20px sans-serif; transform:translate(-50%,-50%); z-index:9;"


@dataclass(frozen=True)
class Picture:
    """An element of the page of a record; without a record, of the proof's page."""

    record: str | None
    element: str
    callouts: tuple[Callout, ...] = ()
    width: int = WIDTH  # of the window


def prove_example(folder: Path) -> Path:
    """Run the proof of docs/your-script.md, print its sentence, and return its page."""
    for name, dtype in (("a.py", "float64"), ("b.py", "float32")):
        (folder / name).write_text(PROGRAM.format(dtype=dtype), encoding="utf-8")
    subprocess.run([*SPEEDPROOF, "prove", *PROOF], cwd=folder, check=True)
    return folder / "results/proof/results/report.html"


PICTURES = {
    "report": Picture("2026-11-23-h200-profiling-pair-merged", FIRST_SCREEN, CALLOUTS),
    "worked-case": Picture("2026-11-25-h200-tutorial-pair", FIRST_SCREEN),
    "published-turbo": Picture("2026-11-28-h200-published-turbo", FIRST_SCREEN, width=1440),
    "where-epochs-go": Picture("2026-11-28-h200-published-turbo", "#why .bars"),
    "proof": Picture(None, FIRST_SCREEN),
}


def number_elements(browser: Chromium, callouts: tuple[Callout, ...]) -> None:
    """Lay a number beside each element, where the element is on the page."""
    for number, callout in enumerate(callouts, 1):
        browser.evaluate(f"""(() => {{
            const box = {callout.element}.getBoundingClientRect();
            const [x, y] = [{_PLACES[callout.side]}];
            const mark = document.createElement("b");
            mark.className = "callout";
            mark.textContent = {number};
            mark.style = `{_STYLE} left:${{x + scrollX}}px; top:${{y + scrollY}}px`;
            document.body.append(mark);
        }})()""")


def take_picture(browser: Chromium, page: Path, picture: Picture) -> Image.Image:
    """Return an element of a page with its callouts."""
    size = {"width": picture.width, "height": HEIGHT, "deviceScaleFactor": SCALE, "mobile": False}
    browser.call("Emulation.setDeviceMetricsOverride", **size)
    browser.open(page)
    browser.evaluate("document.querySelectorAll('details.section').forEach((fold) => { fold.open = true })")
    browser.evaluate("document.querySelector('.top').style.visibility = 'hidden'")  # its lowest pixels would be in the picture
    browser.settle()
    number_elements(browser, picture.callouts)
    left, top, width, height = browser.evaluate(BOX % picture.element)
    clip = {"x": left - ASIDE, "y": top - ABOVE, "width": width + 2 * ASIDE, "height": height + 2 * ABOVE, "scale": 1}
    taken = browser.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
    return Image.open(io.BytesIO(base64.b64decode(taken["data"]))).convert("RGB")


def main(names: list[str]) -> None:
    """Make the pictures of these names, or all."""
    for name in names or PICTURES:
        with tempfile.TemporaryDirectory() as folder, Chromium(find_chromium(), Path(folder, "browser")) as browser:
            picture, out = PICTURES[name], ROOT / "docs" / f"{name}.webp"
            page = make_page(picture.record, Path(folder)) if picture.record else prove_example(Path(folder))
            take_picture(browser, page, picture).save(out, quality=62, method=6)
            print(f"{out}: {out.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main(sys.argv[1:])
