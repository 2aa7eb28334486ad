"""The command line as a user meets it: help for every step, one line and an exit code for every mistake."""

import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from speedproof.cli import app

ROOT = Path(__file__).parents[1]
COMMANDS = sorted(typer.main.get_command(app).commands)  # type: ignore[attr-defined]


def speedproof(*arguments):
    return subprocess.run([sys.executable, "-m", "speedproof", *map(str, arguments)], capture_output=True, text=True, cwd=ROOT)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_step_has_help(command):
    shown = CliRunner().invoke(app, [command, "--help"])
    assert shown.exit_code == 0
    assert "Usage" in shown.output


def test_every_step_of_the_rules_is_a_subcommand():
    called = {
        words[3]
        for path in (ROOT / "workflow/rules").glob("*.smk")
        for words in (line.strip().strip('"').split() for line in path.read_text().splitlines())
        if words[:3] == ["python3", "-m", "speedproof"]
    }
    assert called
    assert called <= set(COMMANDS)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["check", "--config", "missing.yaml"], 2, "missing.yaml: no such file"),
        (["verdict", "--from", "nowhere"], 6, "comparison.json: no such file"),
        (["report", "--from", "nowhere"], 6, "nowhere"),
        (["convert", "config.yaml", "--out", "nowhere"], 6, "config.yaml"),
        (["analyze", "nowhere.sqlite", "--out", "nowhere"], 6, "nowhere.sqlite"),
    ],
)
def test_a_mistake_is_one_line_and_its_exit_code(arguments, code, said):
    ended = speedproof(*arguments)
    assert ended.returncode == code
    assert said in ended.stderr
    assert len(ended.stderr.strip().splitlines()) == 1
    assert not (ROOT / "nowhere").exists()


def test_a_sound_configuration_is_called_sound():
    ended = speedproof("check", "--config", "config.yaml", "--config", "workflow/config/demo.yaml")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "phantom" in ended.stdout
