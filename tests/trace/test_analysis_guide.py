"""The output that docs/analysis.md shows is what the commands print of these traces."""

import io
import re

import pytest
from rich.console import Console

from speedproof.profilers.convert import convert_input
from speedproof.report.terminal import print_difference, print_summary
from speedproof.trace.diff import analyze_pair, compare_summaries
from speedproof.trace.summarize import analyze_chosen, analyze_trace
from speedproof.util.errors import RecordError
from tests.workflow.checkout import ROOT

ALONE = "power_iteration__baseline.sqlite"
PAIR = ("mfu_2gpu_before.sqlite", "mfu_2gpu_after.sqlite")
GUIDE = (ROOT / "docs/analysis.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```text\n(.*?)^```", GUIDE, re.M | re.S)


def squeeze(text):
    return " ".join(text.split())


@pytest.fixture(scope="module")
def printed(samples, tmp_path_factory):
    """Return all that `trace analyze` and `trace diff` print of the guide's traces, and the refusal of two that are unlike."""
    folders = {name: tmp_path_factory.mktemp("trace") for name in (ALONE, *PAIR)}
    for name, folder in folders.items():
        convert_input(samples / "traces" / name, folder)
    file = io.StringIO()
    console = Console(file=file, highlight=False, markup=False, width=120)
    alone = analyze_trace(folders[ALONE])
    print_summary(alone, console)
    (before, after), _ = analyze_pair(folders[PAIR[0]], folders[PAIR[1]], analyze_chosen)
    print_difference(compare_summaries(before, after, PAIR), console)
    with pytest.raises(RecordError) as refused:
        compare_summaries(alone, before, (ALONE, PAIR[0]))
    return squeeze(f"{file.getvalue()} {refused.value}")


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: squeeze(block)[:30])
def test_the_guide_shows_what_is_printed(block, printed):
    assert [line for line in block.splitlines() if squeeze(line) not in printed] == []


def test_the_guide_names_messages_that_exist():
    shown = GUIDE.partition("## When it refuses")[2].partition("## ")[0]
    messages = [part for row in re.findall(r"^\| (`.*?) \|", shown, re.M) for part in re.findall(r"`([^`]+)`", row)]
    assert len(messages) == 13
    source = squeeze(" ".join(path.read_text(encoding="utf-8") for path in (ROOT / "src/speedproof").rglob("*.py")))
    # Numbers and versions are filled in, and one word: what is too old, or too new.
    parts = [part for text in messages for part in re.split(r"\s*(?:…,?|\d\S*|\(.*\)|too old)\s*", text) if part]
    assert [part for part in parts if part not in source] == []
