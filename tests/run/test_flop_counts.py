"""FLOP of programs that know nothing of it, counted by torch, and put to their epochs."""

import os
import subprocess
import sys

import pytest

from speedproof.profilers.flop_hook import COUNTS_SUFFIX, FLOP_VARIABLE
from speedproof.results.observations import CountedFlop
from speedproof.run.epoch_reports import MarkedEpoch, Marks
from speedproof.run.flop_counts import FlopSlice, count_epochs, read_slices
from speedproof.run.working_folder import providing_marks
from speedproof.util.child_processes import Life

PROGRAM = """
import torch
import torch.nn.functional as F
weight = torch.ones(1024, 256, requires_grad=True)
(torch.ones(512, 1024) @ weight).sum().backward()
with torch.inference_mode():
    torch.nn.functional.linear(torch.ones(3, 8, dtype=torch.float64), torch.ones(4, 8, dtype=torch.float64))
queries = torch.ones(2, 3, 16, 8, requires_grad=True)
F.scaled_dot_product_attention(queries, queries, queries, is_causal=True).sum().backward()
convolution = torch.nn.Conv2d(4, 8, 3, stride=2, padding=1, groups=2)
convolution(torch.ones(2, 4, 16, 16)).sum().backward()
torch.sparse.mm(torch.eye(512).to_sparse(), torch.ones(512, 512))
torch.empty(9, 9, device="meta") @ torch.empty(9, 9, device="meta")
print("computed")
"""
# One product forward, and one back, since only the weights have a gradient.
PRODUCT = 2 * 2 * 512 * 1024 * 256
# 136 of 256 pairs in 6 heads; 2 products forward and 5 back.
ATTENTION = 2 * 6 * 136 * (2 + 5) * 8
# Forward and the weights' gradient.
CONVOLUTION = 2 * 2 * 2 * 8 * (8 * 8) * (2 * 3 * 3)


def test_torch_counts_what_a_program_computes(tmp_path):
    pytest.importorskip("torch")
    (tmp_path / "program.py").write_text(PROGRAM)
    with providing_marks(counting_flop=True) as place:
        environment = {**os.environ, FLOP_VARIABLE: str(place), "PYTHONPATH": str(place)}
        command = [sys.executable, tmp_path / "program.py"]
        ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
        assert (ended.returncode, ended.stdout) == (0, "computed\n"), ended.stderr
        slices = read_slices(place)
    sums = {kind: sum(one.flop for one in slices if (one.device, one.kind) == ("cpu", kind)) for kind in ("float32", "float64")}
    assert sums == {"float32": PRODUCT + ATTENTION + CONVOLUTION, "float64": 2 * 3 * 8 * 4}
    assert all(one.at_s > 0 for one in slices)


def test_damaged_rows_are_left_out(tmp_path):
    text = "1.5,cuda,float8_e4m3fn,10\n2.5,cuda\nx,cuda,float16,3\n3.5,cuda,float16,-4\n4.5,cuda,float16,7\n5.5,cu"
    (tmp_path / f"7{COUNTS_SUFFIX}").write_text(text)
    assert read_slices(tmp_path) == [FlopSlice(1.5, "cuda", "float8", 10), FlopSlice(4.5, "cuda", "float16", 7)]


LIFE = Life(began_s=0.0, ended_s=10.0, left=0, gone_s=10.0)
SLICES = [
    FlopSlice(0.5, "cuda", "float16", 1000),  # before the first end
    FlopSlice(1.5, "cuda", "float16", 30),
    FlopSlice(1.6, "cuda", "float32", 4),
    FlopSlice(1.7, "cpu", "float32", 5),
    FlopSlice(2.5, "cuda", "float16", 50),
    FlopSlice(9.0, "cuda", "float16", 2000),  # after the last one
]


def ending(*ends_s, took_s=0.8):
    return Marks([MarkedEpoch(end - 1.0, ends_s=end, reported_s=took_s, end_seen_s=end) for end in ends_s])


def test_an_epochs_flop_are_those_from_one_end_to_the_next():
    counted = count_epochs(SLICES, ending(1.0, 2.0, 3.0), LIFE)
    # Two epochs of 1 s, of which 0.8 s are reported.
    assert counted == CountedFlop(of="epoch", device="cuda", flop={"float16": 40, "float32": 2}, reported_share=0.8)
    assert counted.total == 42


def test_what_a_late_report_takes_from_the_last_epoch_is_not_missing():
    """Each epoch computes ten times 1; the report of the second's begin came when its first product was done."""
    slices = [FlopSlice(1 + 0.1 * number + 0.05, "cuda", "float16", 1) for number in range(20)]
    assert count_epochs(slices, ending(1.06, 2.06, 3.06), LIFE).flop == {"float16": 10}


def test_of_epochs_that_were_not_seen_the_whole_process_is_counted():
    counted = count_epochs(SLICES, ending(9.0, 9.0), LIFE)
    assert (counted.of, counted.flop, counted.reported_share) == ("process", {"float16": 3080, "float32": 4}, 0.16)


def test_without_a_gpu_the_cpus_flop_count():
    assert count_epochs(SLICES[3:4], Marks(), LIFE) == CountedFlop(of="process", device="cpu", flop={"float32": 5})
    assert count_epochs([], Marks(), LIFE).total == 0
