"""Each operation has a benchmark; `benchmarks/operations.py` does not run without a GPU, but lists them."""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

from speedproof_accelerate import kernels
from speedproof_accelerate.kernels.strided_implementations import IMPLEMENTATIONS

FOLDER = Path(__file__).parents[1]
# What operations share, and those that are measured elsewhere: by tile_sizes.py, and by the spleen's step.py.
HELPERS = {"autograd", "channels_last", "known_gpu", "launch", "mma_fragments", "packed_pairs", "precompile", "reference"}
HELPERS |= {"second_stream"}
HELPERS |= {"pooling_windows", "weight_matrices"}
ELSEWHERE = {"fused_adam", "random_crop"}

pytestmark = pytest.mark.usefixtures("interpreted")


def test_each_operation_has_a_benchmark():
    spec = spec_from_file_location("operations", FOLDER / "benchmarks/operations.py")
    benchmark = module_from_spec(spec)
    spec.loader.exec_module(benchmark)
    modules = {path.stem for path in Path(kernels.__file__).parent.glob("*.py")} - {"__init__", "strided_implementations"}
    implementations = {one.module for one in IMPLEMENTATIONS}
    assert implementations <= modules
    assert modules - HELPERS - ELSEWHERE - implementations == benchmark.OPERATIONS.keys()
