"""A network's forward and backward pass in training, each launched as one CUDA graph."""

import torch
from torch import Tensor, nn

from speedproof_accelerate.measuring import keeping_buffers


def graph_training(network: nn.Module, example: Tensor, precision: torch.dtype | None) -> None:
    """Record what the network does in training with batches of the example's shape, and launch it as a whole from then on.

    In training, the network then accepts batches of this shape only; in evaluation, of any shape. Weights and buffers keep
    their addresses: load states into them, and use an optimizer that updates in place, as torch's do. Recording leaves
    buffers unchanged.

    Args:
        network: in training mode, without hooks, on a GPU.
        example: shape (items, channels, …); its values do not matter.
        precision: of the autocast in which it trains. Default: no autocast.

    Raises:
        ValueError: the network is not in training mode, or the example is not on a GPU.
    """
    if not network.training:
        raise ValueError("graphs are recorded of a network in training; call its train() first")
    if not example.is_cuda:
        raise ValueError(f"graphs are recorded on a GPU; the example is on {example.device}")
    # Autocast keeps no copies of weights between passes: a graph would find those of its recording.
    autocast = torch.autocast("cuda", dtype=precision, enabled=precision is not None, cache_enabled=False)
    with keeping_buffers(network), autocast:
        torch.cuda.make_graphed_callables(network, (example.detach().clone(),), allow_unused_input=True)
