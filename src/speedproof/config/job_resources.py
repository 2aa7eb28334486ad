"""The configuration of jobs: what they ask of a cluster, and the image that they run in."""

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
        "nvcr.io/nvidia/pytorch:25.12-py3", description="What is built upon: an address with its tag or digest, or a .sif file"
    )
    folder: ImageAddress = Field("container", description="Where a built or fetched image is kept")
    scratch: Folder | None = Field(None, description="Local disk to build on; null: $TMPDIR, else the system's")
    scratch_gib: Natural = Field(60, le=1_000_000, description="Free space that a build needs there")


class JobResources(Model):
    """What a job asks Slurm for."""

    gpus: Natural = Field(0, le=1024, description="GPUs of the node")
    gpu_model: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.]+$")] | None = Field(
        None, description="The cluster's name for the GPU; null: any"
    )
    cores: Positive = Field(1, le=100_000, description="Processor cores")
    memory_mib: Positive = Field(4096, le=2**30, description="Main memory")
    runtime_min: Positive = Field(30, le=60 * 24 * 366, description="Time limit")


class Resources(Model):
    """What each kind of job asks Slurm for; without Slurm an experiment takes all cores. A wider variant raises `gpus`."""

    renamed: ClassVar[dict[str, str]] = older.CONFIG_KEYS["resources"]

    experiment: JobResources = JobResources(gpus=1, cores=16, memory_mib=65536, runtime_min=240)
    analysis: JobResources = JobResources(cores=2, memory_mib=16384, runtime_min=60)
    scratch: Folder | None = Field(
        None,
        description="Folder on the node's own disk, or a variable such as `$TMPDIR`: volumes are copied there first, and "
        "profiles written there; null: neither",
    )

    @field_validator("scratch")
    @classmethod
    def _scratch_names_variables_at_most(cls, value: str | None) -> str | None:
        if value is not None and not (value and Template(value).is_valid()):
            raise ValueError("must be a folder's path; a `$` begins the name of a variable, as in $TMPDIR/mine")
        return value

    def doctor(self) -> JobResources:
        """Return a short job on the GPU that experiments ask for."""
        return self.experiment.model_copy(update={"runtime_min": min(10, self.experiment.runtime_min)})
