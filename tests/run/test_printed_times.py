"""Times as programs print them: their units and the precision of their digits. Values by hand."""

import re

import pytest

from speedproof.config.reading import Reading
from speedproof.run.printed_output import Line
from speedproof.run.printed_times import find_resolution, read_rate, read_time
from speedproof.run.proof.plausible_times import check_observed_growth, check_observed_unit, check_total
from speedproof.run.read_files import read_file
from speedproof.run.read_lines import read_lines
from speedproof.util.errors import RecordError

NO_BREAK = "\u00a0"


def read(text, pattern=r"took (\S+)", unit=None):
    """The time that a pattern finds in one line."""
    match = re.search(pattern, text)
    return read_time(match[1], text[match.end(1) :], unit)


def read_all(pattern, *texts, unit=None):
    """What is read of lines that came one after the other."""
    lines = [Line(text, float(number), number) for number, text in enumerate(texts)]
    return read_lines(lines, Reading(source="lines", epoch_s=pattern, unit=unit))


@pytest.mark.parametrize(
    ("text", "pattern", "seconds", "unit", "resolution_s"),
    [
        ("time 100.12ms, mfu 1.00%", r"time (\S+)ms", 0.10012, "ms", 5e-6),
        ("time 100.12ms, mfu 1.00%", r"time (\S+)", 0.10012, "ms", 5e-6),
        ("took 100 ms", r"took (\S+) m?s", 0.1, "ms", 5e-4),
        ("took 2.5 s", r"took (\S+)", 2.5, "s", 0.05),
        ("took 2.50sec.", r"took ([\d.]+)", 2.5, "s", 0.005),
        ("took 1.5 minutes)", r"took (\S+)", 90.0, "min", 3.0),
        ("took 2 h", r"took (\S+)", 7200.0, "h", 1800.0),
        ("took 250µs", r"took (\S+)", 2.5e-4, "us", 5e-7),
        ("took 250 us", r"took (\d+)", 2.5e-4, "us", 5e-7),
        ("took 7e3 ns", r"took (\S+)", 7e-6, "ns", 5e-7),
        ("25/25 - 3s 120ms/step", r"(\S+)/step", 0.12, "ms", 5e-4),  # Keras
        ("25/25 - 3s 120ms/step", r"- (\d+)s", 3.0, "s", 0.5),
        ("took 0.204411, loss 2", r"took (\S+)", 0.204411, "s", 5e-7),
        ("took 12 steps", r"took (\S+)", 12.0, "s", 0.5),  # a word that begins like a unit
        ("took .5", r"took (\S+)", 0.5, "s", 0.05),
        ("took 0:00:00.204411", r"took (\S+)", 0.204411, "h:mm:ss", 5e-7),
        ("took 1:02:03,", r"took (\S+)", 3723.0, "h:mm:ss", 0.5),
    ],
)
def test_the_unit_behind_a_number_is_read(text, pattern, seconds, unit, resolution_s):
    found = read(text, pattern)
    assert (found.seconds, found.resolution_s) == pytest.approx((seconds, resolution_s), rel=1e-12)
    assert found.unit == unit


@pytest.mark.parametrize(
    ("text", "pattern", "value"),
    [
        ("1,234.5 tok/s", r"(\S+) tok/s", 1234.5),
        ("tok/s=1,234,567", r"tok/s=(\S+)", 1234567.0),
        ("tok/s: 12,345.25, loss 0.1", r"tok/s: (\S+)", 12345.25),
        ("3,1234.5,0.1", r"^\d,([\d.]+),", 1234.5),  # columns
        ("3,234.5,0.1", r"^\d,([\d.]+),", 234.5),
        ("loss 0.123,234.5 tok/s", r"([\d.]+) tok/s", 234.5),
    ],
)
def test_commas_that_separate_thousands_are_read(text, pattern, value):
    (time,) = read_lines([Line(text, 1.0, 1)], Reading(source="lines", rate=pattern)).times
    assert time.seconds == pytest.approx(1 / value, rel=1e-12)


@pytest.mark.parametrize(
    ("text", "pattern", "said"),
    [
        ("1,234.5 tok/s", r"([\d.]+) tok/s", "rate: '234.5' is only part of 1,234.5; have the pattern's group match all of it"),
        ("tok/s: 1,234.5", r"tok/s: ([\d.]+)", "rate: '1' is only part of 1,234.5"),
        ("1,234 tok/s", r"(\d+) tok/s", "rate: '234' is only part of 1,234"),
        ("1,234 tok/s", r"(\S+) tok/s", "rate: the comma of 1,234 may separate thousands or decimals; print no comma"),
    ],
)
def test_a_part_of_a_number_is_none(text, pattern, said):
    for key, option in (("rate", "--rate"), ("epoch_s", "--epoch-s")):
        with pytest.raises(RecordError, match=re.escape(said.replace("rate:", f"{option}:"))):
            read_lines([Line(text, 1.0, 1)], Reading(source="lines", **{key: pattern}))


def test_times_and_columns_with_thousands_are_read(tmp_path):
    assert [time.seconds for time in read_all(r"took (\S+)", "took 1,234.5ms", "took 987.5ms").times] == [1.2345, 0.9875]
    (tmp_path / "log.csv").write_text('seconds,acc\n"1,234.5",0.5\n')
    (time,) = read_file(tmp_path, Reading(source="file", file="log.csv", epoch_s="seconds")).times
    assert (time.seconds, time.resolution_s) == (1234.5, 0.05)


def test_a_unit_that_is_named_overrides_the_printed_one():
    assert read("took 100 s", unit="ms").seconds == pytest.approx(0.1)
    assert read("took 100", unit="ms").seconds == pytest.approx(0.1)
    assert read("took 100ms", unit="us").seconds == pytest.approx(1e-4)
    assert read("took 2.5m", r"took ([\d.]+)", unit="min").seconds == 150.0


@pytest.mark.parametrize(
    ("text", "pattern", "why"),
    [
        ("step 1 | 5113 tok/s", r"(\S+) tok/s", "5113 tok/s is a rate, not a time"),
        ("step 1 | 5113tok/s", r"\| (\S+)", "5113tok/s is a rate, not a time"),
        ("step 1 | 5.1k tok/s", r"\| ([\d.]+)", "5.1k tok/s is a rate, not a time"),
        ("10.2 samples per second", r"(\S+) samples", "10.2 samples per second is a rate, not a time"),
        ("took 1 min 20 s", r"took (\S+) min", "'1 min 20 s' is a time with several units"),
        ("took 1h20min", r"took (\d+)", "'1h20min' is a time with several units"),
        ("took 1 day, 0:00:01", r"took (\S+)", "'1 day, 0:00:01' is a time with several units"),
        ("took 1:30", r"took (\S+)", "'1:30' is not a number"),
        ("took 3,5 s", r"took (\S+)", "'3,5' is not a number"),
        ("took 5%", r"took (\S+)", "'5%' is not a number"),
        ("took 1.5%", r"took ([\d.]+)", "'1.5%' has no known unit; print seconds, or name the unit (--unit)"),
        ("took 1.5 %", r"took (\S+)", "'1.5 %' has no known unit"),
        ("took 2m30s", r"took (\d+)m", "'2m30s' has no known unit"),
        ("took 2m", r"took (\d+)", "'2m' has no known unit"),
        ("took 0x1F", r"took (\d)", "'0x1F' has no known unit"),
        ("at 100 it/min", r"at (\S+)", "100 it/min is a rate, not a time"),
        ("at 3 samples per hour", r"at (\S+)", "3 samples per hour is a rate, not a time"),
        ("took inf", r"took (\S+)", "'inf' is not finite"),
    ],
)
def test_what_is_no_whole_time_is_refused_in_one_line(text, pattern, why):
    with pytest.raises(RecordError) as caught:
        read_all(pattern, text)
    assert why in str(caught.value) and "\n" not in str(caught.value)


def test_cells_of_a_table_have_units_too(tmp_path):
    (tmp_path / "log.csv").write_text("epoch,took\n1,100.5 ms\n2,101\n")
    found = read_file(tmp_path, Reading(source="file", file="log.csv", epoch_s="took"))
    assert [epoch.train_s for epoch in found.epochs] == pytest.approx([0.1005, 101.0])
    found = read_file(tmp_path, Reading(source="file", file="log.csv", epoch_s="took", unit="ms"))
    assert [epoch.train_s for epoch in found.epochs] == pytest.approx([0.1005, 0.101])


def test_a_runs_resolution_is_that_of_its_most_decimals_in_the_coarsest_unit():
    found = read_all(r"took (\S+)", "took 0.1", "took 0.12", "took 0.123")
    assert find_resolution(found.times) == pytest.approx(0.0005)
    found = read_all(r"took (\S+)", "took 950 ms", "took 1.2 s", "took 1.3 s")
    assert find_resolution(found.times) == pytest.approx(0.05)
    assert find_resolution([]) is None


def epochs_of(*texts, **asked):
    """The epochs of printed times since the start."""
    lines = [Line(f"at {text}", float(number), number) for number, text in enumerate(texts)]
    return read_lines(lines, Reading(source="lines", epoch_s=r"at (\S+)", cumulative=True, **asked))


def test_epochs_are_the_differences_of_times_since_the_start():
    assert [epoch.train_s for epoch in epochs_of("2.5", "3.5", "5.0").epochs] == pytest.approx([2.5, 1.0, 1.5])
    found = epochs_of("0 ms", "100 ms", "250 ms")  # the first one is the start
    assert [epoch.train_s for epoch in found.epochs] == pytest.approx([0.1, 0.15])
    assert [epoch.ends_s for epoch in found.epochs] == [1.0, 2.0]
    assert [epoch.train_s for epoch in epochs_of("0:00:59", "0:01:01").epochs] == [59.0, 2.0]
    assert [epoch.train_s for epoch in epochs_of("1", "3", unit="min").epochs] == [60.0, 120.0]


def test_a_difference_is_off_by_the_digits_of_both_times():
    assert find_resolution(epochs_of("2.5", "3.5").times) == pytest.approx(0.1)


def test_columns_hold_times_since_the_start_too(tmp_path):
    (tmp_path / "log.csv").write_text("at\n0\n2.0\n5.0\n")
    found = read_file(tmp_path, Reading(source="file", file="log.csv", epoch_s="at", cumulative=True))
    assert [epoch.train_s for epoch in found.epochs] == [2.0, 3.0]


@pytest.mark.parametrize(
    ("texts", "why"),
    [
        (["2.0", "1.0"], "1 s follows 2 s, and times since the start only grow"),
        (["2.0", "2.0"], "2 s follows 2 s, and times since the start only grow; print more digits"),
        (["0.0"], "the only time since the start is 0 s"),
    ],
)
def test_times_since_the_start_that_do_not_grow_are_refused(texts, why):
    with pytest.raises(RecordError, match=why):
        epochs_of(*texts)


def times_of(*texts, unit=None):
    return read_all(r"took (\S+)", *(f"took {text}" for text in texts), unit=unit).times


@pytest.mark.parametrize(
    ("texts", "unit", "process_s", "why"),
    [
        (["100"] * 3, None, 0.4, "the epochs add up to 300 s in a process of 0.400 s; are these milliseconds? add --unit ms"),
        (["100000"] * 3, None, 0.4, "are these microseconds? add --unit us"),
        (["100 s"] * 3, None, 0.4, "are these milliseconds? add --unit ms"),  # not what the program prints
        (["1.0"] * 6, None, 3.0, "6.00 s in a process of 3.00 s; correct the pattern"),  # as of two ranks
        (["0.101", "0.101", "0.202", "0.202"], None, 0.509, "0.606 s in a process of 0.509 s, and each time comes twice; have"),
        (["1", "2", "3", "4"], None, 4.5, "the times grow to 4.00 s in a process of 4.50 s; are these times since the start?"),
        (["1000", "2000", "3000", "4000"], "ms", 4.5, "are these times since the start? add --cumulative"),
        (["100", "200", "300", "400"], None, 1.2, "are these milliseconds? add --unit ms"),  # they grow far beyond it
        (["100.5"] * 5, "s", 0.6, "are these milliseconds? add --unit ms"),
        (["0.25", "0.25"], None, 2000.0, "0.500 s in a process of 2000 s; are these hours? add --unit h"),
    ],
)
def test_epochs_that_cannot_be_in_their_process_are_refused(texts, unit, process_s, why):
    with pytest.raises(RecordError) as caught:
        check_total(times_of(*texts, unit=unit), process_s, 1)
    assert why in str(caught.value).replace(NO_BREAK, " ")


def arriving(texts, ends_s, unit=None):
    """The epochs of lines that came at these moments."""
    lines = [Line(f"took {text}", at_s, number) for number, (text, at_s) in enumerate(zip(texts, ends_s, strict=True))]
    return read_lines(lines, Reading(source="lines", epoch_s=r"took (\S+)", unit=unit))


@pytest.mark.parametrize(
    ("texts", "unit", "options"),
    [
        (["0.10", "0.21", "0.30", "0.41"], None, "--cumulative"),
        (["100", "210", "300", "410"], None, "--cumulative --unit ms"),
        (["100", "210", "300", "410"], "ms", "--cumulative"),
        (["100ms", "210ms", "300ms", "410ms"], None, "--cumulative"),
    ],
)
def test_times_that_grow_by_what_passes_between_their_lines_are_since_the_start(texts, unit, options):
    # After a start-up of 20 s, so that all of them fit into the process.
    with pytest.raises(RecordError) as caught:
        check_observed_growth(arriving(texts, [20.101, 20.213, 20.302, 20.411], unit))
    assert str(caught.value).replace(NO_BREAK, " ") == (
        "--epoch-s: the times grow to 0.410 s, each by the time since the previous one; are these times since the start? "
        f"add {options}"
    )


@pytest.mark.parametrize(
    ("texts", "ends_s"),
    [
        (["0.10", "0.20", "0.30"], [20.1, 20.2, 20.3]),  # too few
        (["0.10", "0.21", "0.31", "0.40"], [20.1, 20.31, 20.62, 21.02]),  # each epoch is longer than the one before
        (["0.10", "0.21", "0.31", "0.40"], [21.0, 21.0, 21.0, 21.0]),  # the same, from a buffer
        (["0.001", "0.010", "0.100", "1.000"], [20.0, 20.01, 20.11, 21.11]),  # the same, ten times as long each
        (["0.10", "0.11", "0.10", "0.11"], [20.1, 20.21, 20.31, 20.42]),
        (["1", "2", "3", "4"], [20.0, 22.0, 25.0, 29.0]),  # the same, to a second
        (["0.01", "0.02", "0.03", "0.04"], [20.01, 20.02, 20.03, 20.04]),  # too short to tell
    ],
)
def test_epochs_that_grow_are_believed(texts, ends_s):
    check_observed_growth(arriving(texts, ends_s))


def test_an_asked_unit_that_our_clock_contradicts_is_refused():
    with pytest.raises(RecordError) as caught:
        check_observed_unit(arriving(["0.200", "0.201", "0.210"], [20.21, 20.42, 20.64], "ms"), "ms")
    assert str(caught.value).replace(NO_BREAK, " ") == (
        "--unit ms: the last epoch would take 210 µs, but by our clock the times are seconds; use --unit s, or trust them "
        "(--trust-reported)"
    )


@pytest.mark.parametrize(
    ("texts", "ends_s", "asked"),
    [
        (["200", "201", "210"], [20.21, 20.42, 20.64], "ms"),  # right
        (["0.15", "0.15", "0.15"], [20.21, 20.42, 20.64], "ms"),  # no unit fits: it times a part of its epochs
        (["0.200", "0.201", "0.210"], [20.7, 20.7, 20.7], "ms"),  # from a buffer
        (["0.020", "0.020", "0.020"], [20.02, 20.04, 20.06], "ms"),  # too short to tell
        (["0.200", "0.201"], [20.21, 20.42], "ms"),  # too few
        (["0.200", "0.201", "0.210"], [20.21, 20.42, 20.64], None),
    ],
)
def test_a_unit_is_believed_unless_our_clock_agrees_with_another(texts, ends_s, asked):
    check_observed_unit(arriving(texts, ends_s, asked), asked)


@pytest.mark.parametrize(
    ("texts", "unit", "process_s", "ranks"),
    [
        (["1.0"] * 3, None, 3.2, 1),
        (["1"] * 3, None, 2.2, 1),  # 0.7 s each, rounded up
        (["1.05"] * 3, None, 3.0, 1),  # by a clock that NTP slews
        (["0.01"] * 3, None, 3600.0, 1),  # a long start-up
        (["0.1 s"] * 3, None, 1000.0, 1),  # one iteration of a thousand is printed
        (["0.25", "0.25"], "s", 2000.0, 1),  # who names the unit knows
        (["1.0"] * 6, None, 3.2, 2),  # two ranks print
        ([], None, 1.0, 1),
    ],
)
def test_honest_epochs_are_believed(texts, unit, process_s, ranks):
    check_total(times_of(*texts, unit=unit) if texts else [], process_s, ranks)


@pytest.mark.parametrize(("text", "after"), [("0.11", " s"), ("12", "ms"), ("0.4", " sec, loss 3")])
def test_a_time_is_no_rate(text, after):
    with pytest.raises(RecordError, match="is a time; read it with --epoch-s"):
        read_rate(text, after)


@pytest.mark.parametrize(("text", "after"), [("5113", " tok/s"), ("100", " M tok/s"), ("3", " samples per s"), ("7", "")])
def test_a_rate_is_read_whatever_it_counts(text, after):
    assert read_rate(text, after).seconds == pytest.approx(1 / float(text))


@pytest.mark.parametrize(
    ("after", "seconds", "resolution_s"),
    [(" it/s", 0.04, 8e-4), (" it/min", 2.4, 0.048), (" samples/hour", 144.0, 2.88), (" tok per ms", 4e-5, 8e-7)],
)
def test_a_rate_per_another_unit_is_read(after, seconds, resolution_s):
    time = read_rate("25", after)  # 1/25 of the unit; half a unit of the last digit is 2 %
    assert (time.seconds, time.resolution_s) == pytest.approx((seconds, resolution_s), rel=1e-12)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("100 it/m", "--rate: '100 it/m' has an unknown unit; print a rate per second"),
        ("100 it/day", "--rate: '100 it/day' has an unknown unit"),
        ("1e-310 tok/s", "--rate: 1e-310 is out of range; correct the pattern"),
        ("1e300 tok/s", "--rate: 1e300 is out of range"),
        ("0 tok/s", "--rate: 0 is not above 0"),
    ],
)
def test_a_rate_that_cannot_be_is_refused_in_one_line(text, why):
    with pytest.raises(RecordError) as caught:
        read_lines([Line(text, 1.0, 1)], Reading(source="lines", rate=r"^(\S+)"))
    assert why in str(caught.value) and "\n" not in str(caught.value)
