import shutil

import numpy as np
import pytest
from matplotlib.colors import to_hex
from PIL import Image

from speedproof.report.figures import draw
from speedproof.report.figures.ablation_figure import draw_ablation
from speedproof.report.figures.draw import draw_figures, kernel_groups
from speedproof.report.figures.figure_data import read_evidence, read_figure_index
from speedproof.report.figures.phases_figure import mean_phases, name_phases
from speedproof.report.figures.style import FASTER, PALE, TRAINING_COLOURS, VALIDATION_COLOURS, WITHHELD, colour_phases
from speedproof.report.figures.timeline_figure import Tracks
from speedproof.report.findings import _describe_phases
from speedproof.stats.compare import compare_experiments, write_comparison
from speedproof.util.errors import RecordError
from tests.report.example import CLAIMS, CPU_EXAMPLE, Example, write_example
from tests.report.example_trace import example_summary

ALL = {"epoch_times", "ablation", "timeline", "phases", "utilisation", "kernels", "convergence"}
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


def keys_of_the_ablation(results):
    """Return the labels of the figure's keys and the colours of its bars, the first step's first."""
    (axes,) = draw_ablation(read_evidence(results)).axes
    colours = [to_hex(bar.get_facecolor()).upper() for container in axes.containers for bar in container]
    return [text.get_text() for text in axes.get_legend().get_texts()], colours


def test_a_withheld_step_has_a_colour_and_a_key_of_its_own(gpu_results, tmp_path):
    assert keys_of_the_ablation(gpu_results) == (["faster", "slower", "inconclusive"], [FASTER, FASTER])
    # Medians of the best Dice are 0.94, 0.91 and 0.94: the first step is faster and learns less.
    dice = (("baseline", 0.155), ("cached", 0.15), ("fast", 0.155))
    example = Example(modes=("timed",), ablation=("baseline", "cached", "fast"), dice_per_epoch=dice)
    write_comparison(compare_experiments(write_example(tmp_path, example), CLAIMS), tmp_path)
    labels, colours = keys_of_the_ablation(tmp_path)
    assert labels == ["faster", "slower", "inconclusive", "withheld: worse quality"]
    assert colours == [WITHHELD, FASTER]


def test_steps_of_one_pair_have_a_colour_and_a_key_of_their_own(tmp_path):
    example = Example(experiments=1, rounds=1, modes=("timed",), ablation=("baseline", "cached", "fast"))
    write_comparison(compare_experiments(write_example(tmp_path, example), CLAIMS), tmp_path)
    assert keys_of_the_ablation(tmp_path) == (
        ["faster", "slower", "inconclusive", "one pair: no interval"],
        [PALE, PALE],
    )


def test_without_a_gpu_the_figures_of_its_work_are_missing_with_a_reason(cpu_results):
    index = read_figure_index(cpu_results / "figures")
    missing = {entry.name: entry.missing for entry in index.figures if entry.missing}
    assert missing.pop("ablation") == "no ablation was measured (measurement.ablation)"
    assert set(missing) == {"utilisation", "kernels", "roofline"}
    assert all("no GPU" in reason for reason in missing.values())
    assert not (cpu_results / "figures" / "kernels.png").exists()


def test_a_figure_that_is_no_longer_drawn_is_removed(cpu_results, tmp_path, monkeypatch):
    (tmp_path / "kernels.png").write_bytes(b"of an older measurement")
    monkeypatch.setattr(draw, "FIGURES", [kind for kind in draw.FIGURES if kind.name == "kernels"])
    draw_figures(cpu_results, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["figures.json"]


def test_figures_need_a_comparison(tmp_path):
    write_example(tmp_path, CPU_EXAMPLE)
    with pytest.raises(RecordError, match=r"comparison\.json: no such file"):
        draw_figures(tmp_path, tmp_path / "figures")


def test_a_lost_trace_is_named(gpu_results, tmp_path):
    results = shutil.copytree(gpu_results, tmp_path / "results")
    (results / BASELINE_TRACE / "kernels.parquet").unlink()
    with pytest.raises(RecordError, match=r"kernels\.parquet"):
        draw_figures(results, results / "figures")


def test_mean_phases_are_seconds_an_epoch_of_their_part():
    summary = example_summary("baseline", Example(), "1")
    training = mean_phases(summary, "training", list(TRAINING_COLOURS))
    assert training == pytest.approx(
        {"dataload": 0.72, "forward": 0.24, "backward": 0.40, "update": 0.12, "between phases": 0.0}, abs=1e-9
    )
    assert sum(mean_phases(summary, "validation", list(VALIDATION_COLOURS)).values()) == pytest.approx(0.22)


def test_phases_of_any_names_are_drawn_and_told():
    """KAUST's ranges: a loop whose phases are called otherwise than the worked case's."""
    known = example_summary("baseline", Example(), "1")
    renamed = {"dataload": "Copy to device", "forward": "Forward Pass", "backward": "Backward Pass", "update": "Optimizer step"}
    phases = [phase.model_copy(update={"name": renamed.get(phase.name, phase.name)}) for phase in known.phases]
    summary = known.model_copy(update={"phases": phases, "has_gpu": False})
    names = name_phases([summary], "training")
    assert names == list(renamed.values())
    assert mean_phases(summary, "training", names)["Backward Pass"] == pytest.approx(0.40)
    assert len(set(colour_phases(names, TRAINING_COLOURS).values())) == 4
    assert colour_phases(["forward", "backward"], TRAINING_COLOURS) == TRAINING_COLOURS
    assert colour_phases(["forward", "mixing"], TRAINING_COLOURS).keys() == {*TRAINING_COLOURS, "mixing"}
    said = _describe_phases("One", summary)
    assert said.replace("\N{NO-BREAK SPACE}", " ").startswith(
        "One spends 49 % of its training time in Copy to device (0.720 s of"
    )


def test_kernel_groups_are_seconds_an_epoch():
    # Busy: 0.9 of 0.76 s training in each of 6 epochs, 0.9 × 0.6 of 0.22 s in the 3 that validate; 40 % weight gradients.
    groups = kernel_groups(example_summary("baseline", Example(), "1"))
    assert groups["convolution weight gradient"] == pytest.approx(0.4 * (6 * 0.9 * 0.76 + 3 * 0.9 * 0.6 * 0.22) / 6)


def test_tracks_follow_the_trace(gpu_results):
    # The baseline's first step: 0.09 s of loading with an idle GPU, then 0.03, 0.05 and 0.015 s in which it is busy 0.9.
    tracks = Tracks(gpu_results / BASELINE_TRACE, zero_ns=2_000_000_000)
    edges_s = np.array([0.0, 0.09, 0.185])
    assert tracks.gpu_shares(edges_s) == pytest.approx([0.0, 0.9], abs=1e-3)
    bars = tracks.phase_bars(list(TRAINING_COLOURS | VALIDATION_COLOURS), np.linspace(0, 0.185, 38))
    assert [name for name, _, _ in bars] == ["dataload", "forward", "backward", "update"]
    assert [length for _, _, length in bars] == pytest.approx([0.09, 0.03, 0.05, 0.015], abs=1e-6)
