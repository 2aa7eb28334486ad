import pytest
from hypothesis import given
from hypothesis import strategies as st

from speedproof.numbers import format_documented, format_range, format_value


def plain(text):
    return text.replace("\N{NO-BREAK SPACE}", " ").replace("\N{NARROW NO-BREAK SPACE}", " ")


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (1.37037, "×", "1.37×"),
        (109.4, "×", "109×"),
        (0.0512, "s", "0.0512 s"),
        (0.17149, "s", "0.171 s"),
        (9.996, "s", "10.0 s"),
        (99.96, "s", "100 s"),
        (6248.4, "s", "6248 s"),
        (13063.0, "s", "13 063 s"),
        (0.7439, "%", "74 %"),
        (0.081, "%", "8.1 %"),
        (0.00043, "%", "0.04 %"),
        (95, "epochs", "95 epochs"),
        (0.9, "Dice", "0.900"),
        (0.0, "s", "0 s"),
        (-1.234, "s", "-1.23 s"),
        (None, "s", "–"),
    ],
)
def test_a_number_has_three_digits_and_its_unit(value, unit, text):
    assert plain(format_value(value, unit)) == text


def test_a_range_has_one_unit_and_needs_both_ends():
    assert plain(format_range(1.334, 1.398, "×")) == "1.33–1.40×"
    assert format_range(None, 1.0, "s") == "–"


def test_a_documented_number_keeps_its_digits():
    assert plain(format_documented(2.1, "×")) == "2.1×"
    assert plain(format_documented(13063, "s")) == "13063 s"
    assert plain(format_documented(0.9, "%")) == "90 %"


@given(st.floats(min_value=1e-6, max_value=1e9))
def test_what_is_shown_is_within_half_a_unit_of_the_third_digit(value):
    shown = float(plain(format_value(value)).replace(" ", ""))
    assert abs(shown - value) <= 0.005001 * value
