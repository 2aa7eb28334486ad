"""FLOP of operators by their shapes, attributed to kernels, beside what the GPU can do."""

import json

import pytest

from speedproof.profilers.kineto import convert_chrome
from speedproof.profilers.operator_flop import count_operator
from speedproof.profilers.traced_flop import read_work
from speedproof.report.trace_phrases import describe_arithmetic
from speedproof.trace.summarize import analyze_trace

GEMM, POINTWISE = "nvjet_tst_128x256_64x4_2x1_v_bz_coopA_NNT", "at::native::vectorized_elementwise_kernel"
WGRAD, DGRAD = "sm80_xmma_wgrad_implicit_gemm", "sm80_xmma_dgrad_implicit_gemm"
HALF = "c10::BFloat16"


class TorchTrace:
    """What torch.profiler exports of two steps of 1 ms, each event in microseconds."""

    def __init__(self, gpu="NVIDIA A100-SXM4-40GB"):
        self.gpu, self.events, self.launches = gpu, [], 0
        for number in range(2):
            self.add("user_annotation", f"ProfilerStep#{number}", 1000 * number, 1000)

    def add(self, category, name, start, length, **arguments):
        times = {"ts": start, "dur": length}
        self.events.append({"ph": "X", "cat": category, "name": name, "pid": 1, "tid": 1, **times, "args": arguments})

    def operator(self, name, start, shapes, kernels=(), kind=HALF, values=None):
        """Add an operator of 10 us that launches kernels: their names and lengths."""
        types = {"Input type": [kind] * len(shapes), "Concrete Inputs": values or [""] * len(shapes)}
        self.add("cpu_op", f"aten::{name}", start, 10, **{"Input Dims": shapes}, **types)
        for place, (kernel, length) in enumerate(kernels):
            self.launches += 1
            self.add("cuda_runtime", "cudaLaunchKernel", start + 1 + place, 1, correlation=self.launches)
            on_gpu = {"device": 0, "stream": 7, "correlation": self.launches}
            self.add("kernel", kernel, start + 20 + sum(before for _, before in kernels[:place]), length, **on_gpu)

    def analyze(self, folder):
        properties = [{"id": 0, "name": self.gpu}]
        folder.mkdir(exist_ok=True)
        (folder / "trace.json").write_text(json.dumps({"deviceProperties": properties, "traceEvents": self.events}))
        convert_chrome(folder / "trace.json", folder / "trace")
        return analyze_trace(folder / "trace")


def multiplying(length, **about):
    """Let each step multiply 512x1024 by 1024x256 in a kernel of so many microseconds."""
    trace = TorchTrace(**about)
    for number in range(2):
        trace.operator("mm", 1000 * number + 100, [[512, 1024], [1024, 256]], [(GEMM, length)])
    return trace


FLOP, BYTES = 2 * 512 * 1024 * 256, 2 * (512 * 1024 + 1024 * 256 + 512 * 256)


def test_a_product_has_its_flop_and_bytes_by_shape(tmp_path):
    arithmetic = multiplying(10).analyze(tmp_path).arithmetic
    (rate,) = arithmetic.groups
    assert (rate.group, rate.type, rate.operators) == ("matrix product", "bfloat16", 2)
    assert (rate.flop_per_epoch, rate.bytes_per_epoch) == (268_435_456, 1_835_008) == (FLOP, BYTES)
    # 26.8 TFLOP/s of the 312 of an A100. Its memory needs 1.18 us at 1555 GB/s for the bytes, its tensor cores 0.86 us.
    assert (rate.flop_per_s, rate.peak_share) == pytest.approx((FLOP / 10e-6, FLOP / 10e-6 / 312e12))
    assert (rate.bound, rate.bound_share) == ("memory", pytest.approx(BYTES / 1555e9 / 10e-6))
    # Of a step of 1 ms the arithmetic at its peak takes 0.86 us.
    assert arithmetic.mfu == pytest.approx(FLOP / 312e12 / 1e-3)
    assert (arithmetic.product, arithmetic.known_share) == ("A100 40 GB", 1.0)


def test_larger_products_are_bound_by_arithmetic(tmp_path):
    trace = TorchTrace()
    trace.operator("bmm", 100, [[8, 4096, 4096], [8, 4096, 4096]], [(GEMM, 5000)])
    (rate,) = trace.analyze(tmp_path).arithmetic.groups
    assert (rate.flop_per_s, rate.bound) == (pytest.approx(8 * 2 * 4096**3 / 5e-3), "arithmetic")
    assert rate.bound_share == rate.peak_share


def test_helpers_of_an_operator_do_not_take_its_flop(tmp_path):
    trace = TorchTrace()
    trace.operator("addmm", 100, [[256], [512, 1024], [1024, 256]], [(POINTWISE, 40), (GEMM, 10)])
    trace.operator("mm", 300, [[512], [1024, 256]], [(GEMM, 30)])  # shapes that do not fit: not counted
    arithmetic = trace.analyze(tmp_path).arithmetic
    (rate,) = arithmetic.groups
    assert (rate.group, rate.flop_per_s) == ("matrix product", pytest.approx(FLOP / 10e-6))
    assert arithmetic.known_share == pytest.approx(10 / 40)
    (said,) = describe_arithmetic(trace.analyze(tmp_path))
    assert "or more: the FLOP of 75\N{NO-BREAK SPACE}% of the time in kernels that multiply are unknown" in said


def test_an_mfu_of_most_of_the_flop_is_a_lower_bound(tmp_path):
    """Known for 30 of 40 µs that multiply: the MFU is at least that of one product, 0.86 µs of 312 TFLOP/s in 1 ms."""
    trace = TorchTrace()
    for number in range(2):
        trace.operator("mm", 1000 * number + 100, [[512, 1024], [1024, 256]], [(GEMM, 30)])
        trace.operator("mm", 1000 * number + 300, [[512], [1024, 256]], [(GEMM, 10)])
    (said,) = describe_arithmetic(trace.analyze(tmp_path))
    assert "its MFU is at least 0.1\N{NO-BREAK SPACE}%" in said


def test_less_than_half_of_the_flop_make_no_mfu(tmp_path):
    trace = multiplying(10)
    trace.operator("mm", 300, [[512], [1024, 256]], [(GEMM, 30)])
    summary = trace.analyze(tmp_path)
    assert (summary.arithmetic.known_share, summary.arithmetic.mfu) == (pytest.approx(20 / 50), None)
    assert next(describe_arithmetic(summary)).endswith("Too few are known for an MFU.")


def test_on_a_cpu_operators_of_unknown_flop_are_counted_as_such(tmp_path):
    """A convolution without its settings; attention of unknown FLOP whose product inside is known is no second time unknown."""
    trace = TorchTrace()
    for number in range(2):
        at = 1000 * number
        trace.operator("mm", at + 100, [[512, 1024], [1024, 256]])
        trace.operator("convolution", at + 200, CONVOLUTION)
        trace.operator("scaled_dot_product_attention", at + 300, QUERIES)
        trace.operator("bmm", at + 300, [[1, 512, 1024], [1, 1024, 256]])
    summary = trace.analyze(tmp_path)
    assert (summary.arithmetic.flop_per_epoch, summary.arithmetic.known_share) == (2 * FLOP, pytest.approx(20 / 30))
    (said,) = describe_arithmetic(summary)
    assert "or more: the FLOP of 33\N{NO-BREAK SPACE}% of the time in operators that multiply are unknown." in said


def test_both_gradients_of_a_convolution_have_half_of_its_flop(tmp_path):
    trace = TorchTrace()
    shapes = [[2, 8, 8, 8], [2, 4, 16, 16], [8, 4, 3, 3]]
    values = ["", "", "", "[8]", "[2, 2]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1", "[True, True, True]"]
    trace.operator("convolution_backward", 100, shapes, [(DGRAD, 10), (WGRAD, 20)], values=values)
    rates = {rate.group: rate for rate in trace.analyze(tmp_path).arithmetic.groups}
    once = 2 * 2 * (8 * 4 * 3 * 3) * (8 * 8)  # in the one step that launches something
    assert {name: rate.flop_per_epoch for name, rate in rates.items()} == {
        "convolution data gradient": once,
        "convolution weight gradient": once,
    }
    assert rates["convolution weight gradient"].flop_per_s == pytest.approx(once / 20e-6)


def test_float32_on_tensor_cores_is_tf32(tmp_path):
    trace = TorchTrace()
    for place, name in enumerate(("sm80_xmma_gemm_f32f32_tf32f32", "ampere_sgemm_128x64_nn")):
        trace.operator("mm", 100 + 200 * place, [[512, 1024], [1024, 256]], [(name, 50)], kind="float")
    peaks = {rate.type: rate.peak_flop_per_s for rate in trace.analyze(tmp_path).arithmetic.groups}
    assert peaks == {"tf32": 156e12, "float32": 19.5e12}


@pytest.mark.parametrize(("length", "possible"), [(1, True), (0.5, False)])
def test_a_speed_beyond_the_hardware_is_refused_by_name(tmp_path, length, possible):
    """268 TFLOP/s are below the 312 of an A100; 537 are not, even at a clock that is a quarter higher."""
    summary = multiplying(length).analyze(tmp_path)
    (rate,) = summary.arithmetic.groups
    said = [text for text in summary.warnings if "is faster than" in text]
    assert (rate.flop_per_s is not None, summary.arithmetic.mfu is not None, not said) == (possible,) * 3
    if not possible:
        assert said[0].startswith(
            "matrix product in bfloat16 is faster than the 312\N{NO-BREAK SPACE}TFLOP/s of its GPU (A100 40 GB): "
        )


def test_no_mfu_is_above_its_peak(tmp_path):
    """2.06 TFLOP in steps of 6 ms are 344 TFLOP/s, 110 % of an A100's 312: a clock may explain that for a kernel only."""
    trace = TorchTrace()
    trace.events.clear()
    for number in range(2):
        trace.add("user_annotation", f"ProfilerStep#{number}", 6000 * number, 6000)
        trace.operator("bmm", 6000 * number, [[15, 4096, 4096], [15, 4096, 4096]], [(GEMM, 5900)])
    summary = trace.analyze(tmp_path)
    assert summary.arithmetic.mfu is None
    assert summary.arithmetic.groups[0].peak_share == pytest.approx(15 * 2 * 4096**3 / 5.9e-3 / 312e12)
    (said,) = (text for text in summary.warnings if "MFU" in text)
    assert said.startswith("its FLOP would take 110\N{NO-BREAK SPACE}% of its time at the peaks of its GPU (A100 40 GB)")


def test_an_unknown_gpu_has_no_mfu_and_the_trace_says_so(tmp_path):
    summary = multiplying(10, gpu="Test GPU").analyze(tmp_path)
    assert (summary.arithmetic.mfu, summary.arithmetic.groups[0].peak_share) == (None, None)
    assert summary.arithmetic.groups[0].flop_per_s == pytest.approx(FLOP / 10e-6)
    assert "No peak of its GPU is known" in next(describe_arithmetic(summary))


def test_on_a_cpu_flop_are_counted_and_no_peak_is_known(tmp_path):
    trace = TorchTrace()
    for number in range(2):
        trace.operator("mm", 1000 * number + 100, [[512, 1024], [1024, 256]])
    summary = trace.analyze(tmp_path)
    assert (summary.arithmetic.flop_per_epoch, summary.arithmetic.mfu) == (FLOP, None)
    (said,) = describe_arithmetic(summary)
    assert "268\N{NO-BREAK SPACE}MFLOP" in said
    assert (
        "No GPU work was recorded, so there is no GPU peak to compare it with" in said
    )  # the file names a GPU: whether it was used is unknown
    known = summary.model_copy(update={"gpu_untraced": None})
    assert ["No GPU was used" in one for one in describe_arithmetic(known)] == [True]
    lost = known.model_copy(update={"recorded": False})  # kernels were launched, and are not in the trace
    assert ["No GPU was used" in one for one in describe_arithmetic(lost)] == [False]


def test_without_shapes_there_is_no_arithmetic(tmp_path):
    trace = TorchTrace()
    trace.operator("mm", 100, [], [(GEMM, 10)])
    assert trace.analyze(tmp_path).arithmetic is None


CONVOLUTION = [[2, 4, 16, 16], [8, 2, 3, 3], [8]]
SETTINGS = [None, None, None, [2, 2], [1, 1], [1, 1], False, [0, 0], 2]
QUERIES = [[2, 3, 16, 8]] * 3


@pytest.mark.parametrize(
    ("name", "shapes", "values", "flop"),
    [
        ("mm", [[512, 1024], [1024, 256]], [], FLOP),
        ("mv", [[512, 1024], [1024]], [], 2 * 512 * 1024),
        ("baddbmm", [[2, 3, 5], [2, 3, 4], [2, 4, 5]], [], 2 * 2 * 3 * 4 * 5),
        # Two groups: each of 8 x 8 places and 8 channels sees 2 channels of 3 x 3.
        ("convolution", CONVOLUTION, SETTINGS, 2 * 2 * 8 * (8 * 8) * (2 * 3 * 3)),
        # Transposed: each of 16 x 16 places and 4 channels adds to 8 channels of 3 x 3.
        ("convolution", [[2, 4, 16, 16], [4, 8, 3, 3]], [*SETTINGS[:6], True, [0, 0], 1], 2 * 2 * 4 * (16 * 16) * (8 * 3 * 3)),
        ("scaled_dot_product_attention", QUERIES, [None] * 5 + [False], 2 * 6 * (16 * 16) * (8 + 8)),
        # Causal: 1 + 2 + … + 16 = 136 of 256 pairs.
        ("scaled_dot_product_attention", QUERIES, [None] * 5 + [True], 2 * 6 * 136 * (8 + 8)),
        ("_scaled_dot_product_flash_attention_backward", QUERIES[:1] + QUERIES, [None] * 11 + [False], 2 * 6 * 256 * 5 * 8),
    ],
)
def test_flop_are_those_worked_out_by_hand(name, shapes, values, flop):
    assert count_operator(name, shapes, values).flop == flop


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"Input Dims": "none", "Input type": ["float", "float"]},
        {"Input Dims": [[2, 3], [4, 5]], "Input type": ["float", "float"]},
        {"Input Dims": [[2, "3"], [3, 5]], "Input type": ["float", "float"]},
        {"Input Dims": [[-2, 3], [3, 5]], "Input type": ["float", "float"]},
        {"Input Dims": [[2**40, 2**40], [2**40, 2]], "Input type": ["float", "float"]},
        {"Input Dims": [[2, 3], [3, 5]], "Input type": ["c10::complex<float>", 7]},
        {"Input Dims": [[2, 3]], "Input type": ["float"]},
    ],
)
def test_what_is_no_product_has_no_flop(arguments):
    assert read_work("aten::mm", arguments) is None
