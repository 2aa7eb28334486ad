"""`kernels.json`: kernels and their groups, with the processor's time and tensor cores."""

import pytest

from speedproof.results.files import read_record
from speedproof.results.trace_results import KERNELS_FILE, KernelsSummary
from speedproof.trace.summarize import analyze_trace, write_summary
from tests.trace.handmade import TraceBuilder

GEMM, FMA, COPY = "sm80_xmma_gemm_f16f16_tensor16x8x16", "ampere_sgemm_128x64_tn", "at::native::direct_copy_kernel"


@pytest.fixture
def use(tmp_path):
    trace = TraceBuilder()
    trace.range("epoch", 0, 1000)
    for number, (name, length) in enumerate([(GEMM, 100), (GEMM, 200), (FMA, 100), (COPY, 50)]):
        trace.call("cudaLaunchKernel", 250 * number, 250 * number + 10 + number, number + 1)
        trace.kernel(250 * number + 20, 250 * number + 20 + length, number + 1, name=name)
    trace.kernel(900, 950, None, name=COPY)
    write_summary(analyze_trace(trace.write(tmp_path / "trace")), tmp_path)
    return read_record(tmp_path / KERNELS_FILE, KernelsSummary)


def test_groups_hold_gpu_and_cpu_time_and_the_share_on_tensor_cores(use):
    product, copies = use.groups
    assert (product.group, product.kernels, product.calls) == ("matrix product", 2, 3)
    assert (product.gpu_s, product.cpu_s) == (pytest.approx(400e-6), pytest.approx((10 + 11 + 12) * 1e-6))
    assert (product.gpu_share, product.tensor_core_share) == (pytest.approx(0.8), pytest.approx(0.75))
    assert (copies.calls, copies.cpu_s, copies.tensor_core_share) == (2, pytest.approx(13e-6), None)


def test_the_whole_says_what_the_names_do_not_tell(use):
    assert (use.total.calls, use.total.gpu_s) == (5, pytest.approx(500e-6))
    assert (use.total.tensor_core_share, use.unknown_share) == (pytest.approx(0.6), pytest.approx(0.2))
    assert use.tensor_cores_by == "names"
    assert [kernel.name for kernel in use.kernels] == [GEMM, FMA, COPY]
