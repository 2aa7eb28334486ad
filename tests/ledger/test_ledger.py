"""The ledger: entries are checked, run by `prove`, and judged; its page and its schema are current."""

import json
import math
import shutil

import pytest
from typer.testing import CliRunner

from speedproof.cli.application import app
from speedproof.config.load import schema_text
from speedproof.run.ledger import run_entry
from speedproof.run.ledger.entry import LedgerEntry, load_entry, load_ledger
from speedproof.run.ledger.entry_outcome import EntryOutcome, find_outcomes, judge_entry
from speedproof.run.ledger.ledger_check import list_ledger_mistakes
from speedproof.run.ledger.ledger_tables import BEGIN_TABLE, END_TABLE, compose_ledger_page
from speedproof.run.ledger.run_entry import check_packages, lay_out_programs
from speedproof.util.errors import ConfigError, DataError, RecordError
from tests.ledger.conftest import describe_mine, describe_published
from tests.workflow.checkout import ROOT


def call(*words):
    return CliRunner().invoke(app, ["ledger", *map(str, words)], env={"COLUMNS": "240"})


def status_of(result):
    """The exit status as the command line gives it: an error's own, where there is one."""
    return getattr(result.exception, "exit_code", result.exit_code)


def number_of(comparator, reads="times as fast", **digits):
    return {"text": "so fast", "reads": reads, "stated": {"comparator": comparator, **digits}}


@pytest.fixture(scope="module")
def outcomes():
    return {}


@pytest.fixture
def kept_judged_once(outcomes, monkeypatch):
    """Judge an entry by a kept record once for all tests that use this: each of the many records is read for it."""

    def judge_once(entry, folder):
        key = entry.model_dump_json(), folder
        if key not in outcomes:
            outcomes[key] = judge_entry(entry, folder)
        return outcomes[key]

    for module in ("entry_outcome", "ledger_check"):
        monkeypatch.setattr(f"speedproof.run.ledger.{module}.judge_entry", judge_once)


@pytest.mark.usefixtures("kept_judged_once")
def test_the_shipped_entries_have_no_mistakes():
    assert list(list_ledger_mistakes(ROOT / "ledger")) == []
    assert len(load_ledger(ROOT / "ledger")) >= 8


def test_the_schema_is_that_of_the_model():
    text = schema_text(LedgerEntry, "`speedproof schema --ledger`")
    assert (ROOT / "workflow/schemas/ledger.schema.yaml").read_text() == text
    assert text == CliRunner().invoke(app, ["schema", "--ledger"]).output


@pytest.mark.usefixtures("kept_judged_once")
def test_the_pages_show_the_shipped_entries_and_their_kept_outcomes():
    ledger = ROOT / "ledger"
    judged = {name: (entry, find_outcomes(name, entry, ledger, None)) for name, entry in load_ledger(ledger).items()}
    for page in (ROOT / "docs/ledger.md", ROOT / "README.md"):
        text = page.read_text(encoding="utf-8")
        assert compose_ledger_page(page, ledger, judged) == text, f"run `speedproof ledger list --page {page.name}`"


@pytest.mark.parametrize(
    ("number", "low", "high", "shown"),
    [
        # Half of the last digit: 2.0 ± 0.05; 26 ± 0.5 and 76 ± 0.5 percent.
        (number_of("exactly", value="2.0"), 1.95, 2.05, "2.0×"),
        (number_of("more than", value="2"), 2, math.inf, "more than 2×"),
        (number_of("between", "percent faster", low="26", high="76"), 1.255, 1.765, "26–76\xa0% faster"),
        (number_of("more than", "percent faster", value="40"), 1.4, math.inf, "more than 40\xa0% faster"),
        # 30 % less time is 1 / 0.7 = 1.43×: from 1 / 0.705 to 1 / 0.695.
        (number_of("exactly", "percent less time", value="30"), 1 / 0.705, 1 / 0.695, "30\xa0% less time"),
        (number_of("more than", "percent less time", value="50"), 2, math.inf, "more than 50\xa0% less time"),
        (number_of("less than", "percent less time", value="50"), 0, 2, "less than 50\xa0% less time"),
    ],
)
def test_a_number_is_a_range_of_ratios_however_its_source_counts(number, low, high, shown):
    entry = LedgerEntry.model_validate(describe_mine(number=number))
    assert entry.list_ratio_bounds() == pytest.approx((low, high))
    assert entry.documented == shown


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"colour": "red"}, "mine.yaml: colour: unknown key"),
        ({"source": {"project": "x", "place": "x", "hardware": "x", "data": "x"}}, "give either `file` or `address`"),
        ({"number": number_of("about", value="2", tolerance="vague")}, "unknown tolerance `vague`; add it to `tolerances`"),
        ({"number": number_of("exactly", value="2", printed_in="min")}, "`printed_in` is the unit of a time"),
        ({"ours": []}, "no program; give `published`, or `ours`"),
        (
            {"number": number_of("exactly", "percent less time", value="100")},
            "nothing takes 100 % less time; is it `percent faster`?",
        ),
        (describe_published(b"", "./a.sh"), "'./a.sh' is not a path inside a repository"),
        (describe_published(b"", "a.sh/b.sh") | {"ours": ["a.sh"]}, "a.sh is a file and a folder"),
        ({"ours": ["b.sh"]}, "ours: no b.sh in "),
        ({"ours": ["../a.sh"]}, "ours.0: must match"),
        ({"proof": {"commands": ["sh a.sh"]}}, "proof: commands: only one command"),
        ({"proof": {"commands": ["sh a.sh", "true", "false"]}}, "3 commands; give the reference's and the candidate's"),
        ({"proof": {"commands": ["sh a.sh", "python b.py"]}}, "b.py is not in `published.files` or `ours`; add it"),
        ({"proof": {"commands": ["sh a.sh", "true"], "colour": "red"}}, "colour: unknown key"),
        ({"needs": {"minutes": 1, "gpu": True}}, "`gpu: true` goes with `gpu_minutes` above 0"),
        ({"records": ["records/none"]}, "records: no records/none; correct it"),
    ],
)
def test_a_mistake_is_a_line_with_the_file_and_what_to_do(ledger, changes, said):
    ledger(**changes)
    result = call("check")
    assert result.exit_code == 1
    (line,) = [line for line in result.output.splitlines() if said in line]
    assert line.startswith("ledger/mine.yaml: ")


def test_a_program_that_no_entry_runs_and_an_id_with_a_hyphen_are_named(ledger, tmp_path):
    (tmp_path / "ledger/programs/old.py").touch()
    shutil.copyfile(tmp_path / "ledger/mine.yaml", tmp_path / "ledger/my-own.yaml")
    output = call("check").output
    assert "ledger/programs/old.py: no entry runs it; remove it" in output
    assert "ledger/my-own.yaml: an id has lower-case letters, digits and `_` only; rename the file" in output
    (tmp_path / "ledger/programs/old.py").unlink()
    (tmp_path / "ledger/my-own.yaml").unlink()
    assert call("check", "--ledger", tmp_path / "ledger").exit_code == 0


@pytest.mark.parametrize(
    ("a", "b", "verdict", "status"),
    [
        (2.0, 1.0, "reproduced", 0),  # of about 2.0: 1.95 to 2.05
        (3.0, 1.0, "exceeded", 0),
        (1.5, 1.0, "not reproduced here", 1),
        (2.05, 1.0, "inconclusive", 2),
    ],
)
def test_an_entry_runs_from_its_file_alone_and_is_judged_by_its_interval(ledger, measured, tmp_path, a, b, verdict, status):
    measured(a, b)
    result = call("run", "mine", "--quiet")
    assert result.exit_code == status, result.output
    assert f"Documented number: {verdict}: {a:.2f}×" in result.output
    assert ("an end of what reproduces it" in result.output) == (verdict == "inconclusive")
    assert "about 2.0× documented on Example 7; 3 conditions differ" in result.output
    (outcome,) = json.loads(call("show", "mine", "--json").output)
    # By hand: the products of both rows of noise are equal to four digits.
    assert (outcome["verdict"], outcome["pairs"]) == (verdict, 6)
    assert outcome["ratio"] == pytest.approx(a / b, rel=1e-3)
    assert outcome["low"] < outcome["ratio"] < outcome["high"]
    assert outcome["differences"] == [
        "CPU (Example, 2 cores) instead of Example 7",
        "a shell script",
        "no packages recorded; the source names no versions",
    ]
    shown = call("show", "mine")
    assert shown.exit_code == status
    assert "Why: no run was profiled\n" in shown.output and "Differs: a shell script" in shown.output
    assert "Reproduced by: 1.95–2.05×\n" in shown.output
    assert verdict in call("list").output
    assert (tmp_path / "results/ledger/mine/verdict.json").is_file()


def test_a_kept_record_is_judged_as_the_results_that_it_was_made_of(ledger, measured, tmp_path):
    measured(2.0, 1.0)
    call("run", "mine", "--quiet")
    (own,) = json.loads(call("show", "mine", "--json").output)
    proof = tmp_path / "results/ledger/mine"
    for run in proof.glob("results/experiments/*/runs/*"):
        (run / "log.txt").touch()
    words = ["--from", proof / "results", "--claims", proof / "programs/claims.yaml", "--out", "ledger/records/one"]
    archived = CliRunner().invoke(app, ["results", "archive", *map(str, words)])
    assert archived.exit_code == 0, archived.output
    ledger(records=["records/one"])
    newest, kept = json.loads(call("show", "mine", "--json").output)
    assert newest == own
    assert kept == own | {"results": "ledger/records/one"}
    assert call("check").exit_code == 0


def test_what_a_source_calls_possible_is_not_contradicted_by_less(ledger, measured):
    ledger(number=number_of("up to", value="100"))
    measured(3.0, 1.0)
    result = call("run", "mine", "--quiet")
    assert result.exit_code == 2
    assert "inconclusive: 3.00×" in result.output and "the source calls this possible" in result.output


def test_other_rounds_are_another_call_and_no_command_for_another_folder_is_proposed(ledger, measured, tmp_path):
    measured(2.0, 1.99)
    ledger(number=number_of("up to", value="100"))
    result = call("run", "mine", "--quiet", "--rounds", "4")
    assert "4 pairs" in result.output and "Next:" not in result.output
    assert json.loads((tmp_path / "results/ledger/mine/verdict.json").read_text())["rounds"] == 4


def test_a_source_without_hardware_is_named_so(ledger):
    ledger(source=describe_mine()["source"] | {"hardware": None})
    assert "not measured: about 2.0× documented on unnamed hardware" in call("show", "mine").output


def test_the_documented_device_is_no_difference(ledger, measured, tmp_path):
    ledger(source=describe_mine()["source"] | {"device": "Example"})
    measured(2.0, 1.0)
    assert "2 conditions differ" in call("run", "mine", "--quiet").output


def test_a_proof_of_other_commands_is_not_taken_for_the_entrys(ledger, measured, tmp_path):
    measured(2.0, 1.0)
    assert call("run", "mine", "--quiet").exit_code == 0
    ledger(proof=describe_mine()["proof"] | {"commands": ["sh a.sh 3", "sh a.sh 1"]})
    with pytest.raises(RecordError, match=r"holds a proof of other commands than the entry's; remove it, and run"):
        judge_entry(load_entry(tmp_path / "ledger/mine.yaml"), tmp_path / "results/ledger/mine")


def test_an_entry_that_was_not_measured_says_so(ledger):
    result = call("show", "mine")
    assert result.exit_code == 2
    assert "not measured: about 2.0× documented on Example 7" in result.output


@pytest.mark.parametrize("words", [["run", "main"], ["show", "main"]])
def test_an_unknown_entry_is_an_error_with_a_hint(ledger, words):
    result = call(*words)
    assert status_of(result) == 3
    assert "main: no such entry in ledger; did you mean mine?" in str(result.exception)


def test_without_a_ledger_its_folder_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = call("list")
    assert status_of(result) == 2
    assert "ledger: no entries there; run in a checkout of speedproof, or name a folder (--ledger)" in str(result.exception)


def test_published_programs_come_from_a_folder_and_only_as_they_were_published(ledger, tmp_path):
    ledger(**describe_published(b"echo published"), proof={"commands": ["sh src/a.sh 2", "sh src/a.sh 1"]})
    entry = load_entry(tmp_path / "ledger/mine.yaml")
    source = tmp_path / "theirs"
    (source / "src").mkdir(parents=True)
    (source / "src/a.sh").write_text("echo published")
    (source / "other.txt").touch()
    place = lay_out_programs("mine", entry, tmp_path / "ledger", tmp_path / "out", source)
    assert [path.relative_to(place).as_posix() for path in place.rglob("*.*")] == ["src/a.sh"]
    (source / "src/a.sh").write_text("echo edited")
    with pytest.raises(DataError, match="is not the published file"):
        lay_out_programs("mine", entry, tmp_path / "ledger", tmp_path / "out", source)


def test_two_commits_of_a_program_lie_in_folders_of_their_own(ledger, tmp_path):
    parts = [describe_published(text)["published"][0] | {"folder": name} for name, text in (("old", b"2"), ("new", b"1"))]
    commands = ["sh old/src/a.sh", "sh new/src/a.sh"]
    ledger(published=parts, ours=[], proof={"commands": commands})
    entry = load_entry(tmp_path / "ledger/mine.yaml")
    source = tmp_path / "theirs"
    for name, text in (("old", "2"), ("new", "1")):
        (source / name / "src").mkdir(parents=True)
        (source / name / "src/a.sh").write_text(text)
    place = lay_out_programs("mine", entry, tmp_path / "ledger", tmp_path / "out", source)
    assert [(place / name / "src/a.sh").read_text() for name in ("old", "new")] == ["2", "1"]
    ledger(published=[part | {"folder": None} for part in parts], ours=[], proof={"commands": commands})
    with pytest.raises(ConfigError, match="two programs of the same name; give each commit a `folder`"):
        load_entry(tmp_path / "ledger/mine.yaml")


CLAIMS = """
sources:
  page: {title: A page, url: https://example.org/page, hardware: one Example 7, gpu: Example, epochs: 3, profiled: false}
claims:
  - {id: ratio, text: An epoch, source: page, place: table 1, unit: ×, stated: {comparator: more than, value: "2"},
     quantity: {metric: training_epoch_s, reference: slow, candidate: fast}}
"""


def test_a_workload_states_a_number_and_measures_it(ledger, tmp_path):
    (tmp_path / "workloads/mine").mkdir(parents=True)
    (tmp_path / "workloads/mine/claims.yaml").write_text(CLAIMS)
    measured_by = {
        "project": "Example",
        "claims": "../workloads/mine/claims.yaml",
        "claim": "ratio",
        "command": "snakemake -c 8",
    }
    entry = {"title": "An epoch", "workload": measured_by, "needs": {"minutes": 1}, "records": []}
    path = tmp_path / "ledger/epoch.yaml"
    path.write_text(json.dumps(entry))
    read = load_entry(path)
    assert (read.documented, read.source.machine, read.program) == ("more than 2×", "one Example 7", "workflow")
    result = call("run", "epoch", "--quiet")
    assert status_of(result) == 3
    assert "epoch: a workload measures it: run `snakemake -c 8`, and read results/report.html" in str(result.exception)
    assert not (tmp_path / "results").exists()
    path.write_text(json.dumps(entry | {"workload": measured_by | {"claim": "other"}}))
    with pytest.raises(ConfigError, match=r"workload\.claim: \.\./workloads/mine/claims\.yaml states no speedup `other`"):
        load_entry(path)


def test_what_else_the_machine_did_is_a_condition_that_differs():
    ledger = ROOT / "ledger"
    alone, beside = find_outcomes("numpy_einsum", load_entry(ledger / "numpy_einsum.yaml"), ledger, None)
    assert (alone.shared, beside.shared) == (False, True)
    assert beside.differences[-1] == "another measurement ran on the machine"
    assert not any("another measurement" in one for one in alone.differences)


def test_own_results_that_cannot_be_judged_hide_no_record(ledger, measured, tmp_path):
    measured(2.0, 1.0)
    assert call("run", "mine", "--quiet").exit_code == 0
    ledger(proof=describe_mine()["proof"] | {"commands": ["sh a.sh 3", "sh a.sh 1"]})
    shown = call("show", "mine")
    assert shown.exit_code == 2
    assert "holds a proof of other commands than the entry's; remove it" in shown.output
    assert call("list").exit_code == 0


def test_a_record_of_another_entry_is_named_by_the_check(ledger, tmp_path):
    shutil.copytree(ROOT / "ledger/records/2026-11-27-cpu-numpy_einsum", tmp_path / "ledger/records/one")
    ledger(records=["records/one"])
    (mistake,) = list_ledger_mistakes(tmp_path / "ledger")
    assert "mine.yaml: records: " in mistake and "holds a proof of other commands than the entry's" in mistake


def test_a_workload_that_states_another_number_than_a_record_judged_needs_a_new_record():
    entry = load_entry(ROOT / "ledger/monai_mixed_precision.yaml")
    other = entry.model_copy(update={"number": entry.number.model_copy(update={"reads": "percent faster"})})
    with pytest.raises(
        RecordError, match=r"judged about 1\.1× .*, and \S+claims\.yaml now states .* faster; rebuild the record"
    ):
        judge_entry(other, ROOT / "records/2026-11-24-h100-mixed-precision")


def test_a_record_judges_the_claim_of_a_workload_or_is_refused():
    ledger = ROOT / "ledger"
    entry = load_entry(ledger / "monai_mixed_precision.yaml")
    (kept,) = find_outcomes("monai_mixed_precision", entry, ledger, None)
    assert (kept.verdict, f"{kept.ratio:.3f}", kept.pairs) == ("not reproduced here", "0.867", 4)
    with pytest.raises(RecordError, match="does not judge amp_epoch_ratio; name another record"):
        judge_entry(entry, ROOT / "records/2026-11-24-h200-pathology")


def test_a_source_for_programs_of_ours_is_refused(ledger, tmp_path):
    entry = load_entry(tmp_path / "ledger/mine.yaml")
    with pytest.raises(ConfigError, match=r"--source: mine runs programs of ours only; leave it out"):
        lay_out_programs("mine", entry, tmp_path / "ledger", tmp_path / "out", tmp_path)


def test_a_missing_package_is_named_before_anything_runs(ledger, tmp_path):
    ledger(
        needs={"minutes": 1, "packages": ["PyYAML", "no-such_package"]},
        ours=["a.sh", "b.py"],
        proof={"commands": ["python3 b.py", "sh a.sh 1"]},
    )
    (tmp_path / "ledger/programs/b.py").touch()
    entry = load_entry(tmp_path / "ledger/mine.yaml")
    place = lay_out_programs("mine", entry, tmp_path / "ledger", tmp_path / "out", None)
    with pytest.raises(ConfigError, match=r"mine: \S+python3 lacks .*no-such-package; install that there"):
        check_packages("mine", entry, place)


def test_an_entry_for_a_gpu_needs_one(ledger, monkeypatch):
    monkeypatch.setattr(run_entry, "describe_gpu", lambda: None)
    ledger(needs={"minutes": 1, "gpu": True, "gpu_minutes": 1})
    result = call("run", "mine", "--quiet")
    assert status_of(result) == 3
    assert "mine: needs a GPU, and `nvidia-smi` lists none here; run it on a machine that has one" in str(result.exception)


def test_a_source_that_is_gone_is_found_when_asked(ledger, publisher, tmp_path):
    ledger(source=describe_mine()["source"] | {"address": f"http://127.0.0.1:{publisher.server_port}/page"})
    assert call("check", "--online").exit_code == 0
    publisher.failures = [404]
    result = call("check", "--online")
    assert result.exit_code == 1
    assert "the server answered 404 (Not Found); find where the source is now" in result.output.replace("\n", " ")
    assert call("check").exit_code == 0
    ledger(source=describe_mine()["source"] | {"address": "http://127.0.0.1:9/page"})
    assert list(list_ledger_mistakes(tmp_path / "ledger", online=True)) == [
        f"{tmp_path / 'ledger/mine.yaml'}: http://127.0.0.1:9/page: not reachable; try again, or find where the source is now"
    ]


def test_a_page_may_show_some_entries_alone(ledger, tmp_path):
    entry = load_entry(tmp_path / "ledger/mine.yaml")
    page = tmp_path / "README.md"
    page.write_text(f"{BEGIN_TABLE.removesuffix(' -->')}\nmine\n-->\n{END_TABLE}\n")
    text = compose_ledger_page(page, tmp_path / "ledger", {"mine": (entry, []), "yours": (entry, [])})
    assert "(ledger/mine.yaml)" in text and "yours" not in text and "numbers of" not in text
    page.write_text(text)
    assert compose_ledger_page(page, tmp_path / "ledger", {"mine": (entry, [])}) == text
    page.write_text(f"{BEGIN_TABLE}\nkept\n{BEGIN_TABLE.removesuffix(' -->')}\nno-id\n-->\n{END_TABLE}\n")
    with pytest.raises(ConfigError, match=r"README\.md: needs a line .*, each once; mend them"):
        compose_ledger_page(page, tmp_path / "ledger", {"mine": (entry, [])})
    page.write_text(text)
    with pytest.raises(ConfigError, match=r"README\.md: no entry mine in .*ledger; correct the line"):
        compose_ledger_page(page, tmp_path / "ledger", {"yours": (entry, [])})


def test_the_page_has_a_row_for_each_outcome(ledger, tmp_path):
    entry = load_entry(tmp_path / "ledger/mine.yaml")
    page = tmp_path / "docs/ledger.md"
    page.parent.mkdir()
    page.write_text(f"# Ledger\n\n{BEGIN_TABLE}\nold\n{END_TABLE}\n\nMore.\n")
    found = EntryOutcome(
        verdict="reproduced", ratio=2.0, low=1.98, high=2.02, pairs=6, machine="H200", date="2026-11-27",
        differences=["a", "b"], results=tmp_path / "records/one",
    )  # fmt: skip
    text = compose_ledger_page(page, tmp_path / "ledger", {"mine": (entry, [found]), "yours": (entry, [])})
    assert "old" not in text and text.endswith(f"{END_TABLE}\n\nMore.\n")
    assert (
        "| [Mine against theirs](../ledger/mine.yaml) | [Example](https://example.org/page) | ours | about 2.0×, Example 7 |"
        " 2.00× (1.98–2.02×), H200 | 2 | [reproduced](../records/one/report.md) | 2026-11-27 |\n" in text
    )
    assert "(../ledger/yours.yaml) | [Example](https://example.org/page) | ours |" in text
    assert "about 2.0×, Example 7 | – | – | not measured | – |\n" in text
    assert "\n2 numbers of 1 project, 0 of them on a GPU. The newest outcomes: 1 reproduced, 1 not measured.\n" in text
    page.write_text("# Ledger\n")
    with pytest.raises(ConfigError, match=r"ledger\.md: needs a line"):
        compose_ledger_page(page, tmp_path / "ledger", {})
