"""What a job asks Slurm for, in the words of Snakemake's Slurm executor."""

from speedproof.config.model import JobResources


def request_resources(asked: JobResources, exclusive: bool = False) -> dict[str, int | str]:
    """Return the Snakemake resources that ask for a job's GPUs, cores, memory and time; `exclusive`: for the whole node."""
    wanted: dict[str, int | str] = {
        "cpus_per_task": asked.cores,
        "mem_mb": asked.memory_mib,
        "runtime": asked.runtime_min,
    }
    if asked.gpus:
        wanted["gpu"] = asked.gpus
        if asked.gpu_model:
            wanted["gpu_model"] = asked.gpu_model
    if exclusive:
        wanted["slurm_extra"] = "--exclusive"
    return wanted
