"""The configuration of profiled runs."""

import re
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, field_validator, model_validator

from speedproof.config.base import Model, Positive, expand_home
from speedproof.results.names import RunTracerName

CUDA_PROFILER_API = "cudaProfilerApi"


class Profiling(Model):
    """How profiled runs are traced."""

    backend: Literal["auto", RunTracerName] = Field("auto", description="auto: nsys if it is on PATH and works, else kineto")
    nsys: Annotated[str, BeforeValidator(expand_home), Field(min_length=1)] = Field("nsys", description="The nsys program")
    trace: list[Literal["cuda", "nvtx", "osrt", "cudnn", "cublas"]] = Field(
        ["cuda", "nvtx"], description="What nsys traces; with osrt, programs with many threads make reports of gigabytes"
    )
    gpu_samples_per_s: Positive = Field(10, le=1000, description="NVML samples per second in gpu.csv, in every run")
    capture: Annotated[str, Field(min_length=1, max_length=200)] | None = Field(
        None,
        description="Part of a run to trace: epochs, such as 2-3; cudaProfilerApi: between the program's calls; else the first "
        "NVTX range of that name, `name@domain`. null: the whole run",
    )
    gpu_metrics_per_s: int | None = Field(
        None, ge=10, le=200_000, description="Samples per second of the GPU's counters (SMs, tensor cores, memory); null: none"
    )
    memory_usage: bool = Field(False, description="Trace GPU memory usage")
    cpu_samples: bool = Field(False, description="Sample CPU call stacks")
    python_samples: bool = Field(False, description="Sample Python functions, 1000 times per second")
    keep_reports: bool = Field(
        False,
        description="Keep nsys' report and its export of each profiled run, readable by their owner only, since they contain "
        "the environments of all parent processes; false: delete them after conversion",
    )

    @field_validator("capture", mode="before")
    @classmethod
    def _one_epoch_may_be_a_number(cls, value: object) -> object:
        return str(value) if isinstance(value, int) and not isinstance(value, bool) else value

    @model_validator(mode="after")
    def _epochs_are_in_order(self) -> "Profiling":
        if (epochs := self.captured_epochs) and not 1 <= epochs[0] <= epochs[1]:
            raise ValueError(f"capture: {self.capture}: epochs count from 1, and the range must ascend, as in 2-3")
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
