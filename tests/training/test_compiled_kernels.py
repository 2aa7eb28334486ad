"""Each kernel, compiled for real GPUs, for which none is needed: what the interpreter lets pass, the compiler may not.

Compiling is done by this file as a program, where Triton is not told to interpret.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import require

HALF, SINGLE, NUMBER = "*fp16", "*fp32", "i32"
# Most shared memory that a program may have: CUDA C++ Programming Guide, "Compute Capabilities".
SHARED_BYTES = {80: 163 * 1024, 90: 227 * 1024}


def kernels():
    """Yield each kernel with its arguments' types and its constants: of turbo's network, and of the fewest channels allowed."""
    from speedproof.training.kernels import crops, joins, layouts, loss, norm, strided, unstrided

    tile = {"ACROSS": strided._ACROSS, "DEEP": strided._DEEP}
    sides = dict.fromkeys(("X", "Y", "Z", "HX", "HY", "HZ", "planes"), NUMBER)
    tensors = dict.fromkeys(("first", "second", "weights", "out"), HALF) | {"pairs": "*i32", "partial": SINGLE} | sides
    for channels, results in ((1, 32), (2, 32), (1, 16), (2, 16)):
        yield strided.conv_windows_times_weights, tensors, tile | {"C": channels, "RESULTS": results}
        yield strided.conv_windows_times_results, tensors, tile | {"C": channels, "RESULTS": results}
    for channels in (16, 32):
        yield strided.conv_neighbours_times_weights, tensors, tile | {"CHANNELS": channels, "C": 2}

    tensors = dict.fromkeys(("x", "gradient", "weights", "out"), HALF) | dict.fromkeys(("bias", "partial"), SINGLE)
    tensors |= dict.fromkeys(("X", "Y", "row", "planes"), NUMBER)
    for flag in (False, True):
        constants = {"RESIDUAL": flag, "BLOCK": unstrided._CELLS, "WARPS": unstrided._WARPS}
        yield unstrided.conv_windows_to_cells, tensors, constants
        constants = {"BIAS": flag, "BLOCK": unstrided._SUMMED_CELLS, "STAGES": unstrided._STAGES}
        yield unstrided.conv_windows_times_cells, tensors, constants

    tensors = dict.fromkeys(("first", "second", "both"), HALF) | dict.fromkeys(("chunks", "channels"), NUMBER)
    for flag in (False, True):
        yield joins.channels_move, tensors, {"JOIN": flag, "CHUNK": joins._CHUNK, "BLOCK": joins._CHUNKS}

    tensors = {"weights": SINGLE, "places": "*i32", "out": HALF, "matrix": SINGLE, "sources": "*i32"}
    tensors |= dict.fromkeys(("count", "length", "sums"), NUMBER)
    yield layouts.weights_spread, tensors, {"BLOCK": layouts._BLOCK}
    yield layouts.weights_gather, tensors | {"out": SINGLE}, {"BLOCK": layouts._BLOCK}

    width = {"WIDTH": norm._WIDTH}
    numbers = dict.fromkeys(("rows", "rows_each", "programs", "channels", "voxels"), NUMBER)
    numbers |= dict.fromkeys(("momentum", "epsilon"), "fp32")
    tensors = dict.fromkeys(("x", "residual", "gradient", "out"), HALF)
    singles = ("slope_gradient", "partial", "weight", "bias", "conv_bias", "running_mean", "running_variance")
    tensors |= dict.fromkeys((*singles, "folded", "residual_bias", "slope", "sums"), SINGLE)
    tile, merged = width | {"BLOCK": norm._ROWS}, width | {"PARTS": norm._PARTS, "VOXELS": norm._VOXELS}
    yield norm.norm_sum_statistics, tensors | numbers, tile
    yield norm.norm_finish_statistics, tensors | numbers, merged
    yield norm.norm_apply, tensors | numbers, tile | {"HAS_RESIDUAL": False}
    yield norm.norm_apply, tensors | numbers, tile | {"HAS_RESIDUAL": True}
    yield norm.norm_sum_gradients, tensors | numbers, tile
    yield norm.norm_finish_gradients, tensors | numbers, merged
    yield norm.norm_pass_gradient, tensors | numbers, tile

    tensors = {"pairs": "*i32", "labels": "*u8", "partial": SINGLE, "factors": SINGLE, "below": "*i32", "like": HALF}
    tensors |= {"voxels": NUMBER}
    yield loss.dice_ce_sum_terms, tensors, {"BLOCK": loss._BLOCK}
    yield loss.dice_ce_pass_gradient, tensors, {"BLOCK": loss._BLOCK}

    tensors = {"images": HALF, "labels": "*u8", "labels_out": "*u8", "across": NUMBER, "deep": NUMBER}
    tensors |= dict.fromkeys(("starts", "shapes", "chosen", "corners"), "*i64")
    for precision in (HALF, SINGLE):
        yield crops.crop_patches, tensors | {"out": precision}, {"ROWS": crops._ROWS, "WIDTH": crops._WIDTH}


def compile_all(capability):
    """Compile all kernels for a GPU of this compute capability, and print a line each: name, bytes of shared memory."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource, compile

    for kernel, types, constants in kernels():
        names = kernel.arg_names
        signature = {name: "constexpr" if name in constants else types[name] for name in names}
        values = {(names.index(name),): value for name, value in constants.items()}
        aligned = {(number,): [["tt.divisibility", 16]] for number, name in enumerate(names) if signature[name][0] == "*"}
        source = ASTSource(kernel, signature=signature, constexprs=values, attrs=aligned)
        made = compile(source, target=GPUTarget("cuda", capability, 32))
        assert "cubin" in made.asm
        print(kernel.__name__, made.metadata.shared)


@pytest.mark.parametrize("capability", SHARED_BYTES)
def test_every_kernel_compiles_and_fits(capability, tmp_path):
    try:
        import triton  # noqa: F401
    except ModuleNotFoundError:
        require("triton", False, "triton is not installed")
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    root = Path(__file__).parents[2]
    environment |= {"TRITON_CACHE_DIR": str(tmp_path), "PYTHONPATH": os.pathsep.join([str(root), str(root / "workflow")])}
    done = subprocess.run([sys.executable, __file__, str(capability)], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert len(lines) == 29
    assert max(int(shared) for _, shared in lines) <= SHARED_BYTES[capability]


if __name__ == "__main__":
    compile_all(int(sys.argv[1]))
