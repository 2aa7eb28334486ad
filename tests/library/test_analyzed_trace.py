"""Traces as objects: tables of what was worked out by hand, and what differs between two."""

import pytest

import speedproof
from speedproof.profilers.convert import convert_input
from tests.library.conftest import export_epochs
from tests.trace.readings import compare_traces


def test_a_trace_has_tables_with_units_in_their_columns(place):
    trace = speedproof.open_trace("before.sqlite")
    iterations = trace.iterations()
    # Each: 6 ms of loading, then 4 ms in which kernels run for 1.88 and 1.9 ms.
    assert iterations["duration_s"].tolist() == [0.01, 0.01, 0.01]
    assert iterations["kernel_busy_fraction"].tolist() == pytest.approx([0.378] * 3)
    assert trace.idle().set_index("cause")["seconds_per_epoch"]["waiting for data"] == 0.006
    assert trace.idle()["seconds_per_epoch"].sum() == pytest.approx(0.01 - 0.00378)
    assert trace.kernels().set_index("name")["seconds_per_epoch"].to_dict() == {"wgrad": 0.0019, "gemm": 0.00188}
    assert trace.phases().set_index("name")["wall_s"]["dataload"] == 0.018
    assert (trace.unit, trace.warnings) == ("epoch", [])
    assert trace.sentence.startswith("3 epochs; mean 10.0")


def test_a_difference_sums_to_the_whole(place):
    before, after = speedproof.open_trace("before.sqlite"), speedproof.open_trace("after.sqlite")
    difference = before.diff(after)
    assert difference.total_s == pytest.approx(-0.004)
    assert difference.to_frame().set_index("name")["seconds_per_epoch"]["waiting for data"] == pytest.approx(-0.004)
    assert difference.kernels()["seconds_per_epoch"].abs().sum() == 0
    assert difference.to_frame()["seconds_per_sample"].isna().all()
    assert before.diff(after, samples=(4, 2)).to_frame()["seconds_per_sample"][0] == pytest.approx(0.002 / 2 - 0.006 / 4)
    for other in (speedproof.diff_traces("before.sqlite", after), before.diff("after.sqlite")):
        assert other.to_frame().equals(difference.to_frame())


def test_a_trace_s_own_folder_is_opened_and_compared_as_the_command_does(place):
    for name in ("before", "after"):
        convert_input(place / f"{name}.sqlite", place / name)
    difference = speedproof.diff_traces(place / "before", place / "after")
    assert difference.total_s == compare_traces(place / "before", place / "after").total_s


def test_options_choose_iterations_phases_and_the_whole(place):
    by_phase = speedproof.open_trace("before.sqlite", epoch="forward", phases={"working": "backward"})
    assert len(by_phase.iterations()) == 3 and by_phase.unit != "epoch"
    assert speedproof.open_trace("before.sqlite", whole=True).unit == "stretch"
    with pytest.raises(speedproof.SpeedproofError, match="process 7"):
        speedproof.open_trace("before.sqlite", process=7)


def test_what_is_no_trace_is_an_error_of_one_line_that_names_the_file(place):
    (place / "broken.sqlite").write_bytes(b"no database")
    for name in ("broken.sqlite", "absent.sqlite"):
        with pytest.raises(speedproof.SpeedproofError, match=name) as raised:
            speedproof.open_trace(name)
        assert "\n" not in str(raised.value)


def test_a_notebook_shows_traces_with_all_escaped(place):
    export_epochs(place / "<b>.sqlite", loading_us=1000)
    trace = speedproof.open_trace("<b>.sqlite")
    for shown in (trace, speedproof.diff_traces("before.sqlite", trace)):
        html = shown._repr_html_()
        assert "<b>" not in html and "&lt;b&gt;" in html
        assert html.count("<table>") == 1 and "waiting for data" in html
