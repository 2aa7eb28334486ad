import re
import shutil
import subprocess
import sys
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from matplotlib.colors import to_hex
from PIL import Image

from speedproof.report.explanation import measure_training_phases
from speedproof.report.figures import draw
from speedproof.report.figures.ablation_figure import draw_ablation
from speedproof.report.figures.convergence_figure import draw_convergence
from speedproof.report.figures.draw import draw_figures
from speedproof.report.figures.epochs_figure import draw_epoch_times
from speedproof.report.figures.figure_data import Evidence, lacks_convergence, read_evidence, read_figure_index, read_origin
from speedproof.report.figures.style import (
    FASTER,
    TRAINING_COLOURS,
    VALIDATION_COLOURS,
    WITHHELD,
    colour_phases,
    figure_style,
    new_figure,
    scale_seconds,
    write_foot,
)
from speedproof.report.figures.timeline_figure import Tracks
from speedproof.report.findings import _describe_phases
from speedproof.results.comparison import Stage
from speedproof.stats.compare import write_comparison
from speedproof.stats.metrics import TRAINING_EPOCH, VALIDATED_EPOCH
from speedproof.util.errors import RecordError
from tests.report.example import CPU_EXAMPLE, Example, compare_example, write_example
from tests.report.example_trace import example_summary

ALL = {"epoch_times", "ablation", "timeline", "convergence"}
RECORD = Path(__file__).parents[2] / "records/2026-11-25-h200-tutorial-pair"
METRICS = (TRAINING_EPOCH, VALIDATED_EPOCH)
BASELINE_TRACE = "experiments/experiment-1/runs/25-baseline-profiled/trace"


def test_every_figure_is_there_as_svg_and_png(gpu_results):
    index = read_figure_index(gpu_results / "figures")
    assert {entry.name for entry in index.figures if entry.missing is None} == ALL
    for name in ALL:
        with Image.open(gpu_results / "figures" / f"{name}.png") as image:
            assert image.width == 1440  # 7.2 inches at 200 dots
            assert len(set(image.convert("L").getdata())) > 20
        svg = (gpu_results / "figures" / f"{name}.svg").read_text(encoding="utf-8")
        assert svg.startswith("<?xml") and "<dc:date>" not in svg
        assert len(svg) < 1_000_000


def write_comparison_of(folder, **example):
    whole = Example(modes=("timed",), ablation=("baseline", "cached", "fast"), **example)
    write_comparison(compare_example(whole), write_example(folder, whole))
    return read_evidence(folder)


def read_ablation(evidence):
    """Return the labels of the figure's keys and the edges' colours of its bars, the first stage's first."""
    figure = draw_ablation(evidence)
    bars = [bar for container in figure.axes[0].containers for bar in container]
    (legend,) = figure.legends
    return [text.get_text() for text in legend.get_texts()], [to_hex(bar.get_edgecolor()).upper() for bar in bars]


def test_a_withheld_stage_has_a_colour_and_a_key_of_its_own(tmp_path):
    keys, colours = read_ablation(write_comparison_of(tmp_path / "equal", experiments=1))
    assert (keys, colours) == (["faster"], [FASTER, FASTER])
    # Medians of the best Dice are 0.94, 0.91 and 0.94: the first stage is faster and learns less.
    dice = (("baseline", 0.155), ("cached", 0.15), ("fast", 0.155))
    keys, colours = read_ablation(write_comparison_of(tmp_path / "worse", experiments=1, dice_per_epoch=dice))
    assert keys == ["faster", "withheld: worse quality"]
    assert colours == [WITHHELD, FASTER]


def test_stages_without_a_verdict_are_open_bars(tmp_path):
    evidence = write_comparison_of(tmp_path, experiments=1, rounds=1)
    assert read_ablation(evidence) == (["faster, no verdict"], [FASTER, FASTER])
    bars = [bar for container in draw_ablation(evidence).axes[0].containers for bar in container]
    assert {to_hex(bar.get_facecolor()) for bar in bars} == {"#ffffff"}


def stage_in(experiment, variant, level, centre, outcome="faster"):
    return Stage.model_construct(
        experiment=experiment,
        variant=variant,
        title=variant,
        metric="training_epoch_s",
        level=level,
        centre=centre,
        low=centre,
        high=centre,
        outcome=outcome,
        claimed=outcome in ("faster", "slower"),
        withheld=None,
    )


def test_experiments_of_an_ablation_share_a_row_and_are_not_averaged(tmp_path):
    """Two experiments: 8 → 2 and 10 → 5 s. The bar joins the medians 9 and 3.5 s; the margin has both gains, 2 and 4."""
    stages = [stage_in("1", "a", 8.0, None), stage_in("1", "b", 2.0, 4.0), stage_in("2", "a", 10.0, None)]
    stages += [stage_in("2", "b", 5.0, 2.0)]
    evidence = write_comparison_of(tmp_path, experiments=1)
    evidence = Evidence(evidence.results, evidence.comparison.model_copy(update={"ablation": stages}))
    figure = draw_ablation(evidence)
    (axes,) = figure.axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a", "b"]
    ((bar,),) = axes.containers
    assert (bar.get_x(), bar.get_x() + bar.get_width()) == pytest.approx((3.5, 9.0))
    assert [text.get_text() for text in axes.texts] == ["2.00–4.00×", "gain by experiment"]
    assert read_ablation(evidence)[0] == ["faster"]
    # One experiment that finds the opposite leaves the stage inconclusive.
    stages[-1] = stage_in("2", "b", 12.0, 0.8, "slower")
    assert read_ablation(evidence)[0] == ["inconclusive"]


@pytest.mark.parametrize(("fastest_s", "scale"), [(0.2, "log"), (0.21, "linear")])
def test_times_that_differ_tenfold_have_a_logarithmic_axis(fastest_s, scale):
    with figure_style():
        axes = new_figure(2).subplots()
        scale_seconds(axes, [2.0, fastest_s])
    assert axes.get_xscale() == scale
    assert axes.get_xlim()[1] > 2.0 and (scale == "log" or axes.get_xlim()[0] == 0)


def test_epochs_of_all_experiments_are_dots_of_one_row(gpu_results):
    figure = draw_epoch_times(read_evidence(gpu_results))
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert len(labels) == len(set(labels)) == len(read_evidence(gpu_results).results.variants)


def test_the_ticks_of_epoch_times_are_the_means_of_the_comparison(gpu_results):
    evidence = read_evidence(gpu_results)
    (axes,) = draw_epoch_times(evidence).axes
    points = [x for strip in axes.collections for x, _ in strip.get_offsets()]
    levels = [level for level in evidence.comparison.measured if level.mode == "timed" and level.metric in METRICS]
    drawn = [value for level in levels for value in (*level.values, level.centre)]
    assert sorted(points) == pytest.approx(sorted(drawn))
    assert {key.get_text() for key in axes.figure.legends[0].get_texts()} == {
        "training epoch",
        "with validation",
        "noise floor",
    }


def test_convergence_is_a_line_per_run_and_without_time_if_it_was_continued(tmp_path):
    """Lines of later variants are thinner: those of equal quality, as all variants' here, would hide the earlier ones."""
    evidence = write_comparison_of(tmp_path, experiments=1)
    runs = [run for variant in evidence.results.variants for run in evidence.results.select(variant, "timed")]
    runs[0].run.continued = True
    by_epoch, by_time = draw_convergence(evidence).axes
    lines = [
        [line for line in axes.lines if len(line.get_xdata()) > 1 and line.get_linestyle() == "-"]
        for axes in (by_epoch, by_time)
    ]
    assert [len(found) for found in lines] == [len(runs), len(runs) - 1]
    widths = [line.get_linewidth() for line in lines[0]]
    assert widths == sorted(widths, reverse=True) and len(set(widths)) == len(evidence.results.variants)


def test_the_style_of_figures_ends_with_them():
    before, blue = dict(matplotlib.rcParams), to_hex("b")
    with figure_style():
        assert matplotlib.rcParams["svg.hashsalt"] == "speedproof" and to_hex("b") == blue
    assert dict(matplotlib.rcParams) == before


@pytest.mark.parametrize(
    "program",
    [
        "from speedproof.cli import main; main()",
        "import speedproof.run.proof.proof; from speedproof.report.figures import draw; draw.FIGURES = (); "
        "draw.draw_figures(Path(sys.argv[4]), Path('out'))",
    ],
)
def test_nothing_that_draws_is_loaded_unless_a_figure_is_drawn(tmp_path, program):
    begin = "import atexit, sys; from pathlib import Path; atexit.register(lambda: print('loaded', *sys.modules)); "
    words = ["results", "show", "--from", str(RECORD)]
    done = subprocess.run([sys.executable, "-c", begin + program, *words], capture_output=True, text=True, cwd=tmp_path)
    loaded = done.stdout.rpartition("loaded ")[2].split()
    assert "speedproof.results.comparison" in loaded, done.stderr
    assert {"matplotlib", "seaborn"} & set(loaded) == set()


def test_a_figure_names_machine_data_date_and_results_in_its_foot(gpu_results):
    machine, data, date, name = read_origin(read_evidence(gpu_results))
    conditions = read_evidence(gpu_results).comparison.conditions
    assert (machine, name) == (conditions.device_name(), "results")
    assert data.startswith(conditions.dataset_name) and re.match(r"\d{4}-\d\d-\d\d", date)
    for figure in ALL:
        svg = (gpu_results / "figures" / f"{figure}.svg").read_text(encoding="utf-8")
        assert all(part in svg for part in (machine, data, date, name)), figure


def test_a_long_foot_takes_further_lines():
    figure = new_figure(2)
    write_foot(figure, ["m" * 50, "d" * 50, "2026-01-01"])
    assert figure.get_supxlabel() == f"{'m' * 50}\n{'d' * 50} · 2026-01-01"


def test_figures_that_cannot_be_drawn_are_missing_with_a_reason(cpu_results):
    index = read_figure_index(cpu_results / "figures")
    missing = {entry.name: entry.missing for entry in index.figures if entry.missing}
    assert missing == {"ablation": "no ablation was measured (measurement.ablation)"}
    assert not (cpu_results / "figures" / "ablation.png").exists()


def test_one_validation_is_no_convergence(tmp_path):
    evidence = write_comparison_of(tmp_path, experiments=1)
    assert lacks_convergence(evidence) is None
    for run in evidence.results.runs:
        run.epochs.loc[run.epochs["quality"].notna().cumsum() > 1, "quality"] = float("nan")
    assert lacks_convergence(evidence) == "each run validated only once"


@pytest.mark.parametrize("name", ["ablation", "kernels"])
def test_a_figure_that_is_no_longer_drawn_is_removed(cpu_results, tmp_path, monkeypatch, name):
    (tmp_path / f"{name}.png").write_bytes(b"of an older measurement")
    (tmp_path / "mine.png").write_bytes(b"of the user's own")
    monkeypatch.setattr(draw, "FIGURES", [kind for kind in draw.FIGURES if kind.name == "ablation"])
    draw_figures(cpu_results, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"figures.json", "mine.png"}


def test_figures_need_a_comparison(tmp_path):
    write_example(tmp_path, CPU_EXAMPLE)
    with pytest.raises(RecordError, match=r"comparison\.json: no such file"):
        draw_figures(tmp_path, tmp_path / "figures")


def test_a_lost_trace_is_named(gpu_results, tmp_path):
    results = shutil.copytree(gpu_results, tmp_path / "results")
    (results / BASELINE_TRACE / "kernels.parquet").unlink()
    with pytest.raises(RecordError, match=r"kernels\.parquet"):
        draw_figures(results, results / "figures")


def test_phases_of_training_are_seconds_an_epoch():
    training = measure_training_phases(example_summary("baseline", Example(), "1"))
    assert training == pytest.approx(
        {"dataload": 0.72, "forward": 0.24, "backward": 0.40, "update": 0.12, "between phases": 0.0}, abs=1e-9
    )


def test_phases_of_any_names_are_drawn_and_told():
    """KAUST's ranges: a loop whose phases are called otherwise than the worked case's."""
    known = example_summary("baseline", Example(), "1")
    renamed = {"dataload": "Copy to device", "forward": "Forward Pass", "backward": "Backward Pass", "update": "Optimizer step"}
    phases = [phase.model_copy(update={"name": renamed.get(phase.name, phase.name)}) for phase in known.phases]
    summary = known.model_copy(update={"phases": phases, "has_gpu": False})
    seconds = measure_training_phases(summary)
    names = [*renamed.values()]
    assert [*seconds] == [*names, "between phases"]
    assert seconds["Backward Pass"] == pytest.approx(0.40)
    assert len(set(colour_phases(names, TRAINING_COLOURS).values())) == 4
    assert colour_phases(["forward", "backward"], TRAINING_COLOURS) == TRAINING_COLOURS
    assert colour_phases(["forward", "mixing"], TRAINING_COLOURS).keys() == {*TRAINING_COLOURS, "mixing"}
    said = _describe_phases("One", summary)
    assert said.replace("\N{NO-BREAK SPACE}", " ").startswith(
        "One spends 49 % of its training time in Copy to device (0.720 s of"
    )


def test_tracks_follow_the_trace(gpu_results):
    # The baseline's first step: 0.09 s of loading with an idle GPU, then 0.03, 0.05 and 0.015 s in which it is busy 0.9.
    tracks = Tracks(gpu_results / BASELINE_TRACE, zero_ns=2_000_000_000)
    edges_s = np.array([0.0, 0.09, 0.185])
    assert tracks.gpu_shares(edges_s) == pytest.approx([0.0, 0.9], abs=1e-3)
    bars = tracks.phase_bars(list(TRAINING_COLOURS | VALIDATION_COLOURS), np.linspace(0, 0.185, 38))
    assert [name for name, _, _ in bars] == ["dataload", "forward", "backward", "update"]
    assert [length for _, _, length in bars] == pytest.approx([0.09, 0.03, 0.05, 0.015], abs=1e-6)
