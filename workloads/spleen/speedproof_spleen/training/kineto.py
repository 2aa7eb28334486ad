"""Recording with torch's own profiler (kineto), where nsys is not: inside of the process that trains."""

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import torch
from torch.profiler import ProfilerActivity, profile, record_function

from speedproof.api import CLOCK_MARK, MARKS, ClockMark, Recorder, convert_kineto, record_transforms


@contextmanager
def kineto_recording(recorder: Recorder, folder: Path) -> Iterator[None]:
    """Record this process while the block runs, and write it, with the recorder's ranges, as a trace into `folder`.

    Where the block raises, no trace is written. The recorder also gets the ranges of all marked transforms.
    """
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if torch.cuda.is_available() else [])]
    marks: list[ClockMark] = []
    with (
        record_transforms(recorder),
        profile(activities=activities, record_shapes=False, profile_memory=False, with_stack=False) as profiler,
    ):
        marks += [_mark_clock() for _ in range(MARKS)]
        yield
        marks += [_mark_clock() for _ in range(MARKS)]
    with tempfile.TemporaryDirectory() as scratch:
        chrome_trace = Path(scratch) / "kineto.json"
        profiler.export_chrome_trace(str(chrome_trace))
        convert_kineto(chrome_trace, recorder.read_ranges(), marks, _list_devices(), torch.__version__, folder)


def _mark_clock() -> ClockMark:
    before_ns = time.perf_counter_ns()
    with record_function(CLOCK_MARK):
        return ClockMark(before_ns, time.perf_counter_ns())


def _list_devices() -> pa.Table:
    numbers = range(torch.cuda.device_count())
    names = [torch.cuda.get_device_name(number) for number in numbers]
    return pa.table({"device": pa.array(numbers, pa.int32()), "name": pa.array(names, pa.string())})
