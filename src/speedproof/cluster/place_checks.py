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
    """Say whether this runs inside a container, and else whether one could be run and built here."""
    inside = environ.get("APPTAINER_CONTAINER") or environ.get("SINGULARITY_CONTAINER")
    if inside:
        return CheckAnswer("good", f"inside {Path(inside).name}")
    program = shutil.which("apptainer") or shutil.which("singularity")
    if program is None:
        return CheckAnswer(
            "absent",
            "Apptainer is not on PATH; this Python environment is used",
            "`module load apptainer` where the cluster has it; without it, leave --use-singularity out",
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
    """Return how Apptainer builds for a user id here, or None where it cannot."""
    if user == 0:
        return "as root"
    allowed = int(namespaces.read_text(encoding="utf-8")) if namespaces.exists() else 0
    if allowed == 0:
        return None
    mapped = subuid.read_text(encoding="utf-8") if subuid.exists() else ""
    names = {line.split(":")[0] for line in mapped.splitlines()}
    return "with fakeroot" if names & {str(user), psutil.Process().username()} else "in a user namespace"


def check_isolation() -> CheckAnswer:
    """Say whether each run of a proof could be isolated here."""
    if why := explain_no_isolation():
        return CheckAnswer("absent", f"--isolate does not work: {why}", ADVICE)
    return CheckAnswer("good", "--isolate works: what a run writes can be dropped after it")


def check_slurm(environ: Mapping[str, str]) -> CheckAnswer:
    """Say whether this is a Slurm job, and else whether one could be submitted."""
    if "SLURM_JOB_ID" in environ:
        shown = {"SLURM_JOB_NUM_NODES": "nodes", "SLURM_CPUS_ON_NODE": "cores", "SLURM_MEM_PER_NODE": "MiB"}
        asked = [f"{environ[name]} {unit}" for name, unit in shown.items() if name in environ]
        return CheckAnswer("good", ", ".join(["a job", *asked]))
    if shutil.which("sbatch"):
        return CheckAnswer("good", "there; this is no job of it")
    return CheckAnswer(
        "absent",
        "not on PATH, and this is no job of it",
        "on a cluster, run `snakemake --profile slurm` from a login node; elsewhere none is needed",
    )


def check_scratch(scratch: str | None, environ: Mapping[str, str]) -> CheckAnswer:
    """Judge the disk on which profilers write while a run lasts: resources.scratch, else that of temporary files."""
    key = "resources.scratch" if scratch else "TMPDIR"
    try:
        folder = expand_variables(scratch, environ, key) if scratch else Path(tempfile.gettempdir())
    except ConfigError as error:
        return CheckAnswer("problem", str(error), "`env` in a job lists what it has")
    if not folder.is_dir():
        cure = f"set {key} to a folder that the node has"
        return CheckAnswer("problem", f"{key} names no folder of this node", cure)
    free_gib, kind = shutil.disk_usage(folder).free / GIB, file_system_of(folder)
    found = f"{free_gib:.0f} GiB free on {kind}"
    if kind in NETWORK_FILE_SYSTEMS:
        cure = "profiles on a network disk disturb what they measure: set resources.scratch and TMPDIR to a disk of the node"
        return CheckAnswer("notice", found, cure)
    if free_gib < WANTED_SCRATCH_GIB:
        cure = f"set {key} to a disk of the node with {WANTED_SCRATCH_GIB} GiB and more"
        return CheckAnswer("notice", found, cure)
    return CheckAnswer("good", found)


def file_system_of(folder: Path) -> str:
    """Return the kind of file system that a folder lies on, such as ext4 or nfs."""
    folder = folder.resolve()
    mounts = {Path(mount.mountpoint): mount.fstype for mount in psutil.disk_partitions(all=True)}
    return next((mounts[place] for place in [folder, *folder.parents] if place in mounts), "an unknown file system")
