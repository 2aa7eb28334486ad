"""How much arithmetic and how much traffic a training step cannot do without: counted, not measured."""

import copy

import torch
from torch import Tensor, nn

from speedproof.api import Work

# Convolutions are where a step's traffic starts: what stands between two of them can be fused into either.
_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
# Forward: read the input, write the output. Backward: the gradient of the data reads that of the output and writes that of
# the input; the gradient of the weights reads that of the output, and the input.
_PASSES = 3
_HALF_BYTES = 2
_FOLLOWED = 2  # patches: of one, a small patch leaves batch norm a single value per channel, which it refuses


def count_work(network: nn.Module, patch_size: tuple[int, ...], patches: int) -> Work:
    """Return the least work of training `patches` patches of one channel.

    FLOP are those of forward and backward as torch counts them (a multiplication and an addition are two). Bytes are those of
    each convolution's input and output in half precision, :data:`_PASSES` times; weights, and all that could be fused into a
    convolution, are free: a bound from below. Nothing is computed: the network is followed on torch's `meta` device.
    """
    from torch.utils.flop_counter import FlopCounterMode  # brings Triton, which nobody should wait for before training

    followed = copy.deepcopy(network).to("meta").train()
    moved: list[int] = []

    def count_traffic(_module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        moved.append(inputs[0].numel() + output.numel())

    for module in followed.modules():
        if isinstance(module, _CONVOLUTIONS):
            module.register_forward_hook(count_traffic)
    with FlopCounterMode(display=False) as counter:
        followed(torch.empty((_FOLLOWED, 1, *patch_size), device="meta")).sum().backward()
    return Work(
        flop_per_epoch=float(counter.get_total_flops() // _FOLLOWED * patches),
        bytes_per_epoch=float(sum(moved) // _FOLLOWED * _PASSES * _HALF_BYTES * patches),
    )
