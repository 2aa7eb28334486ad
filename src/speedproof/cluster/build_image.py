"""Making the image: built or fetched on local disk, moved to its place whole, and its digest written beside the results."""

import logging
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from speedproof.cluster.apptainer import build_command, build_environment, find_apptainer, pull_command
from speedproof.config.job_resources import Container
from speedproof.results.files import replacing, sha256_of, write_json
from speedproof.results.image import ImageRecord
from speedproof.util.errors import SpeedproofError
from speedproof.util.temporary_folder import own_folder
from speedproof.util.units import GIB, MIB

log = logging.getLogger("speedproof")

IMAGE_FILE = "speedproof.sif"


def image_path(container: Container) -> Path:
    """Return the file that jobs run in: the one that was given, or where a built or fetched one is kept."""
    if container.image and is_given(container):
        return Path(container.image)
    return Path(container.folder, IMAGE_FILE)


def image_record_path(container: Container) -> Path:
    """Return where the digest of that image is kept: a small file, so that content and not time decides reruns."""
    return Path(container.folder, image_path(container).name).with_suffix(".json")


def is_given(container: Container) -> bool:
    """Return whether the image is a file that is there already, neither built nor fetched."""
    return container.image is not None and "://" not in container.image


def make_image(container: Container, definition: Path, image: Path) -> None:
    """Build the image from the folder `definition`, or fetch it, on local disk; then move it to its place.

    Raises:
        SpeedproofError: Apptainer is missing, the disk is too full, or the build failed.
    """
    program = find_apptainer()
    scratch = Path(container.scratch or tempfile.gettempdir()).absolute()
    require_space(scratch, container.scratch_gib)
    with own_folder(scratch, "speedproof-image-") as folder, replacing(image.absolute()) as whole:
        environment = build_environment(os.environ, folder)
        for name in ("build", "cache"):
            (folder / name).mkdir()
        made = folder / IMAGE_FILE
        if container.image:
            _run(pull_command(program, container.image, made), definition, environment)
        else:
            _run(build_command(program, container.base, made), definition, environment)
        shutil.copyfile(made, whole)


def record_image(source: str, image: Path, record: Path) -> ImageRecord:
    described = ImageRecord(source=source, digest=f"sha256:{sha256_of(image)}", size_mib=round(image.stat().st_size / MIB))
    write_json(record, described)
    return described


def require_space(folder: Path, needed_gib: float) -> None:
    """Raise :class:`SpeedproofError` where less than `needed_gib` is free on the disk of `folder`."""
    if not folder.is_dir():
        raise SpeedproofError(f"container.scratch: {folder}: no such folder; name one on local disk")
    free_gib = shutil.disk_usage(folder).free / GIB
    if free_gib < needed_gib:
        raise SpeedproofError(
            f"{folder}: {free_gib:.0f} GiB free, an image needs {needed_gib:.0f} GiB to be built; "
            "set container.scratch to a larger local disk, or container.image to a finished image"
        )


def _run(command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> None:
    """Run a build and say what it says; the first fatal line of a failed one is its cause."""
    said: list[str] = []
    with subprocess.Popen(
        command,
        cwd=folder,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            log.info("%s", line.rstrip())
            said.append(line.strip())
    if process.returncode != 0:
        fatal = [line.removeprefix("FATAL:").strip() for line in said if line.startswith("FATAL:")]
        cause = (fatal or said[-1:] or ["it said nothing"])[0]
        raise SpeedproofError(
            f"{' '.join(command[:2])} failed: {cause}; if this machine may not build or has no "
            "internet, make the image elsewhere and set container.image to the file"
        )
