"""Makes pages of kept records: those that the site shows, and those that docs/pictures.py takes pictures of."""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
SPEEDPROOF = [sys.executable, "-m", "speedproof"]
_REPORT = re.compile(r"\]\(\.\./records/([\w-]+)/report\.md\)")


def make_page(record: str, folder: Path) -> Path:
    """Make the page of a kept record, in a copy of it."""
    shutil.copytree(ROOT / "records" / record, folder / record)
    subprocess.run([*SPEEDPROOF, "results", "report", f"--from={folder / record}"], check=True)
    return folder / record / "report.html"


def show_pages(document: Path) -> None:
    """Let a document's links to reports lead to pages, made in a folder of its name, and add their sizes."""
    live = document.with_suffix("")
    live.mkdir()

    def show(link: re.Match[str]) -> str:
        shown = live / f"{link[1]}.html"
        with tempfile.TemporaryDirectory() as folder:
            shutil.copyfile(make_page(link[1], Path(folder)), shown)
        return f"]({live.name}/{shown.name}) ({shown.stat().st_size / 1e6:.1f} MB)"

    document.write_text(_REPORT.sub(show, document.read_text(encoding="utf-8")), encoding="utf-8")
