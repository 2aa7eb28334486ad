"""What `speedproof trace open` offers: to the page that was chosen, once, and to nobody else."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

import pytest
import requests
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace

from speedproof.report.timeline.serve import Offer, PageError, check_page
from speedproof.util.errors import ConfigError, StorageError
from tests.chromium import Chromium, find_chromium
from tests.trace.handmade import two_epochs

# What a Perfetto page does with a link: it fetches what `url` names.
PAGE = b"""<!doctype html><html lang=en><title>waits</title><link rel=icon href=data:,><script>
fetch(new URLSearchParams(location.hash.split('?')[1]).get('url'))
  .then((answer) => answer.arrayBuffer())
  .then((bytes) => { document.title = `${bytes.byteLength} bytes`; }, (error) => { document.title = `refused: ${error}`; });
</script>"""


class OwnPage(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(PAGE)

    def do_HEAD(self):
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def page():
    with ThreadingHTTPServer(("127.0.0.1", 0), OwnPage) as server:
        thread = threading.Thread(target=server.serve_forever, args=[0.02])
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
def offer(tmp_path, page):
    file = tmp_path / "any.pftrace"
    file.write_bytes(bytes(range(250)))
    with Offer(file, page, port=0) as offer:
        thread = threading.Thread(target=offer.serve_until_fetched)
        thread.start()
        offer.address = f"http://127.0.0.1:{offer.server_port}/trace.pftrace"
        yield offer
        offer.fetched = True
        thread.join()


@pytest.fixture
def browser(tmp_path):
    with Chromium(find_chromium(), tmp_path / "profile") as chromium:
        yield chromium


def test_a_page_of_ones_own_fetches_it_and_another_may_not(browser, offer, page):
    browser.call("Page.navigate", url=offer.link.replace("127.0.0.1", "localhost", 1))  # another origin than was chosen
    browser.wait("document.title.startsWith('refused')")
    assert not offer.fetched
    browser.call("Page.navigate", url=offer.link)
    browser.wait("document.title === '250 bytes'")


def test_only_the_chosen_page_is_answered_and_only_about_the_file(offer, page):
    def ask(address=offer.address, method="GET", **headers):
        return requests.request(method, address, headers=headers, timeout=5)

    assert ask(Origin="https://elsewhere.example").status_code == 404
    assert ask(Host="elsewhere.example").status_code == 404
    assert ask(offer.address.replace("trace.pftrace", "../etc/passwd")).status_code == 404
    asked_before = ask(method="OPTIONS", Origin=page)
    assert (asked_before.status_code, asked_before.headers["Access-Control-Allow-Private-Network"]) == (204, "true")
    assert ask().content == bytes(range(250))  # another program of this machine, which is no page
    assert not offer.fetched
    answer = ask(Origin=page)
    assert (answer.content, answer.headers["Access-Control-Allow-Origin"]) == (bytes(range(250)), page)


def test_it_listens_on_this_machine_alone(offer):
    assert offer.server_address[0] == "127.0.0.1"


def test_a_port_that_is_taken_is_one_line(offer, tmp_path):
    with pytest.raises(StorageError, match=rf"port {offer.server_port} of this machine cannot be used"):
        Offer(tmp_path / "any", "http://localhost", offer.server_port)


@pytest.mark.parametrize("page", ["perfetto", "file:///etc", "http://", "http://[", "javascript:alert(1)"])
def test_what_is_no_page_is_refused(page):
    with pytest.raises(ConfigError, match="give the address of a Perfetto page"):
        check_page(page)


@pytest.fixture
def opened(speedproof_here, page, monkeypatch):
    """A function that opens what it is given, and returns what the page then fetched."""
    fetched = []

    def fetch(link):
        address = unquote(link.partition("url=")[2])
        thread = threading.Thread(target=lambda: fetched.append(requests.get(address, headers={"Origin": page}, timeout=20)))
        thread.start()
        fetched.append(thread)

    def open_shown(*words):
        fetched.clear()
        ended = speedproof_here("trace", "open", *words, "--page", page, "--port", 0)
        assert (ended.returncode, ended.stderr) == (0, "")
        assert f"{page}/#!/?url=http%3A%2F%2F127.0.0.1%3A" in ended.stdout
        fetched[0].join()
        return fetched[1].content

    monkeypatch.setattr("webbrowser.open", fetch)
    monkeypatch.setenv("DISPLAY", ":0")
    return open_shown


def test_a_trace_or_what_was_made_of_it_is_opened_from_the_command_line(opened, tmp_path):
    assert b"sm80_xmma_fprop_implicit_gemm_f16" in opened(two_epochs().write(tmp_path / "trace"))
    (tmp_path / "made.pftrace").write_bytes(b"as it is")
    assert opened(tmp_path / "made.pftrace") == b"as it is"


def test_results_are_opened_with_the_two_variants_of_their_page(opened, gpu_results):
    tracks = [packet.track_descriptor for packet in Trace.FromString(opened("--from", gpu_results)).packet]
    assert [track.name for track in tracks if track.uuid and not track.parent_uuid] == [
        "MONAI baseline script",
        "MONAI fast script",
    ]


def test_offline_it_says_so_in_one_line(speedproof_here, tmp_path):
    with ThreadingHTTPServer(("127.0.0.1", 0), OwnPage) as server:
        closed = f"http://127.0.0.1:{server.server_port}"
    ended = speedproof_here("trace", "open", tmp_path / "any.pftrace", "--page", closed)
    assert (ended.returncode, ended.stdout) == (PageError.exit_code, "")
    assert ended.stderr == (
        f"speedproof: {closed}: no answer; this machine may be offline; open trace.pftrace on a machine with a network, "
        "or name your own Perfetto page (--page http://localhost:10000)\n"
    )


def test_what_cannot_be_opened_is_one_line(speedproof_here, page, tmp_path):
    for words, said in (
        ((tmp_path / "none.pftrace",), "none.pftrace: no such file"),
        ((tmp_path / "a", tmp_path / "b", tmp_path / "c"), "give one trace or two, not 3"),
        (("--from", tmp_path), str(tmp_path)),
    ):
        ended = speedproof_here("trace", "open", *words, "--page", page, "--no-browser")
        assert ended.returncode and said in ended.stderr, words
