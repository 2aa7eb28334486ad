"""Apptainer (or Singularity, its other name): command lines, and the environment in which a job's container starts."""

import os
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from speedproof.util.errors import SpeedproofError

DEFINITION = "speedproof.def"
# Unpacks at the speed of the disk and packs in a minute; the file is a third larger than with the default.
SQUASH_ARGUMENTS = "-comp lz4"


def find_apptainer(otherwise: str = "leave --use-singularity out") -> str:
    """Return the name of the program on PATH; if it is missing, raise :class:`SpeedproofError` that ends with `otherwise`."""
    for name in ("apptainer", "singularity"):
        if shutil.which(name):
            return name
    raise SpeedproofError(
        f"apptainer: not found; load the cluster's module (`module load apptainer`), install it, or {otherwise}"
    )


def build_command(program: str, base: str, image: Path) -> list[str]:
    """Return the command that builds `image` upon `base`, a registry address or a .sif file, from containers/ as its folder.

    Without root's rights Apptainer takes a user namespace or fakeroot by itself; Singularity must be asked.
    """
    bootstrap, base = ("localimage", str(Path(base).absolute())) if base.endswith(".sif") else ("docker", base)
    rights = ["--fakeroot"] if program == "singularity" else []
    arguments = [f"--build-arg=BOOTSTRAP={bootstrap}", f"--build-arg=BASE={base}"]
    return [program, "build", "--force", *rights, f"--mksquashfs-args={SQUASH_ARGUMENTS}", *arguments, str(image), DEFINITION]


def pull_command(program: str, address: str, image: Path) -> list[str]:
    return [program, "pull", "--force", str(image), address]


def build_environment(environment: Mapping[str, str], scratch: Path) -> dict[str, str]:
    """Return the environment of a build: its scratch and cache lie on local disk, and never in a home with a quota.

    What a job's container sees, a build must not: the folders are not there to be bound to.
    """
    job_only = re.compile(r"(APPTAINER|SINGULARITY)(_BIND|_NV|_NO_EVAL|ENV_)")
    others = {name: value for name, value in environment.items() if not job_only.match(name)}
    folders = {"TMPDIR": scratch / "build", "CACHEDIR": scratch / "cache"}
    ours = {f"{tool}_{name}": str(path) for tool in ("APPTAINER", "SINGULARITY") for name, path in folders.items()}
    return {**others, **ours}


def job_environment(
    environment: Mapping[str, str], modules: Sequence[Path], folders: Iterable[Path], gpu: bool
) -> dict[str, str]:
    """Return the variables that make a job's container see what the job needs, whoever starts it.

    Each of `folders` is bound at its path on the host. Of the host's Python, the container sees only the folders
    `modules`: installed packages are for another interpreter. With `gpu`, the driver's libraries are bound, as `--nv` does.
    """
    before = (environment.get("APPTAINER_BIND") or environment.get("SINGULARITY_BIND") or "").split(",")
    bound = dict.fromkeys([*filter(None, before), *map(str, _outermost(map(_nearest_existing, folders)))])
    ours = {
        "APPTAINER_BIND": ",".join(bound),
        "APPTAINER_NO_EVAL": "1",  # or a shell evaluates the values below: `$(…)` in a folder's name would run
        "APPTAINERENV_PYTHONPATH": os.pathsep.join(map(str, modules)),
        "APPTAINERENV_PYTHONNOUSERSITE": "1",
        "APPTAINERENV_PYTHONSAFEPATH": "1",
    }
    if gpu:
        ours["APPTAINER_NV"] = "1"
    return {**ours, **{name.replace("APPTAINER", "SINGULARITY"): value for name, value in ours.items()}}


def enter_command(program: str, image: str, place: Path, folders: Iterable[Path], gpu: bool) -> list[str]:
    """Return the words in front of a command that run it in an image, in the folder `place`; it sees these `folders`, too.

    With `gpu` the driver's libraries are there. Raises :class:`SpeedproofError` where Apptainer cannot bind a folder.
    """
    seen = _outermost([place, *folders])
    if unbound := next((folder for folder in seen if {",", ":"} & set(str(folder))), None):
        raise SpeedproofError(f"{unbound}: an image cannot see a path with ',' or ':'; move or rename what lies there")
    bound = ",".join(map(str, seen))
    return [program, "exec", *(["--nv"] if gpu else []), f"--bind={bound}", f"--pwd={place}", image]


def sees_gpu() -> bool:
    """Return whether this machine has an NVIDIA driver with a GPU; cheap, and asks no GPU."""
    return Path("/dev/nvidiactl").exists() or shutil.which("nvidia-smi") is not None


def _nearest_existing(folder: Path) -> Path:
    """Return a folder, or where it does not exist yet, the nearest one above it that does."""
    folder = folder.absolute()
    return folder if folder.is_dir() else _nearest_existing(folder.parent)


def _outermost(folders: Iterable[Path]) -> list[Path]:
    """Return the folders that lie in no other of them, sorted; never the root, which a container has of its own."""
    found = sorted(set(folders) - {Path("/")})
    return [folder for folder in found if not any(other in folder.parents for other in found)]
