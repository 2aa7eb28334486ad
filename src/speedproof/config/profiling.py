"""The configuration of profiled runs."""

import re
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, field_validator, model_validator

from speedproof.config.base import Model, Positive, expand_home
from speedproof.results.names import RunTracerName

CUDA_PROFILER_API = "cudaProfilerApi"


class Profiling(Model):
    """How profiled runs are traced."""

    backend: Literal["auto", RunTracerName] = Field("auto", description="auto: nsys where it is on PATH and works, else kineto")
    nsys: Annotated[str, BeforeValidator(expand_home), Field(min_length=1)] = Field("nsys", description="The nsys program")
    trace: list[Literal["cuda", "nvtx", "osrt", "cudnn", "cublas"]] = Field(
        ["cuda", "nvtx"], description="What nsys traces; osrt makes reports of gigabytes where many threads start"
    )
    gpu_samples_per_s: Positive = Field(10, le=1000, description="NVML samples a second in gpu.csv, in every run")
    capture: Annotated[str, Field(min_length=1, max_length=200)] | None = Field(
        None,
        description="What of a run is traced: epochs, such as 2-3; cudaProfilerApi: while the program says so by CUDA's calls; "
        "else the first NVTX range of that name, `name@domain`. null: all of it",
    )
    gpu_metrics_per_s: int | None = Field(
        None, ge=10, le=200_000, description="Samples a second of the GPU's counters (SMs, tensor cores, memory); null: none"
    )
    memory_usage: bool = Field(False, description="Trace how much memory of the GPU is in use")
    cpu_samples: bool = Field(False, description="Sample what the processors execute, with call stacks")
    python_samples: bool = Field(False, description="Sample which Python functions run, 1000 times a second")
    keep_reports: bool = Field(
        False,
        description="Keep nsys' report and its export of each profiled run, readable for their owner only: they hold the "
        "environments of all processes above it; false: they go once the trace and the statistics are made",
    )

    @field_validator("capture", mode="before")
    @classmethod
    def _one_epoch_may_be_a_number(cls, value: object) -> object:
        return str(value) if isinstance(value, int) and not isinstance(value, bool) else value

    @model_validator(mode="after")
    def _epochs_are_in_order(self) -> "Profiling":
        if (epochs := self.captured_epochs) and not 1 <= epochs[0] <= epochs[1]:
            raise ValueError(f"capture: {self.capture}: epochs count from 1, the first one first, as in 2-3")
        return self

    @model_validator(mode="after")
    def _only_nsys_records_more(self) -> "Profiling":
        further = self.traced[len(self.trace) :]
        if self.backend == "kineto" and further:
            raise ValueError(f"backend: kineto records no {further[0]}; leave it out, or set `backend` to nsys")
        return self

    @property
    def captured_epochs(self) -> tuple[int, int] | None:
        """Return the first and the last epoch that are traced; None where others things, or all, are."""
        named = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", self.capture or "")
        return (int(named[1]), int(named[2] or named[1])) if named else None

    @property
    def traced(self) -> list[str]:
        """Return all that nsys records, in words, as records of runs keep it."""
        switches = {
            f"capture {self.capture}": self.capture is not None,
            f"gpu metrics {self.gpu_metrics_per_s}/s": self.gpu_metrics_per_s is not None,
            "memory usage": self.memory_usage,
            "cpu samples": self.cpu_samples,
            "python samples": self.python_samples,
        }
        return [*self.trace, *(name for name, on in switches.items() if on)]
