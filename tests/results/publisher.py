"""A server of one file: whole or from a byte on, and, where a test wants it, one of the ways in which servers fail."""

import hashlib
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest

from speedproof.results.registry import Entry


class Publisher(HTTPServer):
    """What is offered and how; tests change it between two downloads. `asked` has the conditions of each request."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Answer)
        self.content = bytes(range(100))
        self.version = {"ETag": '"first"'}
        self.ranges = True  # else every answer is the whole file
        self.conditions = True  # else a part is sent whatever version it is asked of
        self.blocks = 1  # bytes: a part begins at a multiple of them
        self.says_length = True
        self.headers = {}  # of every answer, in place of the true ones
        self.moved = None  # where whoever asks for another address is sent
        self.pause_s = 0.0  # before each of the 16 pieces of an answer
        self.failures = []  # status codes of the next answers
        self.breaks_after = []  # bytes that the next answers bring before the connection breaks
        self.asked = []

    def entry(self, **changes):
        """Return the registry's entry for what is offered now."""
        values = {
            "name": "Spleen",
            "title": "Spleen, handmade",
            "version": "1",
            "url": f"http://127.0.0.1:{self.server_port}/set/spleen.tar",
            "md5": hashlib.md5(self.content).hexdigest(),
            "size_bytes": None,
            "expected_mib": 1,
            "licence": "CC0-1.0",
            "page": "none",
        }
        return Entry(**values | changes)


class _Answer(BaseHTTPRequestHandler):
    def do_GET(self):
        offer = self.server
        asked = {name: self.headers[name] for name in ("Range", "If-Range") if name in self.headers}
        offer.asked.append(asked)
        if offer.moved and not (offer.moved.endswith(self.path) and self.path.endswith("/welcome")):
            self._send_head(302, {"Location": offer.moved, "Content-Length": "0"})
            return
        if offer.failures:
            self.send_error(offer.failures.pop(0))
            return
        first, total = 0, len(offer.content)
        same_version = asked.get("If-Range") in offer.version.values() or not offer.conditions
        if "Range" in asked and offer.ranges and same_version:
            first = int(asked["Range"].removeprefix("bytes=").removesuffix("-")) // offer.blocks * offer.blocks
            if first >= total:
                self._send_head(416, {"Content-Range": f"bytes */{total}"})
                return
        place = {"Content-Range": f"bytes {first}-{total - 1}/{total}"} if first else {}
        length = {"Content-Length": str(total - first)} if offer.says_length else {}
        self._send_head(206 if first else 200, offer.version | place | length | offer.headers)
        body = offer.content[first:]
        body = body[: offer.breaks_after.pop(0)] if offer.breaks_after else body
        piece = len(body) if not offer.pause_s else max(1, len(body) // 16)
        with suppress(ConnectionError):  # who asked may want no more
            for start in range(0, len(body), piece or 1):
                if offer.pause_s:
                    time.sleep(offer.pause_s)
                self.wfile.write(body[start : start + piece])

    def _send_head(self, status, headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def publisher(monkeypatch):
    """A server on this machine that offers one file."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with Publisher() as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()
