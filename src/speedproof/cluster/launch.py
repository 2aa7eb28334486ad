"""Several nodes: one `srun … apptainer exec … nsys profile … torchrun` a node, all of it built by pure functions.

There is no `srun` inside a container, so this runs outside, in a job's own script, and each node enters the container.
"""

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from speedproof.cluster.apptainer import find_apptainer
from speedproof.profilers.nsys import REPORT_FILE, Capabilities, profile_command, read_capabilities
from speedproof.util.environment import python_command
from speedproof.util.errors import ProfilingError, SpeedproofError, TrainingError
from speedproof.util.scrub import profiled_environment

RENDEZVOUS_PORT = 29400
# nsys puts in the variable's value on each node: srun starts one task a node and counts them.
NODE_RANK = "%q{SLURM_PROCID}"


@dataclass(frozen=True)
class Launch:
    """A program on several nodes, a process a GPU (without GPUs, one a node)."""

    nodes: int
    gpus_per_node: int
    head: str  # host name or address of the node where the processes find each other
    job: str  # the Slurm job's id: tells this rendezvous from another one's
    image: Path
    package: Path  # speedproof's own folder, which the image does not hold
    folders: tuple[Path, ...]  # what else of the host the container sees
    traces: Path  # rank<k>/report.nsys-rep goes below it, k counting nodes
    trace: tuple[str, ...] = ("cuda", "nvtx")

    def reports(self) -> list[Path]:
        """Return the report of each node."""
        return [self.traces / f"rank{node}" / REPORT_FILE for node in range(self.nodes)]


def node_torchrun_command(launch: Launch, program: Sequence[str]) -> list[str]:
    """Return the command that starts a node's processes of `program`: `-m MODULE …`, or a script and its arguments."""
    return [
        "torchrun",
        f"--nnodes={launch.nodes}",
        f"--nproc-per-node={launch.gpus_per_node or 1}",
        "--rdzv-backend=c10d",
        f"--rdzv-endpoint={launch.head}:{RENDEZVOUS_PORT}",
        f"--rdzv-id={launch.job}",
        *program,
    ]


def container_command(launch: Launch, apptainer: str, program: Sequence[str]) -> list[str]:
    """Return the command that runs `program` inside the image, with the GPU driver if the machine has GPUs."""
    gpu = ["--nv"] if launch.gpus_per_node else []
    binds = [f"--bind={folder}" for folder in (launch.package, *launch.folders)]
    return [apptainer, "exec", *gpu, *binds, f"--env=PYTHONPATH={launch.package}", str(launch.image), *program]


def launch_command(
    launch: Launch, apptainer: str, nsys: Capabilities, program: Sequence[str], variables: Sequence[str]
) -> list[str]:
    """Return the command of the whole launch: a task a node under one nsys each, which see `variables` of the job alone."""
    report = launch.traces / f"rank{NODE_RANK}" / REPORT_FILE
    profiled = profile_command(nsys, report, launch.trace, node_torchrun_command(launch, program))
    gpus = [f"--gpus-per-node={launch.gpus_per_node}"] if launch.gpus_per_node else []
    return [
        "srun",
        f"--nodes={launch.nodes}",
        f"--ntasks={launch.nodes}",
        "--ntasks-per-node=1",
        *gpus,
        "--kill-on-bad-exit=1",  # a node that failed must not leave the others waiting for it
        f"--export={','.join(sorted(variables))}",
        *container_command(launch, apptainer, profiled),
    ]


def plan_launch(environ: Mapping[str, str], image: Path, traces: Path, head: str | None) -> Launch:
    """Return the launch that fills the Slurm job of `environ`; raise :class:`SpeedproofError` outside of one."""
    if "SLURM_JOB_ID" not in environ:
        raise SpeedproofError("speedproof launch runs inside a Slurm job; submit slurm/several-nodes.sbatch")
    return Launch(
        nodes=int(environ.get("SLURM_JOB_NUM_NODES", "1")),
        gpus_per_node=int(environ.get("SLURM_GPUS_ON_NODE", "0")),
        head=head or _first_host(environ["SLURM_JOB_NODELIST"]),
        job=environ["SLURM_JOB_ID"],
        image=image.absolute(),
        package=Path(__file__).parents[2],
        folders=(Path.cwd(), traces.absolute()),
        traces=traces.absolute(),
    )


def run_launch(launch: Launch, program: Sequence[str]) -> list[Path]:
    """Run a program on all nodes and return the report of each.

    Raises:
        TrainingError: the program failed on a node.
        ProfilingError: a node left no report.
    """
    apptainer = find_apptainer()
    for report in launch.reports():
        report.parent.mkdir(parents=True, exist_ok=True)
        report.unlink(missing_ok=True)
    nsys = read_capabilities("nsys", inside=container_command(launch, apptainer, []))
    command = launch_command(launch, apptainer, nsys, program, list(profiled_environment(os.environ)))
    ended = subprocess.run(command, stdin=subprocess.DEVNULL)
    if ended.returncode != 0:
        raise TrainingError(
            f"job {launch.job}: the program ended with {ended.returncode} on a node; its output is in the job's log"
        )
    missing = [report for report in launch.reports() if not report.is_file()]
    if missing:
        raise ProfilingError(f"{missing[0]}: nsys {nsys.version} left no report; see the job's log")
    return launch.reports()


def _first_host(node_list: str) -> str:
    shown = subprocess.run(["scontrol", "show", "hostnames", node_list], capture_output=True, text=True, check=True)
    return shown.stdout.split()[0]


# Set for the tasks that srun starts: how many nodes the experiment is on. Slurm tells each task which of them it has.
NODES_VARIABLE = "SPEEDPROOF_NODES"


def needs_launch(nodes: int, environ: Mapping[str, str]) -> bool:
    """Return whether an experiment on so many nodes is still to be started on them."""
    return nodes > 1 and NODES_VARIABLE not in environ


def node_command(nodes: int, cores: int, container: Sequence[str], arguments: Sequence[str]) -> list[str]:
    """Return the command that runs `speedproof ARGUMENTS…` on each node, behind the words of `container`."""
    return [
        "srun",
        f"--nodes={nodes}",
        f"--ntasks={nodes}",
        "--ntasks-per-node=1",
        f"--cpus-per-task={cores}",
        "--kill-on-bad-exit=1",  # a node that failed must not leave the others waiting for it
        *container,
        *python_command("-m", "speedproof", *arguments, python="python3"),
    ]


def launch_on_nodes(nodes: int, cores: int, container: Path | None, arguments: Sequence[str]) -> None:
    """Run `speedproof ARGUMENTS…` on all nodes of this Slurm job, inside the image `container` if given.

    Raises:
        TrainingError: this is not a Slurm job, or the command failed on a node.
    """
    if "SLURM_JOB_ID" not in os.environ:
        raise TrainingError(f"a variant trains on {nodes} nodes, which needs Slurm: start it with `snakemake --profile slurm`")
    words = [find_apptainer(), "exec", str(container.absolute())] if container else []
    command = node_command(nodes, cores, words, arguments)
    ended = subprocess.run(command, stdin=subprocess.DEVNULL, env={**os.environ, NODES_VARIABLE: str(nodes)})
    if ended.returncode != 0:
        raise TrainingError(f"the experiment ended with {ended.returncode} on one of its {nodes} nodes; its log says why")
