"""Compiling a run's kernels in processes of their own, from its beginning: they are on disk when the run needs them.

In the run's own process, compiling would wait for torch, and then for Python's lock.
"""

import json
import logging
import os
import subprocess
import sys

from speedproof.api import available_cores
from speedproof_spleen.config import Workload
from speedproof_spleen.variant import SpleenVariant

log = logging.getLogger("speedproof")

COMPILED = "compiled"  # a line that the process prints
_PROGRAM = "speedproof_spleen.training.compile_kernels"
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}  # others of torch and numpy would spin


class Compiling:
    """Kernels that another process compiles to Triton's folder. If that fails, the run compiles them itself."""

    def __init__(self, process: subprocess.Popen[str] | None = None) -> None:
        """Take the process; None: nothing is compiled ahead."""
        self._process = process

    @property
    def begun(self) -> bool:
        """Return whether kernels are being compiled ahead."""
        return self._process is not None

    def __enter__(self) -> "Compiling":
        return self

    def __exit__(self, *_: object) -> None:
        """Leave no process behind."""
        if self._process:
            self._process.kill()  # its own processes end with it
            self._process.communicate()

    def wait(self) -> None:
        """Return once the process reports that the kernels are compiled. It takes up to a second more to end."""
        if self._process is None or self._process.stdout is None:
            return
        said = ""
        for line in self._process.stdout:
            if line.strip() == COMPILED:
                return
            said += line
        if code := self._process.wait():
            log.warning("kernels were not compiled ahead: %s", " ".join(said.split())[-200:] or f"it ended with status {code}")


def spare_threads(variant: SpleenVariant) -> None:
    """Let numpy start no threads for products of matrices; call it before numpy is imported.

    A run with kernels multiplies only matrices of a few rows by it, for which it uses one thread anyway.
    """
    if variant.kernels:
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def begin_compiling(case: str, workload: Workload, variant: SpleenVariant, device: str) -> Compiling:
    """Begin to compile what a run will surely need: nothing without kernels, or if an earlier run may have left them.

    Of several processes each would compile the same. Under Nsight Systems, processes of a profiled one can hang.
    """
    if not variant.kernels or variant.cache != "resident" or variant.prepared_folder is not None or variant.ranks > 1:
        return Compiling()
    if device == "cpu" or "NSYS_PROFILING_SESSION_ID" in os.environ:
        return Compiling()
    request = {"case": case, "workload": workload.model_dump(mode="json"), "variant": variant.model_dump(mode="json")}
    command = [sys.executable, "-P", "-m", _PROGRAM, json.dumps(request), str(available_cores())]
    folders = os.pathsep.join(one for one in sys.path if isinstance(one, str) and one)  # a program may have added some
    try:
        process = subprocess.Popen(
            command,
            env=os.environ | _ONE_THREAD | {"PYTHONPATH": folders},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
    except (OSError, ValueError) as error:
        log.warning("kernels are not compiled ahead: %s", error)
        return Compiling()
    return Compiling(process)
