"""Compiles a variant's kernels by forks, for a GPU that is not there, and then asks for them as a run does.

Prints, as JSON, how many kernels the forks compiled, and whether the run finds each on disk.
"""

import json
import sys
from functools import partial

import torch
from triton import knobs

from workloads.accelerate.tests.absent_gpu import pretend_gpu


class Launcher:
    """What launches a kernel: nothing does."""

    def __init__(self, source, metadata):
        pass


pretend_gpu(Launcher)

from speedproof_accelerate.kernels.precompile import collect_kernels  # noqa: E402
from speedproof_spleen.config import Workload  # noqa: E402
from speedproof_spleen.segmentation.unet import ResidualUNet  # noqa: E402
from speedproof_spleen.training import compile_kernels, rehearsal  # noqa: E402
from speedproof_spleen.variant import SpleenVariant  # noqa: E402

variant = SpleenVariant.model_validate_json(sys.argv[1])
ahead = compile_kernels.collect("spleen", Workload(), variant)
compile_kernels.compile_all(ahead, 2)
network, half = ResidualUNet(1, 2, variant.network.channels), torch.float16
tasks = rehearsal.list_kernel_tasks(variant, network, half, torch.device("cpu"), half)
found = []
knobs.compilation.listener = lambda cache_hit, **_: found.append(cache_hit)
for make in collect_kernels(partial(rehearsal.pass_both_ways, task) for task in tasks):
    make()
print(json.dumps({"ahead": len(ahead), "found": found}))
