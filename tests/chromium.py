"""A real Chromium, driven over its own pipe (DevTools protocol): real mouse, real keys, real time, and no library.

`Chromium` is one process with a page in it. What the page logs as a warning or an error, what it throws and what it asks for
are kept, so that a test can say that there was none.
"""

import base64
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any, Self

from tests.support import require

_FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars", "--mute-audio", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-quic", "--remote-debugging-pipe",
]  # fmt: skip
_MODIFIERS = {"Alt": 1, "Control": 2, "Meta": 4, "Shift": 8}
_CODES = {"Enter": 13, "Escape": 27, "Home": 36, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "Tab": 9}


def find_chromium() -> str:
    """Return the browser, or skip the test."""
    found = shutil.which("chromium") or shutil.which("google-chrome")
    require("chromium", found is not None, "neither chromium nor google-chrome is on PATH")
    assert found is not None
    return found


class Chromium:
    """A browser with one page, 1440×900 and light unless said otherwise."""

    def __init__(self, program: str, folder: Path) -> None:
        commands, answers = os.pipe(), os.pipe()

        def place_pipes() -> None:  # the browser reads 3 and writes 4
            reading, writing = os.dup(commands[0]), os.dup(answers[1])
            os.dup2(reading, 3)
            os.dup2(writing, 4)

        command = [program, *_FLAGS, f"--user-data-dir={folder}", "about:blank"]
        quiet = subprocess.DEVNULL
        self._process = subprocess.Popen(command, stdout=quiet, stderr=quiet, preexec_fn=place_pipes, close_fds=False)
        os.close(commands[0])
        os.close(answers[1])
        self._out, self._in = os.fdopen(commands[1], "wb", 0), os.fdopen(answers[0], "rb")
        self._number, self._read, self._session = 0, b"", None
        self.problems: list[str] = []
        self.requests: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.look(1440, 900)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:  # in good order, so that none of its processes is left
            self._out.write(b'{"id": 0, "method": "Browser.close"}\0')
            self._process.wait(10)
        except (OSError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        self._out.close()
        self._in.close()

    def call(self, method: str, **values: Any) -> dict[str, Any]:
        """Call a method of the protocol and return its result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": values}
        if self._session:
            message["sessionId"] = self._session
        self._out.write(json.dumps(message).encode() + b"\0")
        number = self._number
        while True:
            answer = self._receive()
            if answer.get("id") == number:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self._note(answer)

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._read:
            piece = os.read(self._in.fileno(), 1 << 20)
            assert piece, "the browser has ended"
            self._read += piece
        message, _, self._read = self._read.partition(b"\0")
        return json.loads(message)

    def _note(self, event: dict[str, Any]) -> None:
        about, method = event.get("params", {}), event.get("method")
        if method == "Runtime.exceptionThrown":
            details = about["exceptionDetails"]
            self.problems.append(str(details.get("exception", {}).get("description", details["text"])))
        elif method == "Runtime.consoleAPICalled" and about["type"] in ("error", "warning", "assert"):
            self.problems.append(" ".join(str(word.get("value", word.get("description"))) for word in about["args"]))
        elif method == "Log.entryAdded" and about["entry"]["level"] in ("error", "warning"):
            self.problems.append(about["entry"]["text"])
        elif method == "Network.requestWillBeSent" and not about["request"]["url"].startswith(("data:", "blob:")):
            self.requests.append(about["request"]["url"])
        elif method == "Page.javascriptDialogOpening":
            self.problems.append(f"a dialog: {about['message']}")

    def look(self, width: int, height: int, scheme: str = "light") -> None:
        """Set the window's size in pixels, and `light` or `dark`."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def open(self, page: Path) -> None:
        """Open a file, and wait until it is loaded; what was noted before is forgotten."""
        self.problems, self.requests = [], []
        self.call("Page.navigate", url=page.as_uri())
        self.evaluate("new Promise((done) => document.readyState === 'complete' ? done() : addEventListener('load', done))")

    def evaluate(self, expression: str) -> Any:
        """Return the value of an expression in the page, of a promise what it becomes."""
        answer = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise AssertionError(
                answer["exceptionDetails"].get("exception", {}).get("description", answer["exceptionDetails"]["text"])
            )
        return answer["result"].get("value")

    def wait(self, condition: str, seconds: float = 20) -> None:
        """Wait until a condition holds in the page, and what it changed is drawn."""
        polling = f"""new Promise((done) => {{
            const end = performance.now() + {1000 * seconds};
            const ask = () => {{
                const yes = !!({condition});
                if (yes || performance.now() > end) requestAnimationFrame(() => requestAnimationFrame(() => done(yes)));
                else setTimeout(ask, 20);
            }};
            ask();
        }})"""
        assert self.evaluate(polling), f"{condition}: not within {seconds} s; {self.problems}"

    def mouse(self, kind: str, x: float, y: float, **values: Any) -> None:
        """Send an event of the mouse: mousePressed, mouseReleased, mouseMoved, mouseWheel (with deltaX, deltaY)."""
        if kind in ("mousePressed", "mouseReleased"):
            values = {"button": "left", "clickCount": 1} | values
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **values)
        self.settle()

    def click(self, x: float, y: float, count: int = 1) -> None:
        """Click once, or several times."""
        for number in range(1, count + 1):
            self.mouse("mousePressed", x, y, clickCount=number)
            self.mouse("mouseReleased", x, y, clickCount=number)

    def drag(self, x: float, y: float, to_x: float, to_y: float) -> None:
        """Press, move and let go."""
        self.mouse("mousePressed", x, y)
        for share in (0.25, 0.5, 0.75, 1.0):
            self.mouse("mouseMoved", x + share * (to_x - x), y + share * (to_y - y), button="left", buttons=1)
        self.mouse("mouseReleased", to_x, to_y)

    def key(self, key: str, *held: str) -> None:
        """Press a key, as the page's `KeyboardEvent.key` names it, with others held."""
        values: dict[str, Any] = {"key": key, "modifiers": sum(_MODIFIERS[name] for name in held)}
        values["windowsVirtualKeyCode"] = _CODES.get(key, ord(key[0].upper()))
        if len(key) == 1 and not {"Control", "Alt", "Meta"} & set(held):
            values["text"] = key
        elif key == "Enter":
            values["text"] = "\r"
        self.call("Input.dispatchKeyEvent", type="keyDown", **values)
        values.pop("text", None)
        self.call("Input.dispatchKeyEvent", type="keyUp", **values)
        self.settle()

    def type(self, text: str) -> None:
        """Write text where the cursor is."""
        self.call("Input.insertText", text=text)
        self.settle()

    def settle(self) -> None:
        """Wait until two more frames are drawn."""
        self.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(0))))")

    def screenshot(self, path: Path, whole: bool = False) -> None:
        """Write a picture of the window, or of the whole page."""
        picture = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(picture["data"]))
