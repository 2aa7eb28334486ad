"""Compiles a variant's kernels by forks, for a GPU that is not there, and then asks for them as a run does.

Prints, as JSON, how many compilations the forks did; whether the run finds each kernel on disk; the launchers that the forks
made, and those that the run asks for; and the options of launches.
"""

import json
import sys
from functools import partial
from pathlib import Path

import torch
from triton import knobs
from triton.backends.nvidia.driver import ty_to_cpp
from triton.runtime import driver

from speedproof_accelerate.kernels.known_gpu import know_gpu
from workloads.accelerate.tests.absent_gpu import pretend_gpu

MADE = Path(knobs.cache.dir, "launchers.txt")  # forks write there


class Launcher:
    """What launches a kernel: nothing does. It notes its types, of which Triton up to 3.6 makes a program in C."""

    def __init__(self, source, metadata):
        types = [kind if kind == "constexpr" else ty_to_cpp(kind) for kind in source.signature.values()]
        with MADE.open("a", encoding="utf-8") as file:
            file.write(" ".join(types) + "\n")
        self.size = metadata.global_scratch_size


def read_launchers():
    lines = MADE.read_text(encoding="utf-8").splitlines()
    MADE.unlink()
    return lines


know_gpu((9, 0))
driver.active.launcher_cls = Launcher

from speedproof_accelerate.kernels.launch import LAUNCH  # noqa: E402
from speedproof_accelerate.kernels.precompile import collect_kernels  # noqa: E402
from speedproof_spleen.config import Workload  # noqa: E402
from speedproof_spleen.segmentation.unet import ResidualUNet  # noqa: E402
from speedproof_spleen.training import compile_kernels, rehearsal  # noqa: E402
from speedproof_spleen.variant import SpleenVariant  # noqa: E402

variant = SpleenVariant.model_validate_json(sys.argv[1])
ahead = compile_kernels.collect("spleen", Workload(), variant)
compile_kernels.compile_all(ahead, 2)
launchers = read_launchers()
pretend_gpu(Launcher)
network, half = ResidualUNet(1, 2, variant.network.channels), torch.float16
tasks = rehearsal.list_kernel_tasks(variant, network, half, torch.device("cpu"), half)
found = []
knobs.compilation.listener = lambda cache_hit, **_: found.append(cache_hit)
for make in collect_kernels(partial(rehearsal.pass_both_ways, task) for task in tasks):
    make()
made = {"ahead": len(ahead), "found": found, "launchers": launchers, "asked": read_launchers()}
print(json.dumps(made | {"overlap": LAUNCH}))
