"""From a command as it is typed to the words that run."""

import os
import shlex
from pathlib import Path

import pytest

from speedproof.run.proof.command_lookup import resolve_command


def resolve(command, place):
    return resolve_command(command, place, os.defpath)


def test_variables_before_a_program_are_set_for_it_without_a_shell(tmp_path):
    (tmp_path / "train.sh").write_text("true\n")
    command, mistakes = resolve("BEAM=2 NAME='a b' sh train.sh", tmp_path)
    env, *words = shlex.split(command)
    assert (Path(env).name, words[:2], Path(words[2]).name, words[3:]) == (
        *("env", ["BEAM=2", "NAME=a b"], "sh", ["train.sh"]),
    )
    assert mistakes == []


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("python3 my b.py 3", "my: no such file in {}; quote 'my b.py' in the command 'python3 my b.py 3'"),
        ("./my b.py", "./my: no such file in {}; quote './my b.py' in the command './my b.py'"),
        ("python3 'my b.py' 3", None),
        ("python3 my c.py", None),  # the program may make it
        ("python3 my notes", None),  # two words to the program
        (f"python3 -c '{'x' * 300} = 1' b.py", None),
        (f"python3 {'x' * 300} b.py", None),
    ],
)
def test_a_name_with_spaces_is_to_be_quoted(tmp_path, command, said):
    for name in ("my b.py", "my notes"):
        (tmp_path / name).write_text("print(1)\n")
    assert resolve(command, tmp_path)[1] == ([said.format(tmp_path)] if said else [])


def test_the_program_behind_variables_is_checked(tmp_path):
    assert "nothing-here: no such program" in resolve("BEAM=2 nothing-here", tmp_path)[1][0]
    assert "use sh -c 'A=1 sh x > y'" in resolve("A=1 sh x > y", tmp_path)[1][0]
