"""A network's forward and backward pass in training, each launched as one CUDA graph."""

import torch
from torch import Tensor, nn

from speedproof_accelerate.measuring import keeping_buffers


def graph_training(network: nn.Module, example: Tensor, precision: torch.dtype | None) -> None:
    """Record what the network does with batches of the example's shape in training; from then on it is launched as a whole.

    In training it takes no batches of other shapes then; in evaluation, any. Weights and buffers stay where they are: load a
    state into them, and let the optimizer write them in place, as torch's do. Buffers are afterwards what they were.

    Args:
        network: in training, without hooks, on a GPU.
        example: shape (items, channels, …); its values do not matter.
        precision: that of the autocast in which it trains; None: none.

    Raises:
        ValueError: the network is not in training, or the example not on a GPU.
    """
    if not network.training:
        raise ValueError("graphs are recorded of a network in training; call its train() first")
    if not example.is_cuda:
        raise ValueError(f"graphs are recorded on a GPU; the example is on {example.device}")
    # Autocast keeps no copies of weights between passes: a graph would find those of its recording.
    autocast = torch.autocast("cuda", dtype=precision, enabled=precision is not None, cache_enabled=False)
    with keeping_buffers(network), autocast:
        torch.cuda.make_graphed_callables(network, (example.detach().clone(),), allow_unused_input=True)
