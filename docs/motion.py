"""Makes docs/timeline.webp, the worked case's moving picture: the timeline of a report's page, zoomed into by the wheel.

How to make it again, from a copy of a record that holds traces (it needs Chromium, and the tests' packages):

    cp -r records/2026-11-28-h200-published-turbo results/motion
    .venv/bin/speedproof results report --from results/motion
    PYTHONPATH=. .venv/bin/python -m docs.motion results/motion/report.html docs/timeline.webp
"""

import base64
import io
import sys
import tempfile
from pathlib import Path

from PIL import Image

from tests.chromium import Chromium, find_chromium

WIDTH, HEIGHT = 900, 660  # pixels
STEPS = 9
WHEEL = -230  # of one step; Ctrl and the wheel zoom about the pointer
SHARE = 0.411  # of the canvas' width: where the pointer is, on the wait at an epoch's start
FRAME_MS, LAST_MS = 450, 2000
BOX = "(({left, top, width, height}) => [left, top, width, height])(document.querySelector('%s').getBoundingClientRect())"


def take_frames(page: Path, folder: Path) -> list[Image.Image]:
    """Open the page's timeline, zoom in step by step, then hover; return what was seen, first to last."""
    with Chromium(find_chromium(), folder) as browser:
        browser.look(WIDTH, HEIGHT)
        browser.open(page)
        browser.evaluate("document.querySelectorAll('details:has(.timeline)').forEach((fold) => { fold.open = true })")
        browser.evaluate("document.querySelector('.timeline').scrollIntoView({behavior: 'instant'})")
        browser.wait("document.querySelector('.timeline').dataset.ready")
        browser.evaluate("document.querySelector('.timeline').scrollIntoView({behavior: 'instant'})")
        left, top, width, _ = browser.evaluate(BOX % ".timeline canvas")
        x, y = left + SHARE * width, top + 100
        frames = [take_frame(browser)]
        for _ in range(STEPS):
            browser.mouse("mouseWheel", x, y, deltaX=0, deltaY=WHEEL, modifiers=2)
            frames.append(take_frame(browser))
        for share in (0.45, 0.5, 0.55):
            browser.mouse("mouseMoved", left + share * width, y)
            frames.append(take_frame(browser))
    return frames


def take_frame(browser: Chromium) -> Image.Image:
    """Return the window as a picture."""
    browser.settle()
    taken = browser.call("Page.captureScreenshot", format="png")
    return Image.open(io.BytesIO(base64.b64decode(taken["data"]))).convert("RGB")


def main(page: Path, out: Path) -> None:
    """Write the moving picture of a page."""
    with tempfile.TemporaryDirectory() as folder:
        first, *others = take_frames(page.resolve(), Path(folder))
    durations = [1200, *[FRAME_MS] * (len(others) - 1), LAST_MS]
    first.save(out, save_all=True, append_images=others, duration=durations, loop=0, quality=25, method=6)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
