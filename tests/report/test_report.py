import json
import re
import shutil
from xml.etree import ElementTree

import pytest
from markdown_it import MarkdownIt

from speedproof.report.document import Document, FirstScreen, Section, Table, Text, VariantName
from speedproof.report.figures.figure_data import Evidence, read_evidence
from speedproof.report.findings import describe_images, describe_limits
from speedproof.report.html import compose_html, load_picture
from speedproof.report.markdown import compose_markdown, write_report
from speedproof.report.run_again import list_commands
from speedproof.results.comparison import COMPARISON_FILE, Throttled
from speedproof.results.comparison_rows import Origin
from speedproof.results.diagnosis import DOCTOR_FILE, Diagnosis, Finding
from speedproof.results.experiment import EXPERIMENT_FILE, PLAN_FILE, RUNS_FOLDER, PlannedRun, PreparedFolder, read_experiment
from speedproof.results.files import read_json, write_json
from speedproof.results.folder import list_experiments
from speedproof.results.run_record import EPOCHS_FILE, GPU_FILE, NOT_ALONE, RUN_FILE, Part, read_run
from speedproof.run.archive.rebuild import rebuild_report
from speedproof.stats.compare import compare_experiments, write_comparison
from speedproof.stats.limits import group_prepared, group_throttled
from speedproof.util.errors import RecordError
from tests.report.conftest import make_results
from tests.report.example import CLAIMS, Example, compare_example, rule_with, vouch_again, write_example
from tests.report.pages import Page, find_live


def report_of(results, out=None):
    out = out or results / "report.md"
    write_report(results, out)
    return out.read_text(encoding="utf-8").replace("\N{NO-BREAK SPACE}", " ")


def opening_of(text):
    """What stands before the first table of details."""
    opening, _ = text.split("## Documented against measured")
    return opening


def fold_of(text, title):
    """What stands in a fold of the report."""
    (found,) = re.findall(rf"<details><summary><b>{re.escape(title)}</b></summary>\n(.*?)</details>", text, re.DOTALL)
    return found


def test_the_first_sentence_is_the_verdict(gpu_results):
    lines = [line for line in report_of(gpu_results).splitlines() if line]
    assert lines[1:3] == [
        "**MONAI fast script trains an epoch 1.37× as fast as MONAI baseline script on this machine.** "
        "95 % interval 1.34–1.40×. The data are synthetic and quality was not judged.",
        "`faster` `documented 1.7–2.3×, under the profiler: inconclusive` ",
    ]
    assert lines[4:10] == [
        "- **How sure**: 95 % interval 1.34–1.40×, 6 pairs of runs on one machine.",
        "- **Documented**: 1.7–2.3×: inconclusive; about 2.1× ± 5 %: inconclusive "
        "(on one V100 of a DGX-2, under the profiler).",
        "- **Machine**: NVIDIA H200, 2026-11-21.",
        "- **Data**: Synthetic: phantom-full.",
        "- **Quality**: Not judged: the slower variant's Dice is 0.310; quality is judged only above 0.900.",
        "- **Why**: MONAI fast script takes 0.420 s less per epoch under the profiler; it saves 0.552 s of idle GPU "
        "(waiting for data), but adds 0.120 s of backward kernels.",
    ]
    assert "Of 48 documented numbers: 4 inconclusive, 6 not comparable, 38 not measured." in lines


def test_a_phantom_is_called_one_before_any_table(gpu_results):
    opening = opening_of(report_of(gpu_results))
    assert "Synthetic data (phantom-full)" in opening
    assert "No GPU" not in opening and "kineto" not in opening


def test_cpu_kineto_and_a_single_experiment_are_called_so_before_any_table(cpu_results):
    opening = opening_of(report_of(cpu_results))
    for words in ("No GPU", "Synthetic data", "Profiled by kineto", "One experiment"):
        assert words in opening


def test_what_no_gpu_did_is_no_gpu_s_utilisation(cpu_results, gpu_results):
    assert "Further measurements" in report_of(cpu_results)
    assert "GPU utilisation, memory, power" not in report_of(cpu_results)
    assert "GPU utilisation, memory, power" in report_of(gpu_results)


@pytest.mark.parametrize(("cores", "said"), [(1, "CPU (Example CPU, 1 core)"), (16, "CPU (Example CPU, 16 cores)")])
def test_one_core_is_one(cpu_results, cores, said):
    conditions = read_evidence(cpu_results).comparison.conditions.model_copy(update={"cores": cores})
    assert conditions.device_name() == said


def test_what_could_not_be_measured_is_told_with_its_hint(tmp_path, cpu_results):
    assert "| To have it |" not in report_of(cpu_results)  # no doctor was asked
    results = shutil.copytree(cpu_results, tmp_path / "results")
    findings = [
        Finding(subject="cores", state="good", found="16"),
        Finding(subject="GPU", state="absent", found="none", hint="run where `nvidia-smi` lists one"),
        Finding(subject="GPU clocks", state="notice", found="not locked", hint="lock them | nvidia-smi"),
    ]
    write_json(results / DOCTOR_FILE, Diagnosis(findings=findings))
    text = report_of(results)
    section = fold_of(text, "Not measured or not available here")
    assert "| GPU | none | run where “nvidia-smi” lists one |" in section
    assert r"| GPU clocks | not locked | lock them \| nvidia-smi |" in section.split("before you quote numbers")[1]
    assert "cores" not in section


def test_a_continued_run_is_called_one_wherever_its_numbers_stand(tmp_path):
    results = write_example(tmp_path / "results", Example(experiments=1, rounds=3, gpu=False, quality=rule_with(targets=[0.3])))
    folder = results / "experiments/experiment-1/runs/01-baseline-timed"
    part = Part(first_epoch=4, reason="received SIGTERM", start_up_s=30.0, cache_fill_s=24.0, warm_up_s=0.5)
    write_json(folder / RUN_FILE, read_run(folder).model_copy(update={"continued": [part]}))
    vouch_again(results)
    write_comparison(compare_experiments(results, CLAIMS), results)
    text = report_of(results)
    said = "experiment-1/01-baseline-timed was killed and resumed from its checkpoint at epoch 4 (received SIGTERM)"
    assert said in opening_of(text)
    assert "3 of 3, 1 continued" in text
    assert "completed, continued at epoch 4 (received SIGTERM)" in text
    assert text.count("3 of 3") == 2  # the other variant's runs were not


def test_prepared_volumes_are_told_with_what_they_took():
    filled = PreparedFolder(variant="fast", seconds=40.0, volumes=41, from_store=0)
    example = Example(experiments=2, rounds=3, prepared=(filled,))
    (sentence,) = describe_limits(group_prepared(compare_example(example)))
    assert sentence.replace("\N{NO-BREAK SPACE}", " ") == (
        "MONAI fast script starts from prepared volumes. A separate process prepared them before an experiment's first run, "
        "and compiled the variant's own kernels if it has any: 40.0 s for 41 volumes (experiment-1); 5.00 s for 41 volumes, 41 "
        "of them already stored (experiment-2). No time of its runs includes this, not even the times from the start of the "
        "process."
    )


def test_variants_that_cannot_be_told_apart_read_no_difference_shown(tmp_path):
    same = Example(experiments=1, rounds=4, epoch_s=(("baseline", 1.08), ("fast", 1.08)), gpu=False, profiler="kineto")
    text = report_of(make_results(tmp_path / "results", same))
    assert "Training epoch: inconclusive: MONAI fast script measured 1.0" in text


def test_traces_of_the_other_order_do_not_explain_a_ratio(tmp_path):
    slower = Example(experiments=1, epoch_s=(("baseline", 1.0), ("fast", 1.5)))
    text = report_of(make_results(tmp_path / "results", slower))
    assert "- **Why**: Without the profiler it is the other way round, so the traces do not explain the ratio: " in text
    assert "MONAI baseline script takes 0.420 s more per epoch under the profiler; it adds 0.552 s of idle GPU" in text


def test_there_is_nothing_to_explain_where_variants_are_equivalent(tmp_path):
    same = Example(rounds=20, epoch_s=(("baseline", 1.08), ("fast", 1.08)))
    text = report_of(make_results(tmp_path / "results", same))
    assert "- **Why**: Nothing to explain: the variants take the same time within the margin.\n" in text


def test_a_single_pair_shows_nothing(tmp_path):
    text = report_of(make_results(tmp_path / "results", Example(experiments=1, rounds=1, gpu=False, profiler="kineto")))
    assert "1 pair of runs on one machine; a verdict needs 4." in text
    said = "measured 1.37× as fast as MONAI baseline script on this machine, by training epoch time, under the profiler.**"
    assert f"**No verdict yet: MONAI fast script {said}" in text


def test_what_was_documented_of_a_variant_that_nothing_is_compared_with_stands_on_the_first_screen(tmp_path):
    def report_of_runs(runs):
        order = tuple(PlannedRun(variant="fast", mode="profiled", round=repeat, seed=repeat) for repeat in range(runs))
        return report_of(make_results(tmp_path / str(runs), Example(variants=("fast",), modes=("profiled",), order=order)))

    text = report_of_runs(4)
    one, four = report_of_runs(1).split("\n## ")[0], text.split("\n## ")[0]
    assert "**No two variants could be compared.**" in one and "`documented more than 90 %: inconclusive`" in one
    assert "program, on average: measured 74 %, documented more than 90 %.**" in four
    assert "`documented more than 90 %: not reproduced here, 4 conditions differ`" in four
    assert "more than 90 % on one V100 of a DGX-2; measured 74 %, 95 % interval 74–74 % (4 runs" in four
    assert "6–7 s" not in one + four  # not comparable on another GPU
    assert "- **Why**: MONAI fast script keeps its GPU busy 74 % of the time" in four
    assert "its trace is that of experiment-1/01-fast-profiled, one of 4 profiled runs." in text
    assert "One experiment on one device" in text
    assert "  rounds: 0\n  profiled: 4\n" in text


def test_a_metric_of_which_there_is_one_pair_calls_for_no_more_rounds_where_others_have_more(tmp_path):
    results = write_example(tmp_path / "results", Example(modes=("timed",), rounds=4))
    for run in (list_experiments(results)[0] / RUNS_FOLDER).iterdir():
        if read_run(run).round > 0:  # all but the first pair's GPU was hardly watched
            lines = (run / GPU_FILE).read_text(encoding="utf-8").splitlines(keepends=True)
            (run / GPU_FILE).write_text("".join(lines[:2]), encoding="utf-8")
    comparison = compare_experiments(vouch_again(results), CLAIMS)
    assert [ratio.pairs for ratio in comparison.ratios if ratio.metric == "energy_per_epoch_j"] == [1]
    write_comparison(comparison, results)
    assert "A single pair of runs" not in report_of(results)


def test_without_a_profiled_run_the_report_does_without_traces(tmp_path):
    text = report_of(make_results(tmp_path / "results", Example(experiments=1, rounds=3, modes=("timed",), gpu=False)))
    assert "<b>Phases</b>" not in text and "<b>What profiling costs</b>" not in text and "<b>Kernels</b>" not in text
    assert "Not drawn: no run was profiled and analysed" in text


def test_traces_that_tell_nothing_are_not_said_to_be_none(tmp_path, monkeypatch):
    results = make_results(tmp_path / "results", Example(experiments=1, rounds=3, gpu=False))
    monkeypatch.setattr(Evidence, "traces", {})  # as of programs that mark no range and use no GPU
    text = report_of(results)
    assert "- **Why**: Unknown: the traces hold neither ranges nor GPU work." in text
    assert "no run was profiled" not in text


def test_the_table_holds_documented_measured_outcome_and_conditions(gpu_results):
    row = next(line for line in report_of(gpu_results).splitlines() if "[Training epoch, baseline of 2021 / fast]" in line)
    cells = [cell.strip() for cell in row.strip("|").split(" | ")]
    assert cells[2:4] == ["1.37×", "1.7–2.3× (2021-09-27)"]
    assert cells[1] == "**inconclusive**" and cells[6] == "a b c d e f"


def test_every_claim_stands_in_the_report_once_measured_or_not(gpu_results):
    text = report_of(gpu_results)
    targets = dict(re.findall(r"^\[(\d+)\]: (https://github.com/Project-MONAI/\S+)$", text, re.MULTILINE))
    assert sum(text.count(f"][{number}]") for number in targets) + text.count("](https://github.com/Project-MONAI/") == 48
    links = [dict(attributes)["href"] for tag, attributes in Page(MarkdownIt("js-default").render(text)).tags if tag == "a"]
    assert len(links) == 49 and all(link.startswith("https://github.com/Project-MONAI/") for link in links[:-1])


def test_the_noise_floor_stands_beside_the_ratios_and_in_a_sentence(gpu_results):
    text = report_of(gpu_results)
    assert (
        "Noise floor: MONAI baseline script against itself, measured the same way, gives a training epoch ratio of 1.00×"
        in text
    )
    assert "| training epoch | MONAI baseline script / itself (noise floor) | 1.00× |" in text
    assert "its pairs differ by up to 1.0 %." in text


def test_where_runs_are_too_short_to_leave_out_their_warm_up_the_report_names_the_variants(cpu_results, tmp_path):
    said = "so the warm-up epoch counts in the training epoch."
    assert said not in report_of(cpu_results)
    results = write_example(tmp_path / "results", Example(experiments=1, rounds=2, gpu=False))
    for run in (list_experiments(results)[0] / RUNS_FOLDER).glob("*fast-timed"):
        write_json(run / RUN_FILE, read_run(run).model_copy(update={"epochs": 2}))
        lines = (run / EPOCHS_FILE).read_text(encoding="utf-8").splitlines(keepends=True)
        (run / EPOCHS_FILE).write_text("".join(lines[:3]), encoding="utf-8")
    vouch_again(results)
    write_comparison(compare_experiments(results, CLAIMS), results)
    assert f"- MONAI fast script: runs of fewer than 3 epochs, {said}" in report_of(results)


def test_without_a_control_the_report_says_so(cpu_results):
    assert "add a control (measurement.control)" in report_of(cpu_results)


def test_the_ablation_has_a_row_a_step_and_its_whole(gpu_results):
    text = report_of(gpu_results)
    rows = [line for line in text.split("## Ablation")[1].splitlines() if line.startswith("| ")][2:]
    assert [row.split(" | ")[0].strip("| ") for row in rows[:3]] == [
        "MONAI baseline script",
        "+ cache on the GPU",
        "MONAI fast script",
    ]
    assert "| cache ram → gpu | 1.30 s | 1.14× |" in rows[1]
    # 8 steps, each with 0.0225 s less of loading, in which the GPU is idle.
    assert "| −0.180 s GPU idle, waiting for data |" in rows[1]
    assert "the stages multiply to 1.37×, inside that interval." in text


def test_a_withheld_step_is_called_so_in_its_row_and_a_withheld_whole_in_its_sentence(tmp_path):
    dice = (("baseline", 0.155), ("cached", 0.155), ("fast", 0.15))
    example = Example(modes=("timed",), ablation=("baseline", "cached", "fast"), dice_per_epoch=dice)
    ablation = report_of(make_results(tmp_path / "results", example)).split("## Ablation")[1]
    row = next(line for line in ablation.splitlines() if line.startswith("| MONAI fast script |"))
    withheld = "withheld: Dice 0.910 against 0.940, lower by more than the margin of 0.010"
    assert re.search(rf"\| 1\.2\d× \| 1\.1\d–1\.2\d×: {withheld} \|", row)
    whole = "MONAI baseline script / the last stage, in the ablation's own experiments"
    assert f"{whole}: 1.37×, {withheld} (95 % interval" in ablation


def test_an_experiment_of_profiled_runs_alone_is_no_second_sitting(tmp_path):
    results, profiled = (
        write_example(tmp_path / mode, Example(experiments=1, rounds=3, modes=(mode,), gpu=False))
        for mode in ("timed", "profiled")
    )
    experiment = read_experiment(profiled / "experiments" / "experiment-1")
    for part in ("experiments", "analysis"):
        shutil.copytree(profiled / part / "experiment-1", results / part / "experiment-2")
    plan = read_json(profiled / "experiments" / "experiment-1" / PLAN_FILE)
    write_json(results / "experiments" / "experiment-2" / PLAN_FILE, plan | {"experiment": "experiment-2"})
    write_json(
        results / "experiments" / "experiment-2" / EXPERIMENT_FILE, experiment.model_copy(update={"experiment": "experiment-2"})
    )
    write_comparison(compare_experiments(results, CLAIMS), results)
    text = report_of(results)
    assert "One experiment on one device" in text
    told = "MONAI baseline script, MONAI fast script: traces come from experiment-2 and times from experiment-1"
    assert f"{told}." in text
    later = experiment.conditions.model_copy(update={"sources": "later"})
    write_json(
        results / "experiments" / "experiment-2" / EXPERIMENT_FILE,
        experiment.model_copy(update={"experiment": "experiment-2", "conditions": later}),
    )
    write_comparison(compare_experiments(results, CLAIMS), results)
    assert f"{told}, which used a different version of the code." in report_of(results)
    assert "One experiment, hence" not in report_of(
        make_results(tmp_path / "two", Example(experiments=2, rounds=3, modes=("timed",), gpu=False))
    )


def test_a_withheld_speedup_is_called_so_in_the_first_sentence_and_in_its_row(tmp_path):
    example = Example(
        experiments=1, rounds=4, gpu=False, modes=("timed",), dice_per_epoch=(("baseline", 0.155), ("fast", 0.15))
    )
    text = report_of(make_results(tmp_path / "results", example))
    assert "a speedup of MONAI fast script over MONAI baseline script on one machine, CPU" in opening_of(text)
    assert ": withheld |" in text
    assert "| worse: Dice 0.907 against 0.938, lower by more than the margin of 0.010 |" in text


def test_experiments_that_ran_at_the_same_time_or_were_interrupted_are_called_so_before_any_table(tmp_path):
    results = write_example(tmp_path / "results", Example(modes=("timed",), experiments=3, rounds=3))
    first, second, third = list_experiments(results)
    for run in sorted((second / RUNS_FOLDER).iterdir()):  # as if it had run beside the first
        beside = read_run(first / RUNS_FOLDER / run.name)
        write_json(run / RUN_FILE, read_run(run).model_copy(update={"started": beside.started, "ended": beside.ended}))
    vouch_again(results)
    experiment = read_experiment(third)
    write_json(third / EXPERIMENT_FILE, experiment.model_copy(update={"kept": experiment.runs[:4]}))
    write_comparison(compare_experiments(results, CLAIMS), results)
    opening = opening_of(report_of(results))
    assert "- experiment-1, experiment-2 overlapped in time." in opening
    assert "- experiment-3 was interrupted and resumed; 4 of its 6 runs are from before." in opening


def test_an_experiment_of_others_that_measured_on_the_same_machine_is_told_before_any_table(tmp_path):
    results = write_example(tmp_path / "results", Example(modes=("timed",), experiments=1, rounds=3))
    run = next(results.glob("experiments/*/runs/*")) / RUN_FILE
    write_json(run, read_run(run.parent).model_copy(update={"warnings": [NOT_ALONE]}))
    write_comparison(compare_experiments(vouch_again(results), CLAIMS), results)
    opening = opening_of(report_of(results))
    assert "2026-11-21, shared with another experiment." in opening
    assert "- Another experiment was running on this machine during 1 of 6 runs and shared its CPUs" in opening


def test_every_row_that_uses_a_run_beside_another_experiment_says_so(tmp_path):
    results = write_example(tmp_path / "results", Example(modes=("timed",), experiments=1, rounds=4))
    run = next(results.glob("experiments/*/runs/*-fast-timed")) / RUN_FILE
    write_json(run, read_run(run.parent).model_copy(update={"warnings": [NOT_ALONE]}))
    comparison = compare_experiments(vouch_again(results), CLAIMS)
    write_comparison(comparison, results)
    assert {(row.variant, row.runs_beside) for row in comparison.measured} == {("baseline", 0), ("fast", 1)}
    assert {row.runs_beside for row in comparison.ratios} == {1}
    measured = [claim for claim in comparison.claims if claim.ratio]
    assert measured and all(claim.runs_beside == 1 for claim in measured)
    assert all("another experiment shared the machine with 1 of 8 runs" in claim.conditions for claim in measured)
    plain = json.loads((results / COMPARISON_FILE).read_text(encoding="utf-8"))
    assert next(row.get("runs_beside") for row in plain["measured"] if row["variant"] == "baseline") is None
    text = report_of(results)
    assert "MONAI baseline script / MONAI fast script (shared machine)" in text
    assert "on one machine, NVIDIA H200, shared with another experiment" in opening_of(text)
    assert "MONAI baseline script (shared machine)" not in text


def test_experiments_one_after_the_other_had_the_machine_for_themselves(gpu_results):
    assert "at the same time" not in report_of(gpu_results) and "interrupted" not in report_of(gpu_results)


def test_the_way_to_a_dice_has_both_clocks(tmp_path):
    example = Example(experiments=1, rounds=3, gpu=False, modes=("timed",), quality=rule_with(targets=[0.2, 0.94]))
    text = report_of(make_results(tmp_path / "results", example))
    table = fold_of(text, "Time to reach a given Dice")
    assert "| 0.200 | MONAI fast script | 3 of 3 | 4 epochs |" in table
    assert "| 0.940 |" not in table


def test_a_dice_that_only_some_runs_reach_withholds_the_ratio_and_says_so_first(tmp_path):
    # Both variants end at 0.48 and 0.01 more for each round.
    equal = (("baseline", 0.08), ("fast", 0.08))
    example = Example(experiments=1, rounds=3, modes=("timed",), dice_per_epoch=equal, quality=rule_with(targets=[0.3, 0.49]))
    text = report_of(make_results(tmp_path / "results", example))
    opening, table = opening_of(text), fold_of(text, "Time to reach a given Dice")
    reason = "only 2 of 3 runs of MONAI baseline script and 2 of 3 runs of MONAI fast script reached it"
    variants = "MONAI baseline script / MONAI fast script"
    assert f"- Time to Dice 0.49 from the start of the process: the ratio {variants} is withheld: {reason}.\n" in opening
    assert "Time to Dice 0.3 from the start of the process: no verdict yet: MONAI fast script" in opening
    assert f"| 0.490 | MONAI fast script | 2 of 3 | – | – | – | withheld: {reason} | withheld: {reason} |" in table


def test_overheads_say_what_profiling_costs(gpu_results):
    text = report_of(gpu_results)
    assert "| MONAI baseline script | profiled | 1.05× |" in text
    assert "| MONAI fast script | documented | 1.30× |" in text


def test_links_lead_to_files_from_wherever_the_report_lies(gpu_results, tmp_path):
    results = shutil.copytree(gpu_results, tmp_path / "results")
    for out in (results / "report.md", tmp_path / "elsewhere" / "report.md"):
        picture, numbers = re.findall(r"\]\((?!https://)([^)]+)\)", report_of(results, out))
        links = (picture, numbers)
        assert picture == "report.svg" and numbers.endswith("comparison.json")  # other figures are in the page
        assert all((out.parent / link).is_file() for link in links)


def test_the_same_results_give_the_same_bytes(cpu_results, tmp_path):
    pages = [(cpu_results / name).read_bytes() for name in ("report.html", "report.md")]
    results = shutil.copytree(cpu_results, tmp_path / "results", ignore=shutil.ignore_patterns("figures", "report.*"))
    rebuild_report(read_evidence(results), results)
    assert [(results / name).read_bytes() for name in ("report.html", "report.md")] == pages
    for path in sorted((results / "figures").iterdir()):
        assert path.read_bytes() == (cpu_results / "figures" / path.name).read_bytes(), path.name


def test_the_page_needs_no_other_file(gpu_results):
    page = Page((gpu_results / "report.html").read_text(encoding="utf-8"))
    assert find_live(page) == []
    assert page.count("figure") == 8  # figures are part of the page, in its colours
    assert "default-src 'none'" in next(attributes["content"] for tag, attributes in page.tags if "http-equiv" in attributes)
    folds = [attributes for tag, attributes in page.tags if tag == "details" and attributes.get("class") == "section"]
    links = {attributes["href"] for tag, attributes in page.tags if tag == "a"}
    assert {f"#{fold['id']}" for fold in folds} <= links and len(folds) > 15


def test_no_configured_text_becomes_markup(tmp_path):
    title = "</td><script>alert(1)</script> | *x* [y](javascript:alert(1)) ![z](/etc/passwd) `q` &lt;b&gt;"
    example = Example(experiments=1, rounds=2, gpu=False, profiler="kineto", techniques=(("title", title),))
    results = make_results(tmp_path / "results", example)
    rebuild_report(read_evidence(results), results)
    page = Page((results / "report.html").read_text(encoding="utf-8"))
    assert find_live(page) == []
    assert page.text.count(title) > 4
    shown = Page(MarkdownIt("js-default").render((results / "report.md").read_text(encoding="utf-8")))
    assert not {"script", "img"} & {tag for tag, attributes in shown.tags if attributes.get("src") != "report.svg"}
    assert shown.text.count(title) > 4


STRANGE = ["a|b", "*a*", "_a_", "<b>", "`c`", "[d](e)", "~~f~~", "&amp;", "a_b_c", "\\", "![g](h)", "</details>", "**", "- x"]


@pytest.mark.parametrize("text", STRANGE)
def test_escaped_text_shows_as_it_was(text):
    rows = Table(["a"], [[text], [VariantName(text)], [[VariantName(text), " it is"]]])
    section = Section("s", text, [rows, Text([text, [VariantName(text)]])], folded=True)
    document = Document(text, FirstScreen([], [VariantName(text), " says"], []), [section])
    page = Page(compose_html(document))
    assert page.text.count(text) >= 7
    shown = Page(MarkdownIt("js-default", {"html": True}).render(compose_markdown(document, "n.json")))
    lines = [line.strip() for line in shown.text.splitlines()]
    assert lines.count(text) == 6
    assert f"{text} says" in lines and f"{text} it is" in lines
    assert not {tag for tag, _ in shown.tags} & {"img", "script", "ul", "ol", "hr", "del", "em", "h3"}


def test_a_name_in_a_folds_title_is_no_html():
    document = Document(
        "t", FirstScreen([], ["x"], []), [Section("s", "Way to a <img src=x onerror=y>\n</summary>", [Text(["z"])])]
    )
    shown = Page(MarkdownIt("js-default", {"html": True}).render(compose_markdown(document, "n.json")))
    assert "img" not in {tag for tag, _ in shown.tags} and "Way to a <img src=x onerror=y> </summary>" in shown.text


def test_runs_whose_clocks_were_held_down_for_one_reason_stand_together():
    origin = Origin(files=["gpu.csv"], expression="x")
    rows = [
        Throttled(experiment="experiment-1", run=f"0{number}-a-timed", share=share, reasons=reasons, origin=origin)
        for number, share, reasons in [(1, 0.016, ["power cap"]), (2, 0.5, ["heat"]), (3, 0.021, ["power cap"])]
    ]
    held = "The GPU was throttled in"
    assert [line.replace("\N{NO-BREAK SPACE}", " ") for line in describe_limits(group_throttled(rows))] == [
        f"{held} 1.6–2.1 % of the samples of experiment-1/01-a-timed, experiment-1/03-a-timed (power cap): "
        "their times are too long.",
        f"{held} 50 % of the samples of experiment-1/02-a-timed (heat): its times are too long.",
    ]
    (line,) = describe_limits(group_throttled([rows[0]] * 7))
    assert line.count("experiment-1/01-a-timed") == 4 and "3 more" in line


def test_missing_figures_are_named(tmp_path):
    with pytest.raises(RecordError, match=r"a\.svg: no such file"):
        load_picture("a", "", tmp_path / "a.svg")


def test_the_words_show_the_main_ratios_and_the_page_every_figure(gpu_results, cpu_results):
    for results in (gpu_results, cpu_results):
        words, page = ((results / name).read_text(encoding="utf-8") for name in ("report.md", "report.html"))
        assert words.count("![") == 1
        picture = results / "report.svg"
        root = ElementTree.parse(picture).getroot()
        assert root.tag.endswith("svg") and picture.stat().st_size < 6000
        assert any("Synthetic: " in (text.text or "") for text in root.iter())  # it travels without the page
        itself = {"timeline"}  # drawn by the page
        drawn = {path.stem for path in (results / "figures").glob("*.svg")} - itself
        assert page.count('<figure class="picture">') == len(drawn)
        assert page.count('class="timeline-view"') == 2
    assert "- Ablation. Not drawn: no ablation was measured" in (cpu_results / "report.md").read_text(encoding="utf-8")


def test_the_image_of_a_variant_stands_beside_that_of_the_experiments(tmp_path):
    results = write_example(tmp_path / "results", Example(experiments=1, rounds=1, modes=("timed",), gpu=False))
    write_comparison(compare_experiments(results, CLAIMS), results)
    evidence = read_evidence(results)
    assert describe_images(evidence.results) == "none: not in a container"
    title = evidence.results.variants["fast"]
    for run in evidence.results.select("fast", "timed"):
        run.run.techniques["image"] = "own.sif"
    assert describe_images(evidence.results) == f"none: not in a container; {title} in own.sif"


def test_a_proof_is_told_by_what_was_asked_and_by_no_workloads_name(tmp_path):
    results = write_example(tmp_path / "results", Example(experiments=1, rounds=1, modes=("timed",), gpu=False))
    write_comparison(compare_experiments(results, CLAIMS), results)
    evidence = read_evidence(results)
    evidence.results.runs[0].run.case = "programs"
    assert not evidence.proof
    asked = {"schema_version": 1, "command": "speedproof prove a.py b.py", "metric": "process_s", "margin": None, "claim": None}
    (results / "asked.json").write_text(json.dumps(asked))
    evidence = read_evidence(results)
    assert evidence.proof
    assert [one.text for one in list_commands(evidence)] == ["speedproof prove a.py b.py --out results/again"]


def test_of_a_processor_alone_no_word_is_said_of_a_gpu_that_waits(cpu_results):
    text = report_of(cpu_results)
    # 4.32 s and 0.240 s of dataload in six epochs.
    assert "0.420 s less per epoch under the profiler; it saves 0.680 s of dataload" in text
    assert "idle GPU" not in text and "idle GPU" not in (cpu_results / "report.html").read_text(encoding="utf-8")
