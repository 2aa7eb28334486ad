"""The pages of the site: copied with what they link to, the reference made of the code."""

import tomllib

from docs.build import collect_pages
from docs.reference import write_reference
from speedproof.config.model import Config
from tests.workflow.checkout import ROOT


def test_the_site_names_pages_that_there_are(tmp_path):
    collect_pages(tmp_path)
    (tmp_path / "docs/reference.md").touch()

    def list_pages(entries):
        for entry in entries:
            for value in entry.values():
                yield from list_pages(value) if isinstance(value, list) else [value]

    named = list(list_pages(tomllib.loads((ROOT / "zensical.toml").read_text())["project"]["nav"]))
    assert [name for name in named if not (tmp_path / name).is_file()] == []
    assert {"CITATION.cff", "src/speedproof/marks.py"} <= {
        path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")
    }


def test_every_workload_has_a_line_in_their_list():
    listed = (ROOT / "workloads/README.md").read_text()
    folders = [path.parent.name for path in (ROOT / "workloads").glob("*/workload.yaml")]
    assert len(folders) >= 5
    assert [name for name in folders if f"[{name}]({name}/README.md)" not in listed] == []


def test_the_reference_has_commands_keys_and_statuses_of_the_code(tmp_path):
    write_reference(tmp_path / "reference.md")
    text = (tmp_path / "reference.md").read_text()
    assert "### speedproof prove" in text and "| `--claim` |" in text
    assert "| `--rounds` | int |  |" in text and "| `--isolate` | flag |" in text
    assert f"| `results` | string | `\"{Config.model_fields['results'].default}\"` |" in text
    assert "| `measurement.pairs` | list of array | `[]` |" in text
    assert "| `measurement.rounds` |" in text and "`completed" not in text
    assert "| claim fails | 1 |" in text and "| inconclusive | 2 |" in text
    assert "### comparison.json" in text
