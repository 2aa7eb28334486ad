"""Each cause of idle time with a trace that shows it, and the advice that this supports: no other is given."""

import pytest

from speedproof.trace import advice
from speedproof.trace.causes import CAUSES
from speedproof.trace.summarize import analyze_trace
from tests.trace.handmade import LOADER, MAIN, TraceBuilder

# By cause: what fills [0, 800) of an epoch of 2000 us in which a kernel runs from 800 on, and the rules that follow.
EVENTS = {
    "copying": ([("copy", 0, 800, None, "HtoD", "pageable", "device")], {"pageable copies", "exposed copies"}),
    "queued, not started": ([("call", "cudaLaunchKernel", -1, 0, 1)], set()),
    "profiler overhead": ([("add", "overhead", 0, 800, {"thread": MAIN, "name": "CUPTI"})], set()),
    "loading kernels": ([("call", "cuModuleLoadData", 0, 800)], {"first use"}),
    "synchronising call": ([("call", "cudaStreamSynchronize", 0, 800)], {"synchronous calls"}),
    "compiling": ([("host", "entire_frame_compile", 0, 800)], {"compilation"}),
    "looking up compiled code": ([("host", "TorchDynamo Cache Lookup", 0, 800)], {"guards"}),
    "garbage collection": ([("host", "Python GC", 0, 800)], {"garbage"}),
    "transforms on the CPU": ([("range", "dataload", 0, 800), ("range", "LoadImage", 0, 800)], {"transforms"}),
    "batches made on the CPU": ([("range", "dataload", 0, 800), ("range", "LoadImage", 0, 10)], {"batches"}),
    "waiting for data": ([("range", "dataload", 0, 800)], {"data wait"}),
    "optimizer by parameter": (
        [
            ("range", "Optimizer.step#SGD.step", 0, 800),
            *(("host", "aten::add_", start, start + 1) for start in range(0, 800, 10)),
        ],
        {"optimizer"},
    ),
    "launch-bound": ([("call", "cudaLaunchKernel", start, start + 10) for start in range(0, 800, 79)], {"launch gaps"}),
    "operating system call": ([("add", "osrt", 0, 800, {"thread": MAIN, "name": "read"})], set()),
    "library call": ([("add", "library", 0, 800, {"thread": MAIN, "name": "cudnnFind"})], set()),
    "graph break": (
        [("host", "Torch-Compiled Region: 0/0", 0, 800), ("host", "Torch-Compiled Region: 1/0", 795, 800)],
        {"graph breaks"},
    ),
    "launching operator": (
        [("host", "aten::add", 0, 800), ("call", "cudaLaunchKernel", 795, 800)],
        {"launch gaps"},
    ),
    "operator on the CPU": ([("host", "aten::sort", 0, 800)], {"operators"}),
    "while a loader thread is active": ([("thread", "RandCrop", 0, 800)], {"shared interpreter"}),
    "Python function": ([("host", "train.py(3): step", 0, 800)], {"Python code"}),
    "between operators": (
        [("host", "aten::view", start, start + 1) for start in range(0, 800, 47)],
        {"launch gaps"},
    ),
    "unknown host time in a phase": ([("range", "forward", 0, 800)], {"host code"}),
    "unknown host time in no range": ([], {"unmarked code"}),
}
TOPICS = {
    "allocations": [("call", "cudaMalloc", 0, 400), ("call", "cudaFree", 400, 800)],
    "allocator retries": [
        ("host", "aten::empty", 0, 800),
        ("call", "cudaMalloc", 0, 100),
        ("call", "cudaFree", 100, 700),
        ("call", "cudaMalloc", 700, 800),
    ],
    "output": [("host", "train.py(3): step", 0, 800), ("host", "<built-in function print>", 0, 800)],
}


def analyze(folder, events):
    trace = TraceBuilder()
    trace.range("epoch", 0, 2000)
    trace.kernel(800, 2000, 1)
    for what, *values in events:
        if what == "add":
            *place, more = values
            trace.add(*place, **more)
        elif what == "thread":
            trace.range(*values, thread=LOADER)
        else:
            getattr(trace, what)(*values)
    return analyze_trace(trace.write(folder))


@pytest.mark.parametrize("cause", EVENTS)
def test_a_cause_is_found_and_only_its_own_advice_is_given(tmp_path, cause):
    events, rules = EVENTS[cause]
    events = [(what, *(max(value, 0) if isinstance(value, int) else value for value in values)) for what, *values in events]
    summary = analyze(tmp_path, events)
    largest = max(summary.idle_gaps, key=lambda one: one.total_s)
    assert largest.cause == cause
    assert {one.rule for one in summary.advice} - {"low utilisation"} == rules


@pytest.mark.parametrize(("profiler", "what"), [("nsys", "NVTX ranges"), ("kineto", "record_function")])
def test_what_is_unknown_is_marked_as_the_profiler_records_it(tmp_path, profiler, what):
    trace = TraceBuilder()
    trace.range("epoch", 0, 2000)
    trace.range("forward", 0, 400)
    trace.kernel(800, 2000)
    said = {one.rule: one.text for one in analyze_trace(trace.write(tmp_path, profiler)).advice}
    assert set(said) == {"host code", "unmarked code"}
    assert all((name in text) == (name == what) for text in said.values() for name in ("NVTX ranges", "record_function"))


@pytest.mark.parametrize("rule", TOPICS)
def test_what_a_detail_is_about_decides_the_advice(tmp_path, rule):
    assert [one.rule for one in analyze(tmp_path, TOPICS[rule]).advice] == [rule]


def test_every_cause_and_every_rule_has_its_trace():
    assert [*EVENTS, "unexplained"] == list(CAUSES)
    given = {*TOPICS}.union(*(rules for _, rules in EVENTS.values()))
    assert given == {rule.name for rule in advice._RULES}
