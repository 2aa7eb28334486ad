"""What a rehearsal compiles, for a GPU that is not there: a driver that knows one, loads nothing and launches nothing.

Prints, as JSON, how often each kernel was compiled: when all were made ready, and by the same calls afterwards; and which of
these calls were launched; how often Triton digested itself; whether torch's own compiler was imported; and by which key Triton
finds each kernel on disk, also if the last is asked first.
"""

import json
import os
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import torch
from triton import knobs
from triton.runtime.cache import triton_key

from workloads.accelerate.tests.absent_gpu import pretend_gpu

LAUNCHED: Counter[str] = Counter()


class Launcher:
    """What launches a kernel: it counts."""

    def __init__(self, source, metadata):
        self.name = metadata.name

    def __call__(self, *_):
        LAUNCHED[self.name] += 1


def count_compiled(calls):
    """Return how often each kernel is compiled by calls, each in a thread of its own."""
    compiled = Counter()
    knobs.compilation.listener = lambda src, **_: compiled.update([src.name])
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda call: call(), calls))
    return compiled


def ask_keys(functions):
    """Return the key of each kernel, asked in this order, by a fork: here none was asked for."""
    come, go = os.pipe()
    if os.fork() == 0:
        os.write(go, json.dumps({one.__name__: one.cache_key for one in functions}).encode())
        os._exit(0)
    os.close(go)
    os.wait()
    with os.fdopen(come, encoding="utf-8") as file:
        return json.load(file)


pretend_gpu(Launcher)

from speedproof_accelerate.kernels.precompile import collect_kernels  # noqa: E402
from speedproof_spleen.segmentation.unet import ResidualUNet  # noqa: E402
from speedproof_spleen.training import rehearsal  # noqa: E402
from speedproof_spleen.variant import SpleenVariant  # noqa: E402

variant = SpleenVariant.model_validate_json(sys.argv[1])
tasks = rehearsal.list_kernel_tasks(variant, ResidualUNet(1, 2, variant.network.channels), torch.float16, torch.device("cpu"))
calls = [partial(rehearsal.pass_both_ways, task) for task in tasks]
noted = collect_kernels(calls)
keys = [ask_keys(functions) for functions in ([one.args[0] for one in noted], [one.args[0] for one in reversed(noted)])]
before = dict(LAUNCHED)
ready = count_compiled(noted)
after, compiler = count_compiled(calls), "torch._dynamo" in sys.modules
found = {"noted": len(noted), "before": before, "ready": ready, "after": after, "launched": LAUNCHED, "dynamo": compiler}
print(json.dumps(found | {"digests": triton_key.cache_info().misses, "keys": keys}))
