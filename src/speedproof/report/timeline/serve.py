"""One file, offered by this machine to a Perfetto page: to nobody else's page, and to no other machine."""

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote, urlsplit

import requests

from speedproof.report.timeline.pftrace import PERFETTO_FILE
from speedproof.util.errors import ConfigError, SpeedproofError, StorageError

PUBLIC_PAGE = "https://ui.perfetto.dev"
PAGE_PORT = 9001  # the only one of this machine that the public page asks
_HOST = "127.0.0.1"
_PATIENCE_S = 10
_PIECE = 1 << 20  # bytes


class PageError(SpeedproofError):
    """A Perfetto page that does not answer."""

    exit_code = 3


class Offer(ThreadingHTTPServer):
    """Offers a file until a page has fetched it (:meth:`serve_until_fetched`).

    Each connection has a thread: browsers open some that they never use.
    """

    daemon_threads = True
    timeout = 0.1  # seconds between checks whether the page has fetched it

    def __init__(self, file: Path, page: str, port: int = PAGE_PORT) -> None:
        """Listen on this machine only.

        Args:
            file: the file to offer
            page: the address of the Perfetto page, the only one whose scripts may read it
            port: to listen on; 0 takes a free one

        Raises:
            ConfigError: `page` is not the address of a page
            StorageError: the port is in use

        """
        self.file, self.origin, self.fetched = file, _read_origin(page), False
        try:
            super().__init__((_HOST, port), _Answer)
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            raise StorageError(
                f"port {port} of this machine cannot be used ({why}); stop what listens there, or give --port and your own "
                f"--page ({PUBLIC_PAGE} only asks port {PAGE_PORT})"
            ) from None
        own = f"http://{_HOST}:{self.server_port}/{PERFETTO_FILE}"
        self.link = f"{page.rstrip('/')}/#!/?url={quote(own, safe='')}"

    def serve_until_fetched(self) -> None:
        """Answer until the page has all of the file."""
        while not self.fetched:
            self.handle_request()

    def handle_error(self, *_: object) -> None:
        """Ignore a browser that hung up: it may ask again."""


def check_page(page: str) -> None:
    """Raise :class:`PageError` if a page does not answer, as without a network; ConfigError if it is not an address."""
    _read_origin(page)
    try:
        requests.head(page, timeout=_PATIENCE_S, allow_redirects=True)
    except requests.RequestException:
        raise PageError(
            f"{page}: no answer; this machine may be offline; open {PERFETTO_FILE} on a machine with a network, or name your "
            "own Perfetto page (--page http://localhost:10000)"
        ) from None


def _read_origin(page: str) -> str:
    """Return what a browser calls the page's origin."""
    try:
        address = urlsplit(page)
        if address.scheme in ("http", "https") and address.netloc and not address.username:
            return f"{address.scheme}://{address.netloc}".lower()
    except ValueError:
        pass
    raise ConfigError(f"--page {page}: give the address of a Perfetto page, such as {PUBLIC_PAGE}")


class _Answer(BaseHTTPRequestHandler):
    server: Offer

    def do_GET(self) -> None:
        if not self._is_meant():
            return
        with self.server.file.open("rb") as file:
            self._send_head(200, {"Content-Type": "application/octet-stream", "Content-Length": str(file.seek(0, 2))})
            file.seek(0)
            while piece := file.read(_PIECE):
                self.wfile.write(piece)
        if "Origin" in self.headers:  # as a browser asks for a page; others may look, and the page still gets it
            self.server.fetched = True

    def do_OPTIONS(self) -> None:
        """Answer a browser that asks before it lets a page of the web read what this machine offers."""
        if self._is_meant():
            self._send_head(204, {"Access-Control-Allow-Methods": "GET", "Access-Control-Allow-Private-Network": "true"})

    def _is_meant(self) -> bool:
        """Refuse other files, other pages, and other names of this machine, which a page may have let point here."""
        mine = self.headers.get("Host") == f"{_HOST}:{self.server.server_port}"
        if mine and self.path == f"/{PERFETTO_FILE}" and self.headers.get("Origin", self.server.origin) == self.server.origin:
            return True
        self.send_error(404)
        return False

    def _send_head(self, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in ({"Access-Control-Allow-Origin": self.server.origin, "Cache-Control": "no-store"} | headers).items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing: the command does."""
