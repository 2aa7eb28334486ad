"""`python -m speedproof_spleen.training.compile_kernels REQUEST PROCESSES`: the program that :mod:`compiling` starts.

It computes nothing on the GPU: kernels are collected from calls on the CPU, for the GPU's kind, and its forks compile them.
"""

import json
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context

from speedproof.api import end_with_parent, find_compute_capability, list_gpu_uuids
from speedproof_spleen.config import Workload
from speedproof_spleen.training.compiling import COMPILED
from speedproof_spleen.variant import SpleenVariant

_KERNELS: list[Callable[[], object]] = []  # of this process, for its forks


def collect(case: str, workload: Workload, variant: SpleenVariant) -> list[Callable[[], object]]:
    """Return what compiles the kernels of a variant to Triton's folder, for the GPU that Triton's driver names."""
    import torch

    from speedproof_accelerate.kernels.precompile import collect_compilations
    from speedproof_spleen.segmentation import build_case
    from speedproof_spleen.training.rehearsal import list_kernel_tasks, pass_both_ways
    from speedproof_spleen.training.techniques import build_precision, image_precision

    torch.set_num_threads(1)  # forks would wait for other threads
    gpu, cpu = torch.device("cuda"), torch.device("cpu")
    network = build_case(case, workload, variant, cpu).network()
    kind = image_precision(variant, gpu)
    tasks = list_kernel_tasks(variant, network, build_precision(variant, gpu).half or kind, cpu, kind)
    return collect_compilations(partial(pass_both_ways, task) for task in tasks)


def compile_all(kernels: Sequence[Callable[[], object]], processes: int) -> None:
    """Compile kernels, and what launches them, by so many forks."""
    _KERNELS[:] = kernels
    with ProcessPoolExecutor(min(processes, len(kernels)), get_context("fork"), end_with_parent) as forks:
        list(forks.map(_compile, range(len(kernels))))


def _compile(number: int) -> None:
    _KERNELS[number]()


def main() -> None:
    """Compile what the request asks for, if there is an NVIDIA GPU."""
    end_with_parent()
    request = json.loads(sys.argv[1])
    if not list_gpu_uuids():  # before torch is imported
        return
    workload, variant = Workload.model_validate(request["workload"]), SpleenVariant.model_validate(request["variant"])
    import torch

    from speedproof_accelerate.kernels.known_gpu import know_gpu, make_helper

    if torch.version.cuda is None:  # the run will use the processor
        return
    know_gpu(find_compute_capability() or torch.cuda.get_device_capability())  # NVML may not know a part of a GPU
    from speedproof_accelerate.kernels.precompile import begin_digest  # only now: it asks torch for the GPU

    begin_digest()
    compile_all([make_helper, *collect(request["case"], workload, variant)], int(sys.argv[2]))  # the run needs it first
    print(COMPILED, flush=True)


if __name__ == "__main__":
    main()
