"""Each kernel, compiled for real GPUs, for which none is needed: what the interpreter lets pass, the compiler may not.

Compiling is done by this file as a program, where Triton is not told to interpret.
"""

import os
import subprocess
import sys
from importlib import import_module
from multiprocessing import get_context

import pytest

from tests.support import require

pytestmark = [pytest.mark.dear, pytest.mark.timeout(1200)]  # all kernels are compiled, on a machine that has none of them yet

SINGLE, NUMBER = "*fp32", "i32"
# Most shared memory that a program may have: CUDA C++ Programming Guide, "Compute Capabilities".
SHARED_BYTES = {80: 163 * 1024, 90: 227 * 1024}


def kernels(half):
    """Yield each kernel with its arguments' types, its constants and what else it is launched with.

    Of turbo's network, and of the fewest channels allowed; then those that other networks take. `half`: which half precision
    volumes have.
    """
    from speedproof_accelerate.kernels import batch_norm_prelu as norm
    from speedproof_accelerate.kernels import concat_channels as concat
    from speedproof_accelerate.kernels import conv3d, dice_ce_loss, fused_adam, random_crop
    from speedproof_accelerate.kernels import conv3d_strided_generic as generic
    from speedproof_accelerate.kernels import conv3d_strided_vectorized as vectorized
    from speedproof_accelerate.kernels import conv3d_strided_wide as wide
    from speedproof_accelerate.kernels import weight_matrices as matrices

    yield from kernels_of_others(half)

    tile = {"ACROSS": generic._ACROSS, "DEEP": generic._DEEP}
    sides = dict.fromkeys(("X", "Y", "Z", "HX", "HY", "HZ", "planes"), NUMBER)
    tensors = dict.fromkeys(("first", "second", "weights", "out"), half) | {"pairs": "*i32", "partial": SINGLE} | sides
    for channels, results in ((1, 32), (2, 32), (1, 16), (2, 16)):
        constants = tile | {"C": channels, "RESULTS": results}
        yield generic.conv_windows_times_weights, tensors, constants, {}
        yield generic.conv_windows_times_results, tensors, constants, {"num_stages": 3 - channels}
    for channels in (16, 32):
        yield generic.conv_neighbours_times_weights, tensors, tile | {"CHANNELS": channels, "C": 2}, {}

    tensors = dict.fromkeys(("x", "gradient", "weights", "residual", "out"), half) | dict.fromkeys(("bias", "partial"), SINGLE)
    tensors |= dict.fromkeys(("X", "Y", "row", "planes"), NUMBER)
    tile = {"BLOCK": conv3d._CELLS, "WARPS": conv3d._WARPS}
    for residual, biases, halo in ((False, 0, 16), (False, 0, 32), (True, 2, 16), (True, 0, 16), (True, 0, 32)):
        constants = tile | {"RESIDUAL": residual, "BIASES": biases, "HALO": halo}
        options = {"num_warps": conv3d._WARPS, "num_stages": 1}
        yield conv3d.conv_windows_to_cells, tensors, constants, options
    for bias, halo, width in ((False, 16, 64), (True, 16, 64), (False, 32, 128)):
        constants = {"BIAS": bias, "HALO": halo, "WIDTH": width, "BLOCK": conv3d._SUMMED_CELLS, "STAGES": conv3d._STAGES}
        yield conv3d.conv_windows_times_cells, tensors, constants, {"num_warps": width // 16, "maxnreg": 255}

    tensors = dict.fromkeys(("full", "first", "second", "weights"), half) | {"partial": SINGLE}
    tensors |= dict.fromkeys(("X", "Y", "row", "planes"), NUMBER)
    for kernel in (wide.conv_halve, wide.conv_double):
        options = {"num_warps": wide._WARPS, "num_stages": 1, "maxnreg": wide._REGISTERS}
        yield kernel, tensors, {"BLOCK": wide._CELLS, "WARPS": wide._WARPS}, options
    constants = {"BLOCK": wide._SUMMED_CELLS, "STAGES": wide._SUMMED_STAGES}
    options = {"num_warps": wide._SUMMED_WARPS, "maxnreg": wide._SUMMED_REGISTERS}
    yield wide.conv_halve_weights, tensors, constants, options

    shape = {"BLOCK": vectorized._CELLS, "WARPS": vectorized._WARPS}
    for channels in (1, 2):
        parts = {"C": channels, "PARTS": vectorized._count_parts(channels)}
        options = {"num_warps": vectorized._WARPS, "num_stages": 1, "maxnreg": vectorized._BESIDE[channels][1]}
        yield vectorized.conv_runs_halve, tensors, shape | parts, options
        constants = parts | {"BLOCK": vectorized._SUMMED_CELLS, "STAGES": vectorized._SUMMED_STAGES}
        options = {"num_warps": vectorized._SUMMED_WARPS, "maxnreg": vectorized._SUMMED_REGISTERS}
        yield vectorized.conv_runs_weights, tensors, constants, options
    options = {"num_warps": vectorized._WARPS, "num_stages": 1, "maxnreg": vectorized._DOUBLED_REGISTERS}
    yield vectorized.conv_runs_double, tensors, shape, options

    tensors = dict.fromkeys(("first", "second", "both"), half) | dict.fromkeys(("chunks", "channels"), NUMBER)
    for flag in (False, True):
        yield concat.channels_move, tensors, {"JOIN": flag, "CHUNK": concat._CHUNK, "BLOCK": concat._CHUNKS}, {}

    tensors = dict.fromkeys(("places", "sources", "targets"), "*i32") | {"partial": SINGLE, "out": half}
    tensors |= dict.fromkeys(("count", "total", "length", "programs", "shares", "pitch"), NUMBER)
    tensors["sums"] = SINGLE
    constants = {"BLOCK": matrices._SUMMED, "MATRICES": matrices._MATRICES}
    yield matrices.weights_sum, tensors, constants, {"num_warps": matrices._WARPS, "maxnreg": matrices._REGISTERS}
    for weights in (SINGLE, half):
        types = tensors | {"first": weights, "second": weights}
        yield matrices.weights_spread, types, {"BLOCK": matrices._SPREAD}, {}
        for sums in (1, 2, 4, 16):  # of strided convolutions, and of others of 16, 8 and 2 channels
            constants = {"SUMS": sums, "BLOCK": matrices._GATHERED, "SHARES": matrices._SHARES}
            yield matrices.weights_gather, types, constants, {"num_warps": 1}

    width = {"WIDTH": norm._WIDTH}
    numbers = dict.fromkeys(("rows", "rows_each", "programs", "channels", "columns_each", "columns", "voxels"), NUMBER)
    numbers |= dict.fromkeys(("momentum", "epsilon"), "fp32")
    tensors = dict.fromkeys(("x", "residual", "gradient", "out"), half)
    singles = ("slope_gradient", "partial", "weight", "bias", "conv_bias", "running_mean", "running_variance")
    tensors |= dict.fromkeys((*singles, "folded", "residual_bias", "slope", "sums"), SINGLE)
    merged = {"SLOTS": norm._SLOTS, "PARTS": norm._PARTS}
    tile = width | {"BLOCK": norm._ROWS}
    for columns, stages in ((norm._FEW_CHANNELS, norm._STAGES), (norm._WIDTH, 1)):
        for kernel in (norm.norm_sum_statistics, norm.norm_sum_gradients):
            yield kernel, tensors | numbers, tile | {"COLUMNS": columns, "STAGES": stages}, {"num_warps": 1}
    yield norm.norm_finish_statistics, tensors | numbers, width | merged, {"num_warps": norm._WARPS}
    yield norm.norm_finish_gradients, tensors | numbers, merged, {"num_warps": norm._WARPS}
    for residual, bias in ((False, False), (True, False), (True, True)):
        yield norm.norm_apply, tensors | numbers, tile | {"HAS_RESIDUAL": residual, "HAS_BIAS": bias}, {}
    yield norm.norm_pass_gradient, tensors | numbers, tile, {}

    tensors = {"pairs": "*i32", "labels": "*u8", "below": "*i32", "like": half}
    tensors |= dict.fromkeys(("partial", "lost", "factors", "above"), SINGLE) | {"programs": NUMBER, "voxels": NUMBER}
    for kernel in (dice_ce_loss.dice_ce_sum_terms, dice_ce_loss.dice_ce_pass_gradient):
        yield kernel, tensors, {"BLOCK": dice_ce_loss._BLOCK}, {}
    numbers = {"smooth": "fp32", "weight": "fp32"}
    for count in (NUMBER, "i64"):  # from 2³¹ voxels on
        finished = tensors | numbers | {"voxels": count}
        yield dice_ce_loss.dice_ce_finish, finished, {"PARTS": dice_ce_loss._PARTS}, {"num_warps": dice_ce_loss._WARPS}

    tensors = {"table": "*i64", "places": "*i32", "like": half, "epsilon": "fp32"}
    tensors |= dict.fromkeys(("rate", "scale", "overflow"), SINGLE) | dict.fromkeys(("powers", "betas"), "*fp64")
    yield fused_adam.adam_count, tensors, {}, {"num_warps": 1}
    for kernel in (fused_adam.adam_find_overflow, fused_adam.adam_update):
        yield kernel, tensors, {"COLUMNS": fused_adam._COLUMNS, "BLOCK": fused_adam._BLOCK}, {"num_warps": fused_adam._WARPS}

    tensors = {"images": "*fp16", "labels": "*u8", "labels_out": "*u8", "across": NUMBER, "deep": NUMBER}
    tensors |= dict.fromkeys(("starts", "shapes", "chosen", "corners"), "*i64")
    placed = dict.fromkeys(("chosen", "counts", "firsts", "shapes", "corners"), "*i64")
    placed |= {"chances": "*fp64", "candidates": "*i32"} | dict.fromkeys(("patches", "volumes", "SX", "SY", "SZ"), NUMBER)
    yield random_crop.crop_place_patches, placed, {"BLOCK": random_crop._PATCHES}, {}
    for precision in ("*fp16", SINGLE):
        constants = {"ROWS": random_crop._ROWS, "WIDTH": random_crop._WIDTH}
        yield random_crop.crop_patches, tensors | {"out": precision}, constants, {"num_warps": random_crop._WARPS}


def kernels_of_others(half):
    """Yield the same of norms of any shape, of poolings and enlargements, and of the loss of regions."""
    from speedproof_accelerate.kernels import (
        avg_pool,
        dice_focal_loss,
        group_norm,
        group_norm_residual,
        max_pool,
        normalize_intensity,
        pointwise_conv,
        pooling_windows,
        trilinear_upsample,
    )

    tensors = dict.fromkeys(
        ("x", "residual", "gradient", "beside", "out", "logits", "below", "result", "of_residual"), half
    ) | {"labels": "*u8", "kept": "*u8", "winners": "*u8"}
    singles = ("weight", "bias", "left_out", "running_mean", "running_variance", "folded", "partial", "slope", "sums", "passed")
    tensors |= dict.fromkeys((*singles, "factors", "above"), SINGLE) | dict.fromkeys(
        ("momentum", "epsilon", "constant", "scale"), "fp32"
    )
    numbers = ("voxels", "each", "chunks", "channels", "per_group", "size", "regions", "X", "Y", "Z")
    types = tensors | dict.fromkeys(numbers, NUMBER)
    for width, few in ((64, 0), (2, 2)):
        tile, summed = (
            {"FEW": few, "WIDTH": width, "BLOCK": size // width} for size in (group_norm._TILE, group_norm._SUMMED_TILE)
        )
        yield group_norm.group_norm_sum_values, types, summed, {}
        for dropped in (False, True):
            drops = {"DROPPED": dropped}
            yield group_norm.group_norm_apply, types, tile | drops | {"SLOPES": 1}, {}
            yield group_norm.group_norm_sum_gradients, types, summed | drops | {"SLOPES": 2}, {}
            yield group_norm.group_norm_pass_gradient, types, tile | drops | {"BESIDE": bool(few), "SLOPES": 0}, {}
        yield group_norm_residual.group_norm_apply_residual, types, tile, {}
        yield group_norm_residual.group_norm_sum_residual_gradients, types, summed, {}
        enlarged = {"FEW": few, "WIDTH": width, "BLOCK": trilinear_upsample._TILE // width}
        yield trilinear_upsample.upsample_enlarge, types, enlarged, {}
        yield trilinear_upsample.upsample_pass_gradient, types, enlarged, {}
    for group, flag in ((1, True), (4, False)):
        merged = {"AFFINE": True, "GROUP": group, "PARTS": group_norm._FINISHED // group}
        yield group_norm.group_norm_finish_statistics, types, merged | {"RUNNING": flag, "LEFT_OUT": flag}, {}
        yield group_norm.group_norm_finish_gradients, types, merged | {"SLOPES": int(flag)}, {}
    for results, rows in ((1, 1), (3, 4)):
        shape = {"RESULTS": results, "ROWS": rows, "WIDTH": 16}
        block = pointwise_conv._TILE // (rows * 16)
        yield pointwise_conv.pointwise_apply, types, shape | {"BIAS": True, "BLOCK": block}, {}
        block = pointwise_conv._SUMMED_TILE // (rows * 16)
        yield pointwise_conv.pointwise_pass_gradient, types, shape | {"PASS": True, "BLOCK": block}, {}
    shape = {"WX": 1, "WY": 2, "WZ": 3, "CHUNK": pooling_windows.CHUNK, "BLOCK": pooling_windows.CHUNKS}
    for kernel in (avg_pool.avg_pool_sum, avg_pool.avg_pool_pass_gradient):
        yield kernel, types, shape, {}
    for kernel in (max_pool.max_pool_find, max_pool.max_pool_pass_gradient):
        yield kernel, types, shape, {}
    placed = types | dict.fromkeys(("start", "of_channel", "of_x", "of_y", "of_z"), NUMBER) | {"offset": "fp32"}
    placed |= dict.fromkeys(("means", "factors"), SINGLE) | {"volume": half}
    shape = {"CHANNELS": 4, "ROWS": 4, "BLOCK": normalize_intensity._TILE // 4}
    for squares in (False, True):
        yield normalize_intensity.crop_sum, placed, shape | {"SQUARES": squares}, {}
    yield normalize_intensity.crop_normalise, placed, shape, {}
    for kernel in (dice_focal_loss.regions_sum_terms, dice_focal_loss.regions_pass_gradient):
        yield kernel, types, {"BLOCK": dice_focal_loss._BLOCK, "WIDTH": 4}, {}


def compile_all(capability, half):
    """Compile all kernels for a GPU of this compute capability, and print a line each: capability, name, shared bytes."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource, compile

    from speedproof_accelerate.kernels import launch

    launch._OVERLAPS = triton.language.constexpr(capability >= 90)
    for kernel, types, constants, options in kernels(half):
        names = kernel.arg_names
        signature = {name: "constexpr" if name in constants else types[name] for name in names}
        values = {(names.index(name),): value for name, value in constants.items()}
        # As where a tensor begins, a row's length, and a matrix', is known to the compiler to be a multiple of 16.
        divisible = [number for number, name in enumerate(names) if signature[name][0] == "*" or name in ("row", "pitch")]
        aligned = {(number,): [["tt.divisibility", 16]] for number in divisible}
        source = ASTSource(kernel, signature=signature, constexprs=values, attrs=aligned)
        made = compile(source, target=GPUTarget("cuda", capability, 32), options=options)
        assert "cubin" in made.asm
        assert ("griddepcontrol.wait" in made.asm["ptx"]) == (capability >= 90)
        print(capability, kernel.__name__, made.metadata.shared, flush=True)


@pytest.fixture(scope="module")
def lines(compiled):
    """What was printed of each kernel, by compute capability: one process imports what both need, which takes it seconds."""
    try:
        import triton  # noqa: F401
    except ModuleNotFoundError:
        require("triton", False, "triton is not installed")
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment |= {"TRITON_CACHE_DIR": compiled, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, __file__], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [line.split() for line in done.stdout.splitlines()]


@pytest.mark.xdist_group("compiled")
@pytest.mark.parametrize("capability", SHARED_BYTES)
def test_every_kernel_compiles_and_fits(capability, lines):
    shared = [int(one[2]) for one in lines if one[0] == str(capability)]
    assert len(shared) == 98
    assert max(shared) <= SHARED_BYTES[capability]


@pytest.mark.xdist_group("compiled")
def test_poolings_read_and_write_16_bytes_at_a_time(lines):
    """If the compiler does not know that all addresses allow it, it rearranges values through shared memory."""
    assert {shared for _, name, shared in lines if "_pool_" in name} == {"0"}


if __name__ == "__main__":
    list(kernels("*fp16"))  # what a fork need not import again
    import_module("triton.runtime.cache").triton_key()  # nor digest: half a gigabyte, by which Triton finds what it compiled
    for asked in ((80, "*bf16"), (90, "*fp16")):
        each = get_context("fork").Process(target=compile_all, args=asked)
        each.start()
        each.join()
        if each.exitcode:
            sys.exit(1)
