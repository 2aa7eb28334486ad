"""The examples, each against a copy of itself: neither copy is accused, nor found to be faster."""

import importlib.util
import shutil
import sys

import pytest

from tests.adversary.bench import Interval, placing, prove
from tests.workflow.checkout import ROOT

FRAMEWORKS = {
    "numpy": ("train_numpy.py", ("--epoch-s", r"took (\S+) s", "--quality", r"error (\S+)", "--better", "lower")),
    "torch": ("train_torch.py", ()),
    "lightning": ("train_lightning.py", ()),
    "keras": ("train_keras.py", ()),
    "ignite": ("train_ignite.py", ()),
    "transformers": ("train_transformers.py", ()),
}


@pytest.mark.adversary
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_copy_is_neither_accused_nor_faster(framework):
    if importlib.util.find_spec(framework) is None:
        pytest.skip(f"{framework} is not installed")
    example, options = FRAMEWORKS[framework]
    with placing({"OMP_NUM_THREADS": "1"}) as place:
        for name in ("first.py", "second.py"):
            shutil.copyfile(ROOT / "examples" / example, place.work / name)
        proof = prove(place, [f"{sys.executable} first.py", f"{sys.executable} second.py"], options)
    # An interval of 95 % misses 1 in one proof of twenty, but not by this much.
    assert proof.interval is not None and proof.interval.meets(Interval(0.9, 1.1)), proof.said
    assert [one["sentence"] for one in proof.objections if one["blocks"]] == []
