"""Which values reproduce a number, by the digits that its source prints."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from speedproof.stats.stated_number import StatedNumber, Tolerance, describe_stated, list_bounds_of

TENTH = Tolerance(share=0.1, why="an example")


def between(low, high):
    return StatedNumber(comparator="between", low=low, high=high)


def of_value(comparator, value, **more):
    return StatedNumber(comparator=comparator, value=value, **more)


@pytest.mark.parametrize(
    ("stated", "unit", "bounds", "text"),
    [
        (of_value("exactly", "2.8"), "×", (2.75, 2.85), "2.8×"),
        (of_value("exactly", "2.80"), "×", (2.795, 2.805), "2.80×"),
        (of_value("exactly", "50"), "×", (49.5, 50.5), "50×"),
        (of_value("exactly", "97"), "%", (0.965, 0.975), "97 %"),
        (between("12", "14"), "s", (11.5, 14.5), "12–14 s"),
        (between("1.7", "2.3"), "×", (1.65, 2.35), "1.7–2.3×"),
        (of_value("more than", "50"), "×", (50, math.inf), "more than 50×"),
        (of_value("more than", "90"), "%", (0.9, math.inf), "more than 90 %"),
        (of_value("less than", "5"), "s", (-math.inf, 5), "less than 5 s"),
        (of_value("about", "8"), "s", (7.5, 8.5), "about 8 s"),
        (of_value("about", "40", printed_in="min"), "s", (2100, 2700), "about 40 min"),  # rounded to tens of minutes
        (of_value("about", "0"), "s", (-0.5, 0.5), "about 0 s"),
        (of_value("about", "1.20"), "s", (1.195, 1.205), "about 1.20 s"),
        (of_value("about", "3"), "×", (2.5, 3.5), "about 3×"),
        (of_value("up to", "10"), "×", (9.5, 10.5), "up to 10×"),
    ],
)
def test_what_rounds_to_the_printed_digits_reproduces_a_number(stated, unit, bounds, text):
    assert list_bounds_of(stated, unit, None) == pytest.approx(bounds)
    assert describe_stated(stated, unit, None).replace("\N{NO-BREAK SPACE}", " ") == text


def test_a_tolerance_counts_instead_of_the_digits_and_stands_beside_the_number():
    stated = of_value("about", "63", tolerance="figure")
    assert list_bounds_of(stated, "×", TENTH) == pytest.approx((56.7, 69.3))
    assert describe_stated(stated, "×", TENTH).replace("\N{NO-BREAK SPACE}", " ") == "about 63× ± 10 %"


@pytest.mark.parametrize(
    ("comparator", "value", "said"),
    [
        ("similar", "1", "`similar` needs a `tolerance`"),
        ("about", "1", "`about` 1 needs"),
        ("about", "10", "allow more than 20%"),
    ],
)
def test_a_number_whose_digits_say_little_needs_a_tolerance(comparator, value, said):
    with pytest.raises(ValidationError, match=said):
        of_value(comparator, value)
    assert of_value(comparator, value, tolerance="figure").tolerance == "figure"


@given(st.decimals(0, 10_000, places=2))
def test_every_value_that_is_printed_alike_lies_in_the_bounds(value):
    low, high = list_bounds_of(of_value("exactly", str(value)), "s", None)
    assert low < float(value) < high
    assert high - low == pytest.approx(0.01)
