"""Jobs on Slurm: what they request, in the words of Snakemake's Slurm executor, and why they failed."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from speedproof.config.job_resources import JobResources


def request_resources(asked: JobResources, exclusive: bool = False, nodes: int = 1) -> dict[str, int | str]:
    """Return the Snakemake resources that ask for a job's GPUs, cores, memory and time, on each of its nodes.

    `exclusive`: for the whole node. A job on several starts its own tasks with srun, one a node.
    """
    wanted: dict[str, int | str] = {
        "cpus_per_task": asked.cores,
        "mem_mb": asked.memory_mib,
        "runtime": asked.runtime_min,
    }
    if nodes > 1:
        # `tasks_per_gpu: 0` keeps the executor from asking for that many tasks a GPU.
        wanted |= {"nodes": nodes, "tasks": nodes, "tasks_per_gpu": 0, "mpi": "srun"}
        if asked.gpus:
            wanted["gres"] = ":".join(["gpu", *([asked.gpu_model] if asked.gpu_model else []), str(asked.gpus)])
    elif asked.gpus:
        wanted["gpu"] = asked.gpus
        if asked.gpu_model:
            wanted["gpu_model"] = asked.gpu_model
    if exclusive:
        wanted["slurm_extra"] = "--exclusive"
    return wanted


# A job's log says more than its state, so it is asked first; within either, the first of these that fits.
ENDINGS: dict[str, str] = {
    r"DUE TO TIME LIMIT|^TIMEOUT|^DEADLINE": "time limit reached: raise its runtime_min under `resources` in config.yaml",
    r"exceeded memory limit|oom.kill|^OUT_OF_MEMORY": "out of memory: raise its memory_mib under `resources` in config.yaml",
    r"DUE TO PREEMPTION|^PREEMPTED": "preempted, and not put back into the queue: take a partition that is not preempted",
    r"DUE TO NODE FAILURE|^NODE_FAIL|^BOOT_FAIL": "its node failed: leave it out with --slurm-exclude-failed-nodes",
    r"CANCELLED": "cancelled with scancel, by you or an administrator",
}
AGAIN = (
    "Run the same command again: where an experiment gets the same GPU, whole runs are kept and those with a checkpoint go on"
)


class FailedJob(NamedTuple):
    """A failed job, as Snakemake logs it."""

    job: str
    state: str
    log: Path | None


def find_failed_jobs(snakemake_log: str) -> list[FailedJob]:
    """Return the Slurm jobs that a Snakemake run saw fail, in order."""
    logs = dict(re.findall(r"with SLURM jobid (\S+) \(log: (.+)\)\.", snakemake_log))
    failed = re.findall(r"SLURM-job '(\S+)' failed.*?SLURM status is: '(\w+)'", snakemake_log)
    return [FailedJob(job, state, Path(logs[job]) if job in logs else None) for job, state in failed]


def explain_ending(state: str, job_log: str) -> str:
    """Return why a job in this final state and with this log ended, and what to do."""
    for text in (job_log, state):
        for pattern, cause in ENDINGS.items():
            if re.search(pattern, text, re.IGNORECASE):
                return cause
    return f"ended as {state}; its log says why"


def explain_failures(snakemake_logs: Iterable[Path]) -> list[str]:
    """Return one line for each Slurm job that failed in a Snakemake run."""
    failed = [job for path in snakemake_logs for job in find_failed_jobs(_read(path))]
    return [f"Slurm job {job.job}: {explain_ending(job.state, _read(job.log))}; see {job.log or 'its log'}" for job in failed]


def _read(log: Path | None) -> str:
    return log.read_text(encoding="utf-8", errors="replace") if log and log.is_file() else ""
