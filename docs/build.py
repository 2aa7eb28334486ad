"""Builds the site of the documents: `make docs`. Every link must lead somewhere, or the build fails.

Pages keep their places in the repository, so that a link that works there works here. What they link to is copied beside them.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

from docs.reference import write_reference

ROOT = Path(__file__).parents[1]
PAGES = (
    "*.md",
    "docs/*.md",
    "docs/*.svg",
    "workloads/*.md",
    "workloads/*/*.md",
    "workloads/*/docs/*",
    "records/*/report.md",
    "records/*/report.svg",
)
_LINK = re.compile(r"\]\(([^)#\s:]+)(?:#[^)]*)?\)")


def collect_pages(out: Path) -> None:
    """Copy all pages and the files that they link to into an empty folder, each where it stands in the repository."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    names = [name for name in listed.stdout.splitlines() if any(Path(name).match(pattern) for pattern in PAGES)]
    for name in names:
        _copy(ROOT / name, out / name)
    for page in [ROOT / name for name in names if name.endswith(".md")]:
        for link in _LINK.findall(page.read_text(encoding="utf-8")):
            linked = (page.parent / link).resolve()
            if linked.is_relative_to(ROOT) and linked.is_file():
                _copy(linked, out / linked.relative_to(ROOT))


def _copy(path: Path, to: Path) -> None:
    if path.is_file() and not to.exists():
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, to)


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    shutil.rmtree(folder, ignore_errors=True)
    collect_pages(folder)
    write_reference(folder / "docs/reference.md")
