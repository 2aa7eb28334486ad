"""Collects the pages of the documentation site: `make docs`. A broken link fails the build.

Pages keep their paths in the repository, so that links work in both. The files that they link to are copied, too.
The search skips reports of records and the section *Evidence*, whose long tables would hide answers. All other pages show the
meaning of the words of docs/glossary.md on hover.
"""

import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

from docs.live import show_pages
from docs.reference import write_reference

ROOT = Path(__file__).parents[1]
PAGES = (
    "*.md",
    "docs/*.md",
    "docs/*.svg",
    "docs/*.css",
    "docs/*.js",
    "workloads/*.md",
    "workloads/*/*.md",
    "workloads/*/docs/*",
    "records/*/report.md",
    "records/*/report.svg",
    "ledger/records/*/report.md",
    "ledger/records/*/report.svg",
)
_UNSEARCHED = ("records/", "ledger/", "tests/")  # reports, and what a page links to among the tests
_EXCLUDES = "---\nsearch:\n  exclude: true\n---\n\n"
_LINK = re.compile(r"\]\(([^)#\s:]+)(?:#[^)]*)?\)")
_GLOSSARY = "docs/glossary.md"
# Words of the glossary that everybody knows, or that also mean something else: a tooltip on each of them would only be noise.
_PLAIN = {"program", "run", "mode", "mark", "quality", "interval", "trace", "phase", "cause", "coverage", "record", "control"}
_PLAIN |= {"claim", "reference", "verdict"}


def collect_pages(out: Path) -> None:
    """Copy all pages, and the files that they link to, into an empty folder, each to its path in the repository."""
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
    evidence, terms = list_evidence(), read_terms()
    for page in out.rglob("*.md"):
        name = page.relative_to(out).as_posix()
        if name in evidence or name.startswith(_UNSEARCHED):
            page.write_text(_EXCLUDES + page.read_text(encoding="utf-8"), encoding="utf-8")
        elif name != _GLOSSARY:
            add_tooltips(page, terms)


def add_tooltips(page: Path, terms: Mapping[str, str]) -> None:
    """Append those of the terms that a page uses, as abbreviations, which the site shows as tooltips."""
    text = page.read_text(encoding="utf-8")
    used = "".join(f"*[{term}]: {meaning}\n" for term, meaning in terms.items() if re.search(rf"\b{term}\b", text))
    page.write_text(f"{text}\n{used}", encoding="utf-8")


def read_terms() -> dict[str, str]:
    """Return the glossary's words that need a tooltip, and their plurals, each with its meaning as plain text."""
    table = (ROOT / _GLOSSARY).read_text(encoding="utf-8").partition("\n## ")[0]
    rows = [row.strip("| ").split(" | ") for row in table.splitlines() if row.startswith("| ")][1:]
    plain = {words: re.sub(r"\[(.+?)\]\(.+?\)|[*`]", r"\1", meaning) for words, meaning in rows}
    terms = {word: meaning for words, meaning in plain.items() for word in words.split(", ") if word not in _PLAIN}
    return terms | {f"{word}s": meaning for word, meaning in terms.items()}


def list_evidence() -> list[str]:
    """Return the pages of the site's section *Evidence*."""
    sections = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]["nav"]
    pages = next(section["Evidence"] for section in sections if "Evidence" in section)
    return [name for page in pages for name in page.values()]


def _copy(path: Path, to: Path) -> None:
    if path.is_file() and not to.exists():
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, to)


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    shutil.rmtree(folder, ignore_errors=True)
    collect_pages(folder)
    write_reference(folder / "docs/reference.md")
    add_tooltips(folder / "docs/reference.md", read_terms())
    show_pages(folder / "docs/live.md")
