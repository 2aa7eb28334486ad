"""`prove --flops`: what each command computes, counted in one discarded run."""

import json
import re
import shlex
import sys

import pytest
from typer.testing import CliRunner

from speedproof.cli.application import app

PROGRAM = """
import os, sys, time
products = int(sys.argv[1])
if os.environ.get("SPEEDPROOF_FLOP"):  # the timed runs need no torch here
    import torch
for epoch in range(3):
    time.sleep(0.04 * products)
    for _ in range(products if "torch" in sys.modules else 0):
        torch.ones(512, 1024) @ torch.ones(1024, 256)
    print(f"took {0.04 * products:.3f} s", flush=True)
"""


def test_flop_are_counted_and_fewer_are_stated(place):
    pytest.importorskip("torch")
    (place / "train.py").write_text(PROGRAM)
    commands = [f"{shlex.quote(sys.executable)} train.py {products}" for products in (4, 2)]
    options = ["--flops", "--epoch-s", r"took (\S+) s", "--device", "cpu", "--rounds", "4", "--out", "out", "--json"]
    result = CliRunner().invoke(app, ["prove", *commands, *options])
    assert result.exit_code == 0, result.output
    (judged,) = json.loads(result.stdout)["candidates"]
    assert judged["outcome"] == "faster"
    product = 2 * 512 * 1024 * 256
    (found,) = (one for one in judged["objections"] if one["kind"] == "flop")
    assert (found["values"], found["blocks"]) == ({"own": 2 * product, "other": 4 * product, "epoch": 1}, False)
    said = " ".join(result.stderr.replace("\N{NO-BREAK SPACE}", " ").split())
    assert "537 MFLOP per epoch, on a CPU, of which no peak is known" in said
    assert re.search(r"1\.07 GFLOP per epoch in 0\.\d+ s", said), said
    comparison = json.loads((place / "out/results/comparison.json").read_text())
    assert [(one["flop"], one["mfu"]) for one in comparison["utilization"]] == [
        ({"float32": 4 * product}, None),
        ({"float32": 2 * product}, None),
    ]


def test_a_command_without_torch_has_no_flop(place):
    options = ["--flops", "--epoch-s", r"took (\S+) s", "--device", "cpu", "--rounds", "4", "--out", "out", "--json"]
    (place / "plain.sh").write_text("for n in 1 2 3; do sleep $1; echo took ${1}0 s; done\n")
    result = CliRunner().invoke(app, ["prove", "bash plain.sh 0.10", "bash plain.sh 0.05", *options])
    assert "no FLOP counted: it does not compute with torch" in " ".join(result.stderr.split()), result.output
    assert "utilization" not in json.loads((place / "out/results/comparison.json").read_text())
