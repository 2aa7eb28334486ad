"""Where this runs: container, Slurm, scratch space."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

import psutil

from speedproof.cluster.check_answer import CheckAnswer
from speedproof.cluster.isolation import ADVICE, explain_no_isolation
from speedproof.util.environment import expand_variables
from speedproof.util.errors import ConfigError
from speedproof.util.units import GIB

WANTED_SCRATCH_GIB = 10  # a profiled run's report and its export, before they are converted
NETWORK_FILE_SYSTEMS = {"nfs", "nfs4", "lustre", "gpfs", "beegfs", "cifs", "fuse.glusterfs", "ceph", "afs"}


def check_container(environ: Mapping[str, str]) -> CheckAnswer:
    """Check whether this runs inside a container, and otherwise whether this machine can run and build one."""
    inside = environ.get("APPTAINER_CONTAINER") or environ.get("SINGULARITY_CONTAINER")
    if inside:
        return CheckAnswer("good", f"inside {Path(inside).name}")
    program = shutil.which("apptainer") or shutil.which("singularity")
    if program is None:
        return CheckAnswer(
            "absent",
            "Apptainer is not on PATH; this Python environment is used",
            "run `module load apptainer` if the cluster has it, else leave --use-singularity out",
        )
    version = subprocess.run([program, "--version"], capture_output=True, text=True).stdout.strip()
    mode = describe_build_mode(Path("/proc/sys/user/max_user_namespaces"), Path("/etc/subuid"), os.geteuid())
    if mode is None:
        return CheckAnswer(
            "notice",
            f"{version}, which cannot build here: user namespaces are off",
            "build the image elsewhere and set container.image to the .sif",
        )
    return CheckAnswer("good", f"{version}, builds {mode}; this Python environment is used")


def describe_build_mode(namespaces: Path, subuid: Path, user: int) -> str | None:
    """Return how Apptainer builds for a user id here; None if it cannot."""
    if user == 0:
        return "as root"
    allowed = int(namespaces.read_text(encoding="utf-8")) if namespaces.exists() else 0
    if allowed == 0:
        return None
    mapped = subuid.read_text(encoding="utf-8") if subuid.exists() else ""
    names = {line.split(":")[0] for line in mapped.splitlines()}
    return "with fakeroot" if names & {str(user), psutil.Process().username()} else "in a user namespace"


def check_isolation() -> CheckAnswer:
    """Check whether this machine supports --isolate."""
    if why := explain_no_isolation():
        return CheckAnswer("absent", f"--isolate does not work: {why}", ADVICE)
    return CheckAnswer("good", "--isolate works: what a run writes can be discarded after it")


def check_slurm(environ: Mapping[str, str]) -> CheckAnswer:
    """Check whether this is a Slurm job, and otherwise whether one can be submitted."""
    if "SLURM_JOB_ID" in environ:
        shown = {"SLURM_JOB_NUM_NODES": "nodes", "SLURM_CPUS_ON_NODE": "cores", "SLURM_MEM_PER_NODE": "MiB"}
        asked = [f"{environ[name]} {unit}" for name, unit in shown.items() if name in environ]
        return CheckAnswer("good", ", ".join(["a job", *asked]))
    if shutil.which("sbatch"):
        return CheckAnswer("good", "available; this process is not a Slurm job")
    return CheckAnswer(
        "absent",
        "Slurm is not on PATH, and this is not a Slurm job",
        "on a cluster, run `snakemake --profile slurm` from a login node; elsewhere Slurm is not needed",
    )


def check_scratch(scratch: str | None, environ: Mapping[str, str]) -> CheckAnswer:
    """Check the disk that profilers write to during a run: resources.scratch, else the one for temporary files."""
    key = "resources.scratch" if scratch else "TMPDIR"
    try:
        folder = expand_variables(scratch, environ, key) if scratch else Path(tempfile.gettempdir())
    except ConfigError as error:
        return CheckAnswer("problem", str(error), "run `env` in a job to list its variables")
    if not folder.is_dir():
        hint = f"set {key} to a folder that exists on the node"
        return CheckAnswer("problem", f"{key} is not a folder on this node", hint)
    free_gib, kind = shutil.disk_usage(folder).free / GIB, file_system_of(folder)
    found = f"{free_gib:.0f} GiB free on {kind}"
    if kind in NETWORK_FILE_SYSTEMS:
        hint = "profiling to a network disk disturbs the measurement: set resources.scratch and TMPDIR to a local disk"
        return CheckAnswer("notice", found, hint)
    if free_gib < WANTED_SCRATCH_GIB:
        hint = f"set {key} to a local disk with at least {WANTED_SCRATCH_GIB} GiB free"
        return CheckAnswer("notice", found, hint)
    return CheckAnswer("good", found)


def file_system_of(folder: Path) -> str:
    """Return the type of a folder's file system, such as ext4 or nfs."""
    folder = folder.resolve()
    mounts = {Path(mount.mountpoint): mount.fstype for mount in psutil.disk_partitions(all=True)}
    return next((mounts[place] for place in [folder, *folder.parents] if place in mounts), "an unknown file system")
