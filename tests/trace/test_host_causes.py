"""Operators and functions of Python as causes of idle time."""

import pytest

from speedproof.trace.summarize import analyze_trace
from tests.trace.handmade import AUTOGRAD, LOADER, TraceBuilder
from tests.trace.readings import account_of, compare_traces, idle_gaps_of


def one_epoch(end=1000) -> TraceBuilder:
    trace = TraceBuilder()
    trace.range("epoch", 0, end)
    return trace


def test_the_operator_that_works_on_the_cpu_is_named_with_who_called_it(tmp_path):
    trace = one_epoch()
    trace.host("train.py(3): <module>", 0, 1000)
    trace.host("train.py(12): step", 100, 800)
    trace.host("torch/functional.py(5): randn", 150, 700)
    trace.host("aten::randn", 200, 600)
    trace.host("aten::normal_", 250, 550)
    trace.kernel(900, 1000)
    assert idle_gaps_of(analyze_trace(trace.write(tmp_path))) == {
        ("operator on the CPU", "train.py(12): step > aten::randn > aten::normal_"): (1, 300),
        ("operator on the CPU", "train.py(12): step > aten::randn"): (1, 100),
        ("Python function", "train.py(12): step > torch/functional.py(5): randn"): (1, 150),
        ("Python function", "train.py(12): step"): (1, 150),
        ("Python function", "train.py(3): <module>"): (1, 200),
    }


def test_an_operator_that_launches_is_told_from_one_that_computes_on_the_cpu(tmp_path):
    trace = one_epoch(2000)
    trace.host("aten::linear", 0, 1000)
    trace.host("aten::empty", 100, 150)  # short, and part of what launches
    trace.host("aten::sort", 200, 600)  # long, and launches nothing
    trace.call("cudaLaunchKernel", 900, 910, 1)
    trace.kernel(1000, 2000, 1)
    assert idle_gaps_of(analyze_trace(trace.write(tmp_path))) == {
        ("launching operator", "aten::linear"): (1, 100 + 50 + 300),
        ("launching operator", "aten::linear > aten::empty"): (1, 50),
        ("operator on the CPU", "aten::linear > aten::sort"): (1, 400),
        ("launch-bound", ""): (1, 10),
        ("queued, not started", ""): (1, 90),
    }


def test_a_file_that_torch_wrote_by_compiling_has_a_short_name(tmp_path):
    trace = one_epoch()
    trace.host("/tmp/nx/cnxo4mbzxge6nov4c6va5ztwbxsnievrivncmt2ojyku2fblcsbi.py(46): call", 0, 400)
    trace.kernel(400, 1000)
    assert idle_gaps_of(analyze_trace(trace.write(tmp_path))) == {
        ("Python function", "/tmp/nx/cnxo4mbz….py(46): call"): (1, 400)
    }


def test_between_operators_python_sets_the_pace(tmp_path):
    trace = one_epoch()
    for start in (0, 80, 160, 400):  # 50 us apart, then 210
        trace.host("aten::view", start, start + 30)
    trace.kernel(430, 1000)
    assert idle_gaps_of(analyze_trace(trace.write(tmp_path))) == {
        ("operator on the CPU", "aten::view"): (1, 120),
        ("between operators", ""): (1, 100),
        ("unknown host time in no range", ""): (1, 210),
    }


def test_a_wait_names_the_line_that_asks_for_it(tmp_path):
    trace = one_epoch()
    trace.host("train.py(31): log_loss", 0, 900)
    trace.host("<built-in method item of Tensor object>", 5, 800)
    trace.host("aten::item", 10, 800)
    trace.host("aten::_local_scalar_dense", 20, 790)
    trace.call("cudaStreamSynchronize", 30, 780)
    trace.kernel(900, 1000)
    found = idle_gaps_of(analyze_trace(trace.write(tmp_path)))
    assert found["synchronising call", "train.py(31): log_loss > aten::item > cudaStreamSynchronize"] == (1, 750)


@pytest.mark.parametrize(("launch_at", "retries"), [(None, True), (250, False)])
def test_an_allocation_that_failed_at_first_is_a_retry(tmp_path, launch_at, retries):
    trace = one_epoch()
    trace.host("aten::empty", 0, 900)
    trace.call("cudaMalloc", 100, 200)
    if launch_at:  # what was allocated was used, so that the first call had succeeded
        trace.call("cudaLaunchKernel", launch_at, launch_at + 1)
    trace.call("cudaFree", 300, 500)
    trace.call("cudaMalloc", 600, 700)
    trace.kernel(900, 1000)
    summary = analyze_trace(trace.write(tmp_path))
    mark = " (retry)" if retries else ""
    found = idle_gaps_of(summary)
    assert found["synchronising call", f"aten::empty > cudaFree{mark}"] == (1, 200)
    assert found["synchronising call", f"aten::empty > cudaMalloc{mark}"] == (1, 200)
    assert ("allocator retries" in {one.rule for one in summary.advice}) == retries


def test_compilation_guards_and_garbage_are_named_with_the_function(tmp_path):
    trace = one_epoch()
    trace.host("train.py(12): step", 0, 900)
    trace.host("TorchDynamo Cache Lookup", 0, 100)
    trace.host("_compile.compile_inner (dynamo_timed)", 100, 500)
    trace.host("aten::add", 200, 300)  # on tensors that stand for others
    trace.host("Python GC", 600, 800)
    trace.kernel(900, 1000)
    assert idle_gaps_of(analyze_trace(trace.write(tmp_path))) == {
        ("looking up compiled code", "train.py(12): step"): (1, 100),
        ("compiling", "train.py(12): step"): (1, 400),
        ("garbage collection", "train.py(12): step"): (1, 200),
        ("Python function", "train.py(12): step"): (1, 200),
    }


def test_a_graph_break_is_where_a_compiled_function_holds_another(tmp_path):
    trace = one_epoch()
    trace.host("Torch-Compiled Region: 0/0", 0, 800)
    trace.host("aten::add", 50, 100)
    trace.host("model.py(28): torch_dynamo_resume_in_forward_at_28", 300, 800)
    trace.host("Torch-Compiled Region: 1/0", 400, 700)
    trace.kernel(800, 1000)
    assert idle_gaps_of(analyze_trace(trace.write(tmp_path))) == {
        # All of the first function but its operator, its resumption's own time included.
        ("graph break", "model.py(28): forward"): (1, 50 + 200 + 100 + 100),
        ("operator on the CPU", "Torch-Compiled Region: 0/0 > aten::add"): (1, 50),
        (
            "operator on the CPU",
            "model.py(28): torch_dynamo_resume_in_forward_at_28 > Torch-Compiled Region: 0/0 > Torch-Compiled Region: 1/0",
        ): (1, 300),
    }


def test_the_function_that_resumes_may_lie_in_the_next_graph(tmp_path):
    trace = one_epoch()
    trace.host("Torch-Compiled Region: 0/0", 0, 800)
    trace.host("Torch-Compiled Region: 1/0", 400, 700)
    trace.host("model.py(28): torch_dynamo_resume_in_forward_at_28", 410, 690)
    trace.kernel(800, 1000)
    assert idle_gaps_of(analyze_trace(trace.write(tmp_path)))["graph break", "model.py(28): forward"] == (1, 500)


def test_one_compiled_function_after_another_is_no_break(tmp_path):
    trace = one_epoch()
    trace.host("Torch-Compiled Region: 0/0", 0, 300)
    trace.host("Torch-Compiled Region: 1/0", 300, 800)
    trace.kernel(800, 1000)
    assert {cause for cause, _ in idle_gaps_of(analyze_trace(trace.write(tmp_path)))} == {"operator on the CPU"}


def test_waiting_for_worker_processes_is_no_transform_in_a_range_of_the_program(tmp_path):
    trace = one_epoch()
    trace.range("data loading", 0, 800)
    trace.range("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", 10, 700)
    trace.range("collate", 710, 790)
    trace.kernel(800, 1000)
    assert idle_gaps_of(analyze_trace(trace.write(tmp_path))) == {
        ("waiting for data", ""): (1, 690),
        ("batches made on the CPU", "data loading"): (1, 10 + 10 + 10),
        ("transforms on the CPU", "collate"): (1, 80),
    }


def test_a_loader_without_workers_is_seen_to_make_the_batches_itself(tmp_path):
    trace = one_epoch()
    trace.range("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 0, 800)
    trace.host("aten::stack", 700, 780)
    trace.kernel(800, 1000)
    (cause,) = {cause for cause, _ in idle_gaps_of(analyze_trace(trace.write(tmp_path)))}
    assert cause == "batches made on the CPU"


def test_a_queue_is_waited_for_without_a_range(tmp_path):
    trace = one_epoch()
    trace.host("train.py(12): step", 0, 900)
    trace.host("queue.py(154): get", 100, 800)
    trace.host("<built-in method acquire of _thread.lock object>", 200, 700)
    trace.kernel(900, 1000)
    found = idle_gaps_of(analyze_trace(trace.write(tmp_path)))
    assert found["waiting for data", ""] == (1, 700)


@pytest.mark.parametrize(("operator", "by_parameter"), [("aten::add_", True), ("aten::_foreach_add_", False)])
def test_an_optimizer_that_goes_through_its_parameters_is_named(tmp_path, operator, by_parameter):
    trace = one_epoch(2000)
    trace.range("Optimizer.step#Adam.step", 0, 1800)
    for number in range(60):
        trace.host(operator, 30 * number, 30 * number + 10)
    trace.kernel(1800, 2000)
    found = idle_gaps_of(analyze_trace(trace.write(tmp_path)))
    assert (found.get(("optimizer by parameter", "Optimizer.step#Adam.step")) == (1, 1800)) == by_parameter


def test_the_first_launch_of_a_kernel_loads_it(tmp_path):
    trace = TraceBuilder()
    trace.call("cudaLaunchKernel", 0, 700_000, 0)
    trace.kernel(700_001, 700_021, 0, name="first")
    for number in range(1, 6):
        start = 700_000 + 400 * number
        trace.call("cudaLaunchKernel", start, start + 12, number)
        trace.kernel(start + 14, start + 20, number, name=f"k{number}")
    summary = analyze_trace(trace.write(tmp_path))
    assert idle_gaps_of(summary)["loading kernels", ""] == (1, 700_000)
    assert [one.rule for one in summary.advice] == ["low utilisation", "first use"]


def test_two_first_launches_that_take_long_load_their_kernels(tmp_path):
    """No other launch shows how long one takes; 17 ms are thousands of times what any needs."""
    trace = TraceBuilder()
    trace.call("cudaLaunchKernel", 0, 17_000, 0)
    trace.kernel(17_010, 17_020, 0, name="a")
    trace.call("cudaLaunchKernel", 17_020, 35_020, 1)
    trace.kernel(35_000, 35_030, 1, name="b")  # before its launch returns
    assert idle_gaps_of(analyze_trace(trace.write(tmp_path)))["loading kernels", ""] == (2, 17_000 + 17_980)


def test_a_graph_s_launch_loads_nothing_however_long_it_takes(tmp_path):
    trace = TraceBuilder()
    for number in range(3):
        trace.call("cudaLaunchKernel", 100 * number, 100 * number + 5, number)
        trace.kernel(100 * number + 6, 100 * number + 90, number, name="k")
    trace.call("cudaGraphLaunch", 300, 2300, 3)
    for number in range(10):
        trace.kernel(310 + 200 * number, 450 + 200 * number, 3, name=f"g{number}")
    assert "loading kernels" not in {cause for cause, _ in idle_gaps_of(analyze_trace(trace.write(tmp_path)))}


def test_a_thread_that_goes_backward_loads_nothing(tmp_path):
    """What it marks is communication; it was taken for a loader that shares Python's lock."""
    trace = one_epoch()
    trace.host("autograd::engine::evaluate_function: AddBackward0", 0, 400, thread=AUTOGRAD)
    trace.range("nccl:all_reduce", 500, 700, thread=AUTOGRAD)
    trace.kernel(800, 1000)
    assert idle_gaps_of(analyze_trace(trace.write(tmp_path))) == {
        ("operator on the CPU", "autograd::engine::evaluate_function: AddBackward0"): (1, 400),
        ("unknown host time in no range", ""): (1, 400),
    }


def test_the_profiler_s_own_functions_are_its_overhead(tmp_path):
    trace = one_epoch()
    trace.host("torch/profiler/profiler.py(1150): step", 0, 800)
    trace.kernel(800, 1000)
    assert idle_gaps_of(analyze_trace(trace.write(tmp_path))) == {("profiler overhead", ""): (1, 800)}


def test_functions_of_other_threads_explain_nothing(tmp_path):
    trace = one_epoch()
    trace.host("tqdm/_monitor.py(60): run", 0, 1000, thread=LOADER)
    trace.kernel(800, 1000)
    assert idle_gaps_of(analyze_trace(trace.write(tmp_path))) == {("unknown host time in no range", ""): (1, 800)}


def test_the_account_and_a_difference_name_operators_and_functions_without_lines(tmp_path):
    traces = []
    for name, line, slept in (("a", 12, 300), ("b", 15, 500)):
        trace = one_epoch()
        trace.host(f"train.py({line}): step", 0, slept)
        trace.host("aten::randn", slept, 600)
        trace.host("aten::normal_", slept, 590)
        trace.host("train.py(90): short", 600, 604)  # less than a hundredth of the idle time
        trace.kernel(604, 1000)
        traces.append(trace.write(tmp_path / name))
    account = account_of(analyze_trace(traces[0]))
    assert account["training", "idle", "Python function: train.py: step"] == 300
    assert account["training", "idle", "operator on the CPU: aten::randn"] == 300
    assert account["training", "idle", "Python function"] == 4
    difference = compare_traces(*traces)
    assert {term.name: round(term.seconds_per_epoch * 1e6) for term in difference.terms if term.seconds_per_epoch} == {
        "Python function: train.py: step": 200,
        "operator on the CPU: aten::randn": -200,
    }
