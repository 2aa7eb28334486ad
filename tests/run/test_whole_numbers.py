"""A pattern's group finds whole numbers, or is refused. Values by hand."""

import re

import pytest

from speedproof.config.reading import Reading
from speedproof.run.printed_output import Line
from speedproof.run.quality_command import find_quality
from speedproof.run.read_lines import read_lines
from speedproof.util.errors import RecordError


@pytest.mark.parametrize(
    ("text", "pattern", "part", "whole"),
    [
        ("1.5e-3 s", r"([\d.]+)", "1.5", "1.5e-3"),
        ("1.5e-3 s", r"([\d.]+) s", "3", "1.5e-3"),
        ("2E5 s", r"^(\d+)", "2", "2E5"),
        ("loss 6.0e-05", r"loss ([\d.]+)", "6.0", "6.0e-05"),
        ("1,23 s", r"([\d.]+)", "1", "1,23"),
        ("1,23 s", r"([\d.]+) s", "23", "1,23"),
        ("1.23", r"(\d+)", "1", "1.23"),
        ("1.23", r"\.(\d+)", "23", "1.23"),
        ("took 12.5 s", r"took .*(\d\.\d)", "2.5", "12.5"),
        ("took 1,234.5 s", r"took .*?([\d.]+) s", "234.5", "1,234.5"),
        ("took 1,234.5 s", r"took [\d]{1,3}.([\d.]+) s", "234.5", "1,234.5"),
        ("0.1234", r"(\d\.\d\d)", "0.12", "0.1234"),
        ("1'234 s", r"(\d+)", "1", "1'234"),
        ("1'234.5 s", r"([\d.]+) s", "234.5", "1'234.5"),
        (".25 s", r"(\d+) s", "25", ".25"),
        ("-3.5", r"-?([\d.]+)", "3.5", "-3.5"),
        ("loss=-3.5", r"loss=-?([\d.]+)", "3.5", "-3.5"),
        ("loss: [-3.5]", r"([\d.]+)\]", "3.5", "-3.5"),
        ("acc 0.91", r"acc (\d+)", "0", "0.91"),
        ("at 0:00:01.5", r"at (\d+:\d\d:\d\d)", "0:00:01", "01.5"),
    ],
)
def test_a_part_of_a_number_is_refused(text, pattern, part, whole):
    for key in ("epoch_s", "quality", "rate"):
        reading = Reading(source="process" if key == "quality" else "lines", **{key: pattern})
        with pytest.raises(RecordError) as caught:
            read_lines([Line(text, 1.0, 1)], reading)
        said = f"'{part}' is only part of {whole}; have the pattern's group match all of it, as (\\S+) does"
        assert f"--{key.replace('_', '-')}: {said}" in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "pattern", "value"),
    [
        ("took 12.", r"took (\d+)", 12.0),
        ("took 12...5", r"took (\d+)", 12.0),
        ("12.5s, 3", r"^([\d.]+)", 12.5),
        ("12.5,3", r"^([\d.]+)", 12.5),
        ("0.12,0.13", r"^([\d.]+)", 0.12),
        ("0.12,0.13", r"([\d.]+)$", 0.13),
        ("3,12.5", r"^(\d+)", 3.0),
        ("0.5-0.6 s", r"^([\d.]+)", 0.5),
        ("0.5-0.6 s", r"-([\d.]+)", 0.6),
        ("0.5..0.6", r"^(\d\.\d)", 0.5),
        ("2,100.133", r"^\d+,(\S+)", 100.133),
        ("2,100.133,7", r"^(?:[^,]*,){1}([^,]+)", 100.133),
        ("2,100", r"^(\d+),", 2.0),
        ("2,100,3", r"^\d+,(\d+),", 100.0),
        ("2,1.5e-3", r"^\d+,(\S+)", 1.5e-3),
        ("{'epoch': 3, 'took': '2.5'}", r"'took': '([\d.]+)'", 2.5),
        ('{"epoch":3,"took":2.5}', r'"took":([\d.]+)', 2.5),
        ("2024-05-03 12:30:05,123 took 2.5 s", r"took ([\d.]+)", 2.5),
        ("epoch-3", r"(\d+)$", 3.0),
        ("12 epochs", r"(\d+)", 12.0),
        ("[00:12<00:00, 1.25it/s]", r", +([\d.]+)it", 1.25),
    ],
)
def test_a_whole_number_is_read_whatever_stands_around_it(text, pattern, value):
    found = read_lines([Line(text, 1.0, 1)], Reading(source="process", quality=pattern))
    assert [one for _, one, _ in found.qualities] == [value]
    assert find_quality(f"starting\n{text}\nbye\n", pattern) == value


def test_a_quality_command_is_read_in_the_same_way():
    with pytest.raises(RecordError, match=re.escape("--quality-command: '6.0' is only part of 6.0e-05")):
        find_quality("loss 6.0e-05\n", r"loss ([\d.]+)")
    assert find_quality("\ufeff0.5\n0.75\n", r"\S+$") == 0.75
