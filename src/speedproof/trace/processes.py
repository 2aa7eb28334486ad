"""The processes of a trace: one is summarised, and nobody shall take it for all of them."""

from speedproof.results.summary import Process
from speedproof.trace.events import Trace
from speedproof.trace.intervals import total, union
from speedproof.trace.loop import Loop
from speedproof.util.units import NS_PER_S


def list_gpu_processes(trace: Trace, loop: Loop) -> list[Process]:
    """Return the processes that used a GPU, and the loop's own, with the share that each has of the GPUs' busy time."""
    busy_ns, devices = {loop.process: 0}, {loop.process: list[int]()}
    places = trace.activity[["process", "device"]].drop_duplicates().sort_values(["process", "device"])
    for process, device in places.itertuples(index=False):
        work = trace.activity[(trace.activity["process"] == process) & (trace.activity["device"] == device)]
        covered = total(union(work["start_ns"].to_numpy(), work["end_ns"].to_numpy()))
        busy_ns[process] = busy_ns.get(process, 0) + covered
        devices.setdefault(process, []).append(device)
    whole_ns = max(sum(busy_ns.values()), 1)
    return [
        Process(
            process=process,
            summarized=process == loop.process,
            devices=devices[process],
            gpu_busy_s=busy_ns[process] / NS_PER_S,
            gpu_share=busy_ns[process] / whole_ns,
        )
        for process in sorted(busy_ns)
    ]


def warn_of_others(processes: list[Process]) -> list[str]:
    """Return a warning where other processes than the summarised one used a GPU."""
    others = [process for process in processes if not process.summarized and process.gpu_busy_s]
    if not others:
        return []
    (mine,) = (process for process in processes if process.summarized)
    numbers = ", ".join(str(process.process) for process in others)
    return [
        f"{len(others) + 1} processes used a GPU: this is process {mine.process}, with {mine.gpu_share:.0%} of the GPU time; "
        f"the rest is of process {numbers} (option --process)"
    ]
