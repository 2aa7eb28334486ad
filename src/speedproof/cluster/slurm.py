"""What a job asks Slurm for, in the words of Snakemake's Slurm executor."""

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
