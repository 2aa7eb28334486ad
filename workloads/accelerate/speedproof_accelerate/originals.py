"""Which modules are exactly torch's own, so that a part may replace them."""

from typing import Any, cast

from torch import nn

from speedproof_accelerate.parts import NORM_DIMENSIONS

NORMS = tuple(NORM_DIMENSIONS)
ACTIVATIONS = (nn.ReLU, nn.LeakyReLU, nn.PReLU)
CONVOLUTIONS = (nn.Conv2d, nn.Conv3d, nn.ConvTranspose2d, nn.ConvTranspose3d)
POOLS = (nn.AvgPool2d, nn.AvgPool3d, nn.MaxPool2d, nn.MaxPool3d)
MONAI_CONVOLUTION = "monai.networks.blocks.convolutions.Convolution"
KINDS = (*NORMS, nn.Dropout, *ACTIVATIONS, *CONVOLUTIONS, *POOLS, nn.Upsample)


def path_of(module: nn.Module) -> str:
    """Return the name by which a module's class is imported."""
    return f"{type(module).__module__}.{type(module).__qualname__}"


def is_own(module: nn.Module, kinds: tuple[type[nn.Module], ...]) -> bool:
    """Return whether a module is one of these of torch's, exactly as torch made it."""
    return type(module) in kinds and find_difference(module) is None


def find_difference(module: nn.Module) -> str | None:
    """Return what distinguishes a module from torch's own, which a part can replace; None: nothing does."""
    if module._modules:
        return "has modules of its own"  # parametrizations
    if type(module) not in KINDS:
        return "a subclass of torch's"
    return find_addition(module)


def find_addition(module: nn.Module) -> str | None:
    """Return what was added to a module and would be lost with it; None: nothing was."""
    if any(hooks for name, hooks in vars(module).items() if name.endswith("_hooks")):
        return "has hooks"
    return "has a forward of its own" if "forward" in vars(module) else None


def does_nothing(module: nn.Module) -> bool:
    dropout = type(module) in (nn.Dropout, nn.Dropout2d, nn.Dropout3d) and cast(Any, module).p == 0
    return (dropout or type(module) is nn.Identity) and find_addition(module) is None


def is_plain_sequence(module: nn.Module) -> bool:
    """Return whether calling its modules one after another does all that it does."""
    return type(module).forward is nn.Sequential.forward and find_addition(module) is None
