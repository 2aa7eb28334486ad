"""Documents lead where they say."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_every_relative_link_of_a_document_leads_to_a_file():
    listed = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    documents = [ROOT / name for name in listed if not name.startswith("records/")]
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    there = {ROOT / name for name in tracked} | {parent for name in tracked for parent in (ROOT / name).parents}
    links = [(path, link) for path in documents for link in re.findall(r"\]\(([^)#\s]+)", path.read_text(encoding="utf-8"))]
    assert len(links) > 20
    assert [(path.name, link) for path, link in links if ":" not in link and (path.parent / link).resolve() not in there] == []
