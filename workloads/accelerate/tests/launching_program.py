"""What launching a kernel takes, for a GPU that is not there: prints, as JSON, what was launched and what Triton was asked.

With `time` it prints how many µs a launch takes on the CPU, by Triton and by ours.
"""

import json
import sys
import time

import torch
import triton
from triton import knobs
from triton.runtime.jit import JITFunction

from workloads.accelerate.tests.absent_gpu import pretend_gpu

LAUNCHED = []


class Launcher:
    """What launches a kernel: it notes which."""

    def __init__(self, source, metadata):
        self.number = metadata.hash

    def __call__(self, x, y, z, stream, function, metadata, launch_metadata, enter, leave, *given):
        LAUNCHED.append([self.number, [x, y, z], [one for one in given if not isinstance(one, torch.Tensor)]])
        if enter is not None:
            enter(launch_metadata)


pretend_gpu(Launcher)

from speedproof_accelerate.kernels.concat_channels import channels_move  # noqa: E402

asked = []
plain = JITFunction.run
JITFunction.run = lambda self, *given, **options: asked.append(1) or plain(self, *given, **options)


def launch(volume, chunks=2, join=True):
    """Launch a kernel, and return its number, how often Triton was asked, and what was given."""
    before = len(asked)
    channels_move[(chunks, 1)](volume, volume, volume, chunks, 8, JOIN=join, CHUNK=8, BLOCK=256)
    number, grid, given = LAUNCHED[-1]
    return {"kernel": number, "asked": len(asked) - before, "grid": grid, "given": given}


volume = torch.empty(64)
found = {"first": launch(volume), "again": launch(volume), "numbers": launch(volume, chunks=3)}
found |= {"constant": launch(volume, join=False), "type": launch(volume.half()), "alignment": launch(volume[1:])}
calls = []
knobs.runtime.launch_enter_hook.add(calls.append)
found |= {"watched": launch(volume), "hooked": len(calls)}
knobs.runtime.launch_enter_hook.remove(calls.append)
knobs.runtime.launch_enter_hook.calls.clear()
if "time" in sys.argv:
    found = {}
    for name, one in (
        ("ours", channels_move),
        ("triton", triton.jit(channels_move.fn, do_not_specialize=["chunks", "channels"])),
    ):
        rounds = []
        for _ in range(12):
            begin = time.perf_counter()
            for _ in range(500):
                one[(2, 1)](volume, volume, volume, 2, 8, JOIN=True, CHUNK=8, BLOCK=256)
            rounds.append((time.perf_counter() - begin) / 500 * 1e6)
            LAUNCHED.clear()
        found[name] = min(rounds)
print(json.dumps(found))
