"""Documents lead where they say: their links, and the paths that they name in backticks."""

import re
import subprocess
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).parents[1]
TRACKED = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
THERE = {*TRACKED} | {str(parent) for name in TRACKED for parent in PurePosixPath(name).parents}
TOPS = {name.partition("/")[0] for name in THERE}
DOCUMENTS = [
    name for name in TRACKED if name.endswith(".md") and not name.startswith(("records/", "ledger/records/", "tests/"))
]
PACKAGE = "src/speedproof"
# Folders that runs make. In a document they are below a results folder, or in the working folder.
MADE = {".snakemake", ".venv", "analysis", "experiments", "container", "exports", "logs", "proof", "results", "runs", "traces"}
# Files of other projects, which a document names beside ours.
FOREIGN = {
    "3d_segmentation/brats_segmentation_3d.ipynb",
    "acceleration/distributed_training/brats_training_ddp.py",
    "performance_profiling/pathology/train_evaluate_nvtx.py",
    "tests/data/trace_diff",
}
PLACEHOLDER = re.compile(r"<[^>]*>|\b[A-Z]{2,}\d?\b|…")  # <name>, NAME: any one
PATH = re.compile(r"[\w.*<>…-]+(/[\w.*<>…-]+)+/?")


def list_paths(text: str) -> list[str]:
    """Return the paths in backticks that would be of this repository, placeholders as `*`."""
    words = [word.strip("'\",;:()") for quoted in re.findall(r"`([^`\n]+)`", text) for word in quoted.split()]
    paths = [word.partition("::")[0].rstrip("/").removeprefix("./") for word in words]
    return [PLACEHOLDER.sub("*", path) for path in paths if PATH.fullmatch(path) and is_ours(PurePosixPath(path))]


def is_ours(path: PurePosixPath) -> bool:
    """Whether a path begins with a folder of the repository, or is a file that nobody else makes."""
    if str(path) in FOREIGN or path.parts[0] in MADE:
        return False
    return path.parts[0] in TOPS or path.suffix in (".py", ".md", ".yaml", ".smk", ".toml", ".j2")


def leads_somewhere(path: str, document: str) -> bool:
    """Whether a path is there: from the root, the document's folder or the package; else below any folder."""
    places = [path, (PurePosixPath(document).parent / path).as_posix(), f"{PACKAGE}/{path}"]
    if path.partition("/")[0] not in TOPS:
        places.append(f"*/{path}")
    return any(place in THERE or ("*" in place and any(fnmatch(name, place) for name in THERE)) for place in places)


def test_every_relative_link_of_a_document_leads_to_a_file():
    there = {ROOT / name for name in THERE}
    texts = {ROOT / name: (ROOT / name).read_text(encoding="utf-8") for name in DOCUMENTS}
    links = [(path, link) for path, text in texts.items() for link in re.findall(r"\]\(([^)#\s]+)", text)]
    assert len(links) > 20
    assert [(path.name, link) for path, link in links if ":" not in link and (path.parent / link).resolve() not in there] == []


def test_every_link_to_a_section_leads_to_its_heading():
    def name_anchors(text: str) -> set[str]:
        headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
        return {re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower()) for heading in headings}

    pages = {ROOT / name: (ROOT / name).read_text(encoding="utf-8") for name in DOCUMENTS}
    links = [(path, link) for path, text in pages.items() for link in re.findall(r"\]\(([\w./-]*)#([^)\s]+)\)", text)]
    assert len(links) > 50
    aims = [(path, path if not page else (path.parent / page).resolve(), anchor) for path, (page, anchor) in links]
    assert [(path.name, anchor) for path, aim, anchor in aims if aim in pages and anchor not in name_anchors(pages[aim])] == []


def test_every_step_of_a_walk_names_what_its_module_defines():
    walks = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("## The walks")[2].partition("\n## ")[0]
    steps = re.findall(r"`([\w/]+\.py)`,\s+`(\w+)`", walks)
    assert len(steps) >= 32
    missing = [
        (module, name)
        for module, name in steps
        if not re.search(rf"^\s*(def |class )?{name}\b", (ROOT / PACKAGE / module).read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert missing == []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_path_that_a_document_names_is_there(document):
    paths = list_paths((ROOT / document).read_text(encoding="utf-8"))
    assert [path for path in paths if not leads_somewhere(path, document)] == []


def test_a_path_that_is_not_there_is_found():
    text = "See `tests/test_links.py`, `tests/gone.py`, `workloads/<name>/claims.yaml`, `docs/NAME.txt`, `results/report.html`."
    assert [path for path in list_paths(text) if not leads_somewhere(path, "README.md")] == ["tests/gone.py", "docs/*.txt"]
    assert [*list_paths("`time/epoch` `a/b.csv` `util/sources.py::NAME`")] == ["util/sources.py"]
