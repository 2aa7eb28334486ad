"""The configuration of jobs: the resources that they request, and the image that they run in."""

from string import Template
from typing import Annotated, ClassVar

from pydantic import BeforeValidator, Field, field_validator

from speedproof.config.base import Folder, Model, Natural, Positive, expand_home
from speedproof.results import older_versions as older

# Snakemake puts an image's path into a shell command as it is.
ImageAddress = Annotated[str, BeforeValidator(expand_home), Field(pattern=r"^[\w./:@%+=~-]+$")]


class Container(Model):
    """The image that jobs run in with `--use-singularity`; without that switch it is not used."""

    image: ImageAddress | None = Field(None, description="A .sif file or a registry address; null: built from containers/")
    base: ImageAddress = Field(
        "nvcr.io/nvidia/pytorch:25.12-py3", description="Base image: an address with its tag or digest, or a .sif file"
    )
    folder: ImageAddress = Field("container", description="Folder for built and downloaded images")
    scratch: Folder | None = Field(None, description="Local disk to build on; null: $TMPDIR, else the system's")
    scratch_gib: Natural = Field(60, le=1_000_000, description="Free space in GiB that a build requires there")


class JobResources(Model):
    """What a job requests from Slurm."""

    gpus: Natural = Field(0, le=1024, description="GPUs per node")
    gpu_model: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.]+$")] | None = Field(
        None, description="The cluster's name for the GPU; null: any"
    )
    cores: Positive = Field(1, le=100_000, description="CPU cores")
    memory_mib: Positive = Field(4096, le=2**30, description="Main memory in MiB")
    runtime_min: Positive = Field(30, le=60 * 24 * 366, description="Time limit in minutes")


class Resources(Model):
    """What each kind of job requests from Slurm; without Slurm, an experiment uses all cores. Wide variants raise `gpus`."""

    renamed: ClassVar[dict[str, str]] = older.CONFIG_KEYS["resources"]

    experiment: JobResources = JobResources(gpus=1, cores=16, memory_mib=65536, runtime_min=240)
    analysis: JobResources = JobResources(cores=2, memory_mib=16384, runtime_min=60)
    scratch: Folder | None = Field(
        None,
        description="Folder on the node's local disk, or a variable such as `$TMPDIR`, for a copy of the data and profiles; "
        "null: neither",
    )

    @field_validator("scratch")
    @classmethod
    def _scratch_names_variables_at_most(cls, value: str | None) -> str | None:
        if value is not None and not (value and Template(value).is_valid()):
            raise ValueError("must be a folder's path; a `$` begins the name of a variable, as in $TMPDIR/mine")
        return value

    def doctor(self) -> JobResources:
        """Return a short job on the GPU that experiments request."""
        return self.experiment.model_copy(update={"runtime_min": min(10, self.experiment.runtime_min)})
