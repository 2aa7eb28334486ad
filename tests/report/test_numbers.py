import pytest
from hypothesis import given
from hypothesis import strategies as st

from speedproof.util.numbers import format_duration, format_printed, format_range, format_ratio, format_value


def plain(text):
    return text.replace("\N{NO-BREAK SPACE}", " ").replace("\N{NARROW NO-BREAK SPACE}", " ")


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (1.37037, "×", "1.37×"),
        (109.4, "×", "109×"),
        (0.0512, "s", "51.2 ms"),
        (3.61e-6, "s", "3.61 µs"),
        (8.4e-8, "s", "84.0 ns"),
        (-0.0421, "s", "-42.1 ms"),
        (0.17149, "s", "0.171 s"),
        (9.996, "s", "10.0 s"),
        (99.96, "s", "100 s"),
        (6248.4, "s", "6248 s"),
        (13063.0, "s", "13 063 s"),
        (0.7439, "%", "74 %"),
        (0.081, "%", "8.1 %"),
        (0.00043, "%", "0.04 %"),
        (95, "epochs", "95 epochs"),
        (0.0, "s", "0 s"),
        (-1.234, "s", "-1.23 s"),
        (None, "s", "–"),
    ],
)
def test_a_number_has_three_digits_and_its_unit(value, unit, text):
    assert plain(format_value(value, unit)) == text


def test_a_duration_is_told_in_seconds_or_minutes():
    assert [plain(format_duration(seconds)) for seconds in (3.67, 99, 222)] == ["3.67 s", "99.0 s", "3.70 min"]


def test_a_range_has_one_unit_and_needs_both_ends():
    assert plain(format_range(1.334, 1.398, "×")) == "1.33–1.40×"
    assert format_range(None, 1.0, "s") == "–"


@pytest.mark.parametrize(
    ("median", "low", "high", "texts"),
    [
        (1.3704, 1.334, 1.398, ("1.37×", "1.33–1.40×")),
        (1.0407, 1.0391, 1.0431, ("1.041×", "1.039–1.043×")),  # the ends look alike
        (1.0041, 1.0012, 1.0089, ("1.004×", "1.001–1.01×")),  # two would read as 1
        (0.9961, 0.9912, 0.99964, ("0.996×", "0.991–0.9996×")),  # one would
        (1.0041, 0.9988, 1.0089, ("1.00×", "0.999–1.01×")),  # holds 1, and says so
        (5.0, 1.0004, 30.0, ("5.00×", "1.0004–30.0×")),  # only the end that would
        (0.5, 0.2, 0.99951, ("0.500×", "0.200–0.9995×")),
        (1.2, 1.2, 1.2, ("1.20×", "1.20–1.20×")),
        (2.0, 1e-9, 1e9, ("2.00×", "<0.01–>9999×")),
        (1.37, None, None, ("1.37×", "–")),
        (None, None, None, ("–", "–")),
    ],
)
def test_a_ratio_has_the_digits_that_its_interval_needs(median, low, high, texts):
    assert format_ratio(median, low, high) == texts


def test_a_ratio_reads_as_no_bound_that_its_interval_keeps_off():
    assert format_ratio(1.3, 1.17, 1.4997, 1.5) == ("1.30×", "1.17–1.4997×")
    assert format_ratio(1.3, 1.17, 1.5003, 1.5) == ("1.30×", "1.17–1.50×")
    assert format_ratio(1.2342, 1.2341, 1.3, 1.234) == ("1.2342×", "1.2341–1.30×")  # 1.23 would be on the other side


def test_a_documented_number_keeps_its_digits():
    assert plain(format_printed("2.10", "×")) == "2.10×"
    assert plain(format_printed("13063", "s")) == "13063 s"
    assert plain(format_printed("90", "%")) == "90 %"


@given(st.floats(min_value=1e-6, max_value=1e9))
def test_what_is_shown_is_within_half_a_unit_of_the_third_digit(value):
    shown = float(plain(format_value(value)).replace(" ", ""))
    assert abs(shown - value) <= 0.005001 * value
