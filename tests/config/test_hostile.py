"""Whatever a configuration holds, it is understood, or refused in one line that names file and key."""

import os
import sys
from pathlib import Path

import pytest
import yaml

from speedproof import cli
from speedproof.cli.application import app
from speedproof.util.errors import ConfigError
from speedproof.util.yaml_input import read_yaml
from speedproof_spleen.config import check_config
from tests.answers import answer_here

ROOT = Path(__file__).parents[2]
SHIPPED = ROOT / "config.yaml"
BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 10)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
MERGING = "a: &a {x: 1}\n" + "".join(
    f"{name}: &{name} {{<<: [{', '.join([f'*{before}'] * 10)}]}}\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.fixture
def said(tmp_path, monkeypatch, capsys):
    """Return a function that checks the shipped configuration with a file over it, and returns the one line that refuses it."""

    def check(path):
        monkeypatch.setattr(sys, "argv", ["speedproof", "check", f"--config={SHIPPED}", f"--config={path}"])
        with answer_here(), pytest.raises(SystemExit) as ended:
            cli.main()
        lines = capsys.readouterr().err.splitlines()
        assert (ended.value.code, len(lines)) == (2, 1)
        assert lines[0].isprintable()
        assert len(lines[0]) < 600
        return lines[0]

    return check


@pytest.fixture
def said_of(said, tmp_path):
    """Return a function that does so for a file of this content."""
    path = tmp_path / "mine.yaml"

    def check(content):
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        line = said(path)
        assert "mine.yaml" in line
        return line.split("mine.yaml: ", 1)[1]

    return check


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("measurement: {experiments: 1.0e+30}", "measurement.experiments: a number larger than any key accepts"),
        ("measurement: {experiments: 1e30}", "measurement.experiments: a number larger than any key accepts"),
        ("measurement: {rounds: 1:30}", "not YAML (line 1, column 23: `1:30` is a number in base 60; write it in decimal, or"),
        ("measurement: {budget_min: 1:30.5}", "not YAML (line 1, column 27: `1:30.5` is a number in base 60"),
        (
            "measurement: {rounds: 010}",
            "not YAML (line 1, column 23: `010` is a number in base 8; write it in decimal, or put it",
        ),
        ("measurement: {rounds: 0o10}", "measurement.rounds: must be a whole number (given: '0o10')"),
        ("measurement: {rounds: '1:30'}", "measurement.rounds: must be a whole number (given: '1:30')"),
        ("measurement: {experiments: 1001}", "measurement.experiments: must be at most 1000"),
        ("measurement: {experiments: true}", "measurement.experiments: must be a number, not true"),
        ("measurement: {experiments: 1000, rounds: 1000}", "measurement: up to 4,004,000 runs, 100,000 are allowed"),
        ("measurement: {epochs: 999999999}", "measurement.epochs: must be at most"),
        ("measurement: {seed: 2147483648}", "measurement.seed: must be below"),
        (f"measurement: {{experiments: {'9' * 6000}}}", "not YAML (Exceeds the limit"),
        (f"measurement: {{experiments: {'9' * 60}}}", "measurement.experiments: a number larger than any key accepts"),
        ("measurement: {variants: [{a: 1}]}", "measurement.variants.0: must be a text"),
        ("workload: {spacing_mm: [1, 1, .nan]}", "workload.spacing_mm.2: must be a finite number (given: nan)"),
        ("workload: {spacing_mm: [1, 1, nan]}", "workload.spacing_mm.2: must be a finite number"),
        ("workload: {spacing_mm: [1, 1, .inf]}", "workload.spacing_mm.2: must be a finite number (given: inf)"),
        ("workload: {spacing_mm: [1, 1, 0]}", "workload.spacing_mm.2: must be at least 0.05"),
        ("workload: {spacing_mm: [1, 1, -2]}", "workload.spacing_mm.2: must be at least 0.05"),
        ("workload: {spacing_mm: [1, 1, 1.0e+9]}", "workload.spacing_mm.2: must be at most"),
        ("workload: {intensity_range: [164, -57]}", "workload.intensity_range: must be [lower, upper], not [164, -57]"),
        ("workload: {intensity_range: [5, 5]}", "workload.intensity_range: must be [lower, upper]"),
        ("workload: {patch_size: [96, 96, 100000]}", "workload.patch_size.2: must be at most"),
        ("workload: {window_overlap: .nan}", "workload.window_overlap: must be a finite number"),
        ("variants: {mine: {extends: [fast]}}", "variants.mine.extends: must be the name of one variant, not list"),
        ("variants: {mine: {extends: {a: 1}}}", "variants.mine.extends: must be the name of one variant, not dict"),
        ("variants: {1: {extends: fast}}", "variants.1: a key must be a text, not int"),
        ("1: 2", "1: a key must be a text, not int"),
        ("? [a]\n: b", "not YAML (line 1, column 3: found unhashable key"),
        ('variants: {mine: {extends: fast, title: "\\x1b[2J"}}', "variants.mine.title: cannot be printed (given: '\\x1b[2J')"),
        ('variants: {mine: {extends: fast, title: "a\\nb"}}', "variants.mine.title: cannot be printed"),
        ('variants: {mine: {extends: fast, title: ""}}', "variants.mine.title: must have at least 1"),
        (f"variants: {{mine: {{extends: fast, title: {'x' * 101}}}}}", "variants.mine.title: must have at most 100"),
        (f"results: {'x' * 10_001}", "results: a text of 10001 characters; 10000 are allowed"),
        ("results: 2020-13-45", None),
        ("data: 2020-13-45", "data: must be a mapping of keys"),
        ("data: !!timestamp 2020-13-45", "not YAML (month must be in 1..12)"),
        ("data: !!timestamp 2020-12-04", "data: must be a text, number, list or mapping, not date"),
        ("data: !!binary aGVsbG8=", "data: must be a text, number, list or mapping, not bytes"),
        ("data: !!python/object:os.system x", "not YAML (line 1, column 7: could not determine a constructor"),
        ("data: null", "data: must be a mapping of keys (given: None)"),
        ("data: {folder: 'null'}", "data: `folder` cannot be null"),
        ("data: {source: phantom}\ndata: {source: msd}", "not YAML (line 2, column 1: the key `data` stands twice)"),
        ("data:\n\tsource: msd", "not YAML (line 2, column 1: found character"),
        ("data: {folder: ''}", "data.folder: must be a folder's path"),
        ("data: {folder: ~nobody-of-that-name/x}", "data.folder: there is no home folder `~nobody-of-that-name`"),
        ("results: ~/results", "results: must name a folder below the working folder"),
        ("results: a/../../b", "results: must name a folder below the working folder"),
        (BOMB, "not YAML (line 5, column 4: more than 20,000 values)"),
        (MERGING, "not YAML (line 5, column 12: more than 20,000 values)"),
        ("a: &a [*a]", "not YAML (line 1, column 4: an anchor that contains itself)"),
        ("a: " + "[" * 600 + "]" * 600, "lists or mappings nested too deep"),
        ("a: " + "[" * 60 + "]" * 60, "lists or mappings nested too deep"),
        ("a: *nowhere", "not YAML (line 1, column 4: found undefined alias 'nowhere')"),
        ("a: 1".encode("utf-16"), "not readable as text; save it as UTF-8"),
        (b"a: \xff", "not readable as text; save it as UTF-8"),
        ("a: \x00", "not YAML (unacceptable character #x0000"),
        ("- 1", "must be a mapping of keys"),
        ("", "must be a mapping of keys"),
        ("a: 1\n---\nb: 2", "not YAML (line 2, column 1: but found another document)"),
        (" " * (2**20 + 1), "1,024 KiB, too large for a configuration"),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else None,
)
def test_a_mistake_is_one_line_that_names_file_and_key(said_of, tmp_path, content, expected):
    if expected is None:  # a date is a text as any other
        path = tmp_path / "mine.yaml"
        path.write_text(content)
        assert app(["check", f"--config={SHIPPED}", f"--config={path}"], standalone_mode=False) is None
    else:
        assert said_of(content).startswith(expected)


def test_a_chain_of_too_many_variants_is_refused(said_of):
    chain = "".join(f"  v{number}: {{extends: v{number + 1}}}\n" for number in range(600))
    assert said_of(f"variants:\n{chain}  v600: {{extends: fast}}\n").startswith("variants: 607 of them, 500 are allowed")


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo], ids=["folder", "pipe"])
def test_what_is_no_file_is_named_and_not_waited_for(said, tmp_path, make):
    make(tmp_path / "mine.yaml")
    assert said(tmp_path / "mine.yaml").endswith("mine.yaml: is not a file; name a file of YAML")


def test_a_byte_order_mark_is_no_mistake(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_bytes(b"\xef\xbb\xbfresults: elsewhere\n")
    app(["check", f"--config={SHIPPED}", f"--config={path}"], standalone_mode=False)


def shipped(**changes):
    values = yaml.safe_load(SHIPPED.read_text())
    for section, keys in changes.items():
        values[section] |= keys
    return values


def test_null_as_snakemake_hands_it_on_is_null():
    """What stands inside of `--config resources={scratch: null}` arrives as text."""
    config = check_config(
        shipped(resources={"scratch": "null"}, measurement={"epochs": "null", "rounds": "3"}, data={"local_folder": "~"})
    )
    assert (config.resources.scratch, config.measurement.epochs, config.measurement.rounds) == (None, None, 3)
    assert config.data.local_folder is None
    with pytest.raises(ConfigError, match=r"^config: data: `local_folder`.*|source `local` needs"):
        check_config(shipped(data={"source": "local", "local_folder": "null"}))


def test_a_home_folder_is_found_wherever_a_path_stands(monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")
    turbo = yaml.safe_load(SHIPPED.read_text())["variants"]["turbo"]
    config = check_config(
        shipped(
            data={"folder": "~/data", "local_folder": "~"[:1] + "/ct"},
            container={"image": "~/image.sif", "folder": "~/images", "scratch": "~/tmp", "base": "~/base.sif"},
            resources={"scratch": "~/scratch"},
            profiling={"nsys": "~/bin/nsys"},
            variants={"mine": turbo | {"prepared_folder": "~/volumes"}},
        )
    )
    assert (config.data.folder, config.data.local_folder) == ("/home/me/data", "/home/me/ct")
    assert config.container.model_dump(include={"image", "folder", "scratch", "base"}) == {
        "image": "/home/me/image.sif",
        "folder": "/home/me/images",
        "scratch": "/home/me/tmp",
        "base": "/home/me/base.sif",
    }
    assert (config.resources.scratch, config.profiling.nsys) == ("/home/me/scratch", "/home/me/bin/nsys")
    assert config.variants["mine"].prepared_folder == "/home/me/volumes"


def test_values_that_others_read_are_refused_alike():
    """Snakemake reads files itself: a date is one there, and anchors have become the same list many times."""
    bomb = ["x"] * 10
    for _ in range(8):
        bomb = [bomb] * 10
    deep = []
    for _ in range(3000):
        deep = [deep]
    for value, problem in ((bomb, "too many values"), (deep, "too deep"), (float("nan"), "finite"), ({1: 2}, "must be a text")):
        with pytest.raises(ConfigError, match=f"^config: data.*{problem}"):
            check_config(shipped(data={"folder": value}))


@pytest.mark.parametrize("text", ["1e-05", "1E5", "-2e+3", "0.001", "1.0e-3"])
def test_a_number_is_one_however_json_writes_it(tmp_path, text):
    (tmp_path / "a.yaml").write_text(f"value: {text}\n")
    assert read_yaml(tmp_path / "a.yaml") == {"value": float(text)}


def test_numbers_that_mean_the_same_to_everyone_are_read(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("[1_000, 0x10, 007, 00, 08, 1e3, 12:30 h, a:30, '1:30', '010']")
    assert read_yaml(path) == [1000, 16, 7, 0, "08", 1000.0, "12:30 h", "a:30", "1:30", "010"]
