"""The HTML report in a real browser: it shows, with its figures, and asks nobody for anything."""

import shutil
import subprocess

import numpy as np
import pytest
from PIL import Image

from tests.support import require

# Or a page may be drawn before all of its figures are decoded, on a busy machine.
WHOLE = ["--disable-checker-imaging", "--virtual-time-budget=10000"]
QUIET = ["--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-quic", "--no-first-run"]


@pytest.fixture(scope="module")
def browser():
    found = shutil.which("chromium") or shutil.which("google-chrome")
    require("chromium", found is not None, "neither chromium nor google-chrome is on PATH")
    return found


def open_page(browser, page, profile, *arguments):
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", *QUIET, *WHOLE, f"--user-data-dir={profile}", *arguments]
    return subprocess.run([*command, page.as_uri()], capture_output=True, text=True, timeout=120, check=True).stdout


@pytest.fixture(scope="module")
def page(gpu_results):
    return gpu_results / "report.html"


def test_the_page_shows_its_figures(browser, page, tmp_path):
    picture = tmp_path / "page.png"
    open_page(browser, page, tmp_path / "profile", f"--screenshot={picture}", "--window-size=1000,9000")
    pixels = np.asarray(Image.open(picture).convert("RGB"))
    assert pixels.shape[:2] == (9000, 1000)
    # The figures' own colours cover part of the page; text and tables alone have none of them.
    vivid = (pixels.max(axis=2).astype(int) - pixels.min(axis=2)) > 100
    assert vivid.mean() > 0.01


def test_nothing_is_fetched_and_no_picture_is_broken(browser, page, tmp_path):
    probed = tmp_path / "probed.html"
    script = (
        "<script>addEventListener('load', () => { document.title = JSON.stringify({"
        "pictures: document.images.length, "
        "broken: [...document.images].filter(image => !image.naturalWidth).length, "
        "fetched: performance.getEntriesByType('resource').filter(({name}) => !name.startsWith('data:')).length}) })</script>"
    )
    probed.write_text(page.read_text(encoding="utf-8").replace("</body>", f"{script}</body>"), encoding="utf-8")
    title = open_page(browser, probed, tmp_path / "profile", "--dump-dom").split("<title>")[1].split("</title>")[0]
    assert '"broken":0' in title
    assert '"fetched":0' in title
    assert '"pictures":0' not in title
