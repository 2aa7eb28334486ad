"""`accelerate(network)`: replace parts of a network by faster, equivalent ones, and report what was replaced, and why not."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from time import perf_counter
from typing import Any, cast

import torch
from torch import Tensor, nn

from speedproof_accelerate.arrangement import Arrangement, lay_out
from speedproof_accelerate.bias_free import BiasFreeSequence, as_unit, omits_biases, takes_bias_away
from speedproof_accelerate.blocks import ConcatSkip, ConcatUpBlock, ConcatUpCat, ResidualBlock
from speedproof_accelerate.choosing import Chooser, Replace, Replaced
from speedproof_accelerate.decisions import Decisions, find_decisions
from speedproof_accelerate.dynamic_networks import (
    DECODER,
    RESIDUAL_BLOCK,
    ConcatDecoder,
    NormResidualBlock,
    can_fuse_residual,
    find_aliases,
    restore_alias,
)
from speedproof_accelerate.graphing import forget_graphs, graph_training, require_training
from speedproof_accelerate.measuring import Training, compile_kernels, keeping_buffers
from speedproof_accelerate.originals import (
    ACTIVATIONS,
    CONVOLUTIONS,
    KINDS,
    MONAI_CONVOLUTION,
    NORMS,
    POOLS,
    does_nothing,
    find_addition,
    find_difference,
    is_own,
    is_plain_sequence,
    path_of,
)
from speedproof_accelerate.parts import (
    CONV3D_CHANNELS,
    FLOATS,
    HALVES,
    PADDED_CHANNELS,
    POINTWISE_CHANNELS,
    POINTWISE_RESULTS,
    Absorbed,
    FewChannelConvolution,
    NormActivation,
    PaddedConvolution,
    Part,
    PointwiseConvolution,
    WidenedConvolution,
    as_plain,
    find_missing_gpu,
    find_obstacle,
    load,
)
from speedproof_accelerate.report import Entry, Report
from speedproof_accelerate.resampling import Pool, TrilinearUpsample, are_apart
from speedproof_accelerate.residual_unit import RESIDUAL_UNIT, PairedUnit, can_pair

# MONAI's blocks that call one activation behind each of their norms: the activation's name, and the norms'.
_SHARED_ACTIVATIONS = {
    "monai.networks.blocks.dynunet_block.UnetBasicBlock": ("lrelu", ("norm1", "norm2")),
    (_SEGRESNET_BLOCK := "monai.networks.blocks.segresnet_block.ResBlock"): ("act", ("norm1", "norm2")),
}


def accelerate(
    network: nn.Module,
    example: Tensor | None = None,
    precision: torch.dtype | None = torch.float16,
    *,
    compare: bool = True,
    graphs: bool = False,
    remember: bool = True,
) -> Report:
    """Replace parts of a network, in place, by equivalent ones that are faster on an NVIDIA GPU.

    A norm and the dropout and activation after it become one operation, and biases before a norm are not added. Convolutions of
    few channels and trilinear upsampling run as our kernels, and everything is laid out channels last. Parameters stay the same
    tensors under the same names, so optimizers and checkpoints keep working. Modules that no kernel fits stay torch's. So do
    modules that are not exactly torch's own: subclasses, and modules with hooks or parametrizations.

    Args:
        network: any network, on the device where it will train; made for MONAI's UNet, BasicUNet, DynUNet and SegResNet.
        example: a training batch on the network's device; with it, kernels are compiled in parallel, before they are needed.
        precision: of the autocast in which the network will train; None: no autocast.
        compare: with an example, time each part forward and backward at the shapes that it sees, and keep torch's own if it is
            not slower. Without graphs, then time the network: it stays as it was, or channels last, if that is not slower. It
            takes some seconds. `torch.backends.cudnn.benchmark` counts as it is set.
        graphs: launch forward and backward as a CUDA graph each; see :func:`speedproof_accelerate.graphing.graph_training`.
            Ignored without a GPU; the report names the reason.
        remember: keep these times in Triton's cache folder, and use those that are there.

    Raises:
        TypeError: the network is not a module, or contains TorchScript or a DataParallel; or the example is not a tensor.
        ValueError: the precision cannot train, the network rejects the example or is on another device, graphs need an example,
            or the network is not in training mode.
    """
    _check(network, example, precision, graphs)
    device, bound = _find_bound(network)
    if example is not None and example.device != device:
        raise ValueError(f"the example is on {example.device}, the network on {device}; move one of them")
    example = example if example is None else as_plain(example)
    forget_graphs(network)
    report = Report(bound=bound)
    if earlier := sum(isinstance(one, Part) for one in network.modules()):
        report.omitted.append(f"{earlier} parts of an earlier call stay as they are.")
    plain = Arrangement.of(network)

    def replace(left: Mapping[str, str]) -> Replaced:
        plain.install()
        made = _replace(network, precision, left)
        if bound is None:  # without kernels, the memory order stays, too
            lay_out(network)
        return made

    if example is None or bound:
        made = replace({})
    else:
        training = Training(network, example, precision, graphs)
        try:
            made = _replace_fast(training, replace, compare, remember, report)
        except _FailedError as error:
            plain.install()
            _train_plain(training)
            return Report(omitted=[f"Nothing was replaced: with its parts, channels last, the network fails: {error}"])
    if example is not None and compare and (obstacle := bound or find_missing_gpu(device)):
        report.omitted.append(f"Nothing was compared: {obstacle}.")
    report.replaced, report.kept = made.replaced, made.kept
    if example is not None and graphs:
        if missing := find_missing_gpu(device):
            report.omitted.append(f"No graphs were recorded: {missing}.")
        else:
            with _timing(report, "graph"):
                graph_training(network, example, precision)
            report.graphed = True
    return report


@contextmanager
def _timing(report: Report, phase: str) -> Iterator[None]:
    """Add the seconds of a phase to the report."""
    begin = perf_counter()
    yield
    report.phases[phase] = report.phases.get(phase, 0.0) + perf_counter() - begin


def _find_bound(network: nn.Module) -> tuple[torch.device, str | None]:
    """Return the network's device, and why no kernel runs in it; None: kernels run."""
    parameter = next(iter(network.parameters()), None)
    device = torch.device("cpu") if parameter is None else parameter.device
    if parameter is not None and parameter.is_floating_point() and parameter.dtype not in FLOATS:
        return device, f"the network is in {parameter.dtype}"
    return device, find_obstacle(device)


def _replace_fast(training: Training, replace: Replace, compare: bool, remember: bool, report: Report) -> Replaced:
    """Replace what is faster by a kernel, and compile the kernels, but none that is known not to be faster."""
    load("precompile").begin_digest()
    device = training.example.device
    if not compare or find_missing_gpu(device):  # how long interpreted kernels take tells nothing
        made = replace({})
        with _timing(report, "compile"):
            _compile(training)
        return made
    with _timing(report, "measure"), _failing():
        chooser = Chooser(training, replace, find_decisions(device) if remember else Decisions(None))
        recalled = chooser.recall(report)
    with _timing(report, "compile"):
        if recalled is None or recalled.replaced:
            _compile(training, chooser.list_passes() if recalled is None else ())
    with _timing(report, "measure"):
        made = recalled or chooser.measure(report)
        chooser.decisions.write()
    report.remembered = chooser.decisions.read
    return made


def _compile(training: Training, further: Iterable[Callable[[], None]] = ()) -> None:
    with _failing():
        compile_kernels(training, further)


class _FailedError(Exception):
    """A network fails with its parts."""


@contextmanager
def _failing() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        raise _FailedError(_first_line(error)) from error


def _replace(network: nn.Module, precision: torch.dtype | None, left: Mapping[str, str]) -> Replaced:
    """Replace all modules that have a part, but for those that are left to torch for these reasons."""
    aliases = list(find_aliases(network))
    made = _replace_places(network, precision, left)
    for alias in aliases:
        restore_alias(*alias)
    return made


def _replace_places(network: nn.Module, precision: torch.dtype | None, left: Mapping[str, str]) -> Replaced:
    made = Replaced()

    def put(name: str, part: Part, note: str) -> None:
        parent, _, last = name.rpartition(".")
        network.get_submodule(parent).add_module(last, part)
        part.own_because = left.get(name)
        entry = Entry(name, type(part.replaced).__name__, part.own_because or note)
        (made.kept if part.own_because else made.replaced).append(entry)
        made.parts[name] = part

    if type(network) in KINDS:
        made.kept.append(Entry("the network itself", type(network).__name__, "stands in no module"))
    for name, found in _find_places(network):
        if isinstance(found, KINDS) and (difference := find_difference(found)):
            made.kept.append(Entry(name, type(found).__name__, difference))
    followed = {norm: (dropout, activation) for norm, dropout, activation in _find_followed(network)}
    sharers: dict[str | None, set[str]] = {}
    for name, (_, activation) in followed.items():
        sharers.setdefault(activation, set()).add(name)
    sharers.pop(None, None)
    for name, norm in _named(network, NORMS):
        dropout, activation = followed.get(name, (None, None))
        # A norm whose activation others compute, too, is left as a part.
        alone = sharers.get(activation, {name}) <= left.keys()
        reason = _refuse_norm(norm) or (left.get(name) if alone else None)
        if reason:
            made.kept.append(Entry(name, type(norm).__name__, reason))
            continue
        behind = {"dropout": dropout, "activation": activation}
        absorbed: dict[str, Any] = {what: _absorb(network, place) for what, place in behind.items()}
        whats = " and ".join(what for what, place in behind.items() if place is not None)
        put(name, NormActivation(norm, **absorbed), f"with its {whats}" if whats else "alone")
    for unit in list(network.modules()):
        if path_of(unit) == MONAI_CONVOLUTION and takes_bias_away(unit):
            _exchange(network, unit, as_unit(dict(unit.named_children()), unit.training))
        elif omits_biases(unit):
            _exchange(network, unit, BiasFreeSequence(unit))
    for name, module in list(network.named_modules())[1:]:  # the network itself has no parent
        block, note = _find_block(module)
        if block is not None:
            _exchange(network, module, block)
            made.replaced.append(Entry(name, type(module).__name__, note))
        elif note:
            made.kept.append(Entry(name, type(module).__name__, note))
    for name, module in _named(network, (*CONVOLUTIONS, *POOLS, nn.Upsample)):
        part, reason = (None, left[name]) if name in left else _find_part(module, precision)
        if part is None:
            made.kept.append(Entry(name, type(module).__name__, reason))
        else:
            put(name, part, reason)
    return made


def _absorb(network: nn.Module, name: str | None) -> nn.Module | None:
    """Return a module that a norm computes from now on, and leave in its place what does nothing more."""
    if name is None:
        return None
    module = network.get_submodule(name)
    if isinstance(module, Absorbed):
        return cast(nn.Module, module.replaced)
    parent, _, last = name.rpartition(".")
    network.get_submodule(parent).add_module(last, Absorbed(module))
    return module


def _check(network: Any, example: Any, precision: Any, graphs: bool) -> None:
    """Check the arguments."""
    if not isinstance(network, nn.Module):
        raise TypeError(f"the network is {type(network).__name__}, not a torch.nn.Module")
    if any(isinstance(one, torch.jit.ScriptModule) for one in network.modules()):
        raise TypeError("a network of TorchScript has no parts to exchange: accelerate the one that it was made of")
    if any(isinstance(one, nn.DataParallel) for one in network.modules()):
        raise TypeError("DataParallel copies its network in each pass: give that network, and use DistributedDataParallel")
    if example is not None and not isinstance(example, Tensor):
        raise TypeError(f"the example is {type(example).__name__}: give a batch as one tensor")
    if precision not in (None, *HALVES):
        raise ValueError(f"precision is {precision}: give torch.float16, torch.bfloat16, or None for no autocast")
    if graphs and example is None:
        raise ValueError("graphs are recorded of an example; give a batch as `example`")
    if graphs:
        require_training(network)  # before anything is replaced


def _train_plain(training: Training) -> None:
    """Raise an error if the unchanged network rejects the example, too."""
    try:
        with keeping_buffers(training.network):
            training.run()
    except Exception as error:
        raise ValueError(f"the network, which stays as it was, does not take the example: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def _find_places(network: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Yield the modules by the names of their places: one that stands in several, at each."""
    seen = {(id(network), ""), *((id(block), key) for block, key, _ in find_aliases(network))}
    for name, module in network.named_modules(remove_duplicate=False):
        parent, _, key = name.rpartition(".")
        place = (id(network.get_submodule(parent)), key)
        if place not in seen:
            seen.add(place)
            yield name, module


def _named(network: nn.Module, kinds: tuple[type[nn.Module], ...]) -> list[tuple[str, nn.Module]]:
    return [(name, module) for name, module in _find_places(network) if is_own(module, kinds)]


def _find_followed(network: nn.Module) -> Iterator[tuple[str, str | None, str | None]]:
    """Yield each norm's name, and the names of the dropout and the activation that it computes; None: it has none."""
    for name, module in network.named_modules():
        prefix = f"{name}." if name else ""
        if type(module).forward is nn.Sequential.forward:
            children = [(prefix + key, one) for key, one in module._modules.items() if not does_nothing(one)]
            for place, (key, one) in enumerate(children, 1):
                if is_own(one, NORMS):
                    yield key, *_find_followers(children[place:])
        elif path_of(module) in _SHARED_ACTIVATIONS:
            activation, norms = _SHARED_ACTIVATIONS[path_of(module)]
            found = [module.get_submodule(key) for key in norms]
            # Either all of the norms compute it, or none.
            fit = all(is_own(one, NORMS) and _refuse_norm(one) is None for one in found)
            if fit and is_own(module.get_submodule(activation), ACTIVATIONS):
                yield from ((prefix + key, None, prefix + activation) for key in norms)


def _find_followers(behind: list[tuple[str, nn.Module]]) -> tuple[str | None, str | None]:
    """Return the names of a dropout and of an activation that come first among what stands behind a norm; or None."""
    dropout = next((name for name, one in behind[:1] if is_own(one, (nn.Dropout,)) and 0 < cast(Any, one).p < 1), None)
    rest = behind if dropout is None else behind[1:]
    return dropout, next((name for name, one in rest[:1] if is_own(one, ACTIVATIONS)), None)


def _refuse_norm(norm: Any) -> str | None:
    """Return why a norm has no part; None: it has."""
    running = getattr(norm, "running_mean", None) is not None
    if isinstance(norm, nn.modules.instancenorm._InstanceNorm) and (norm.track_running_stats or running):
        return "an instance norm with running statistics has no kernel"
    if isinstance(norm, nn.modules.batchnorm._BatchNorm) and norm.track_running_stats and norm.momentum is None:
        return "a batch norm that averages all batches has no kernel"
    if (norm.weight is None) != (norm.bias is None):
        return "a norm with one of weight and bias has no kernel"
    return None


def _exchange(network: nn.Module, module: nn.Module, other: nn.Module) -> None:
    """Replace a module everywhere: DynUNet names its blocks twice."""
    for parent in list(network.modules()):
        for key, child in list(parent._modules.items()):
            if child is module:
                parent.add_module(key, other)


def _find_block(module: Any) -> tuple[nn.Module | None, str]:
    """Return a block's replacement, and what it does; or None, and, for a known block, why it stays."""
    path, note = path_of(module), "skip connections of volumes concatenated in one pass"
    make: type[ConcatSkip | ConcatUpBlock | ConcatUpCat | ConcatDecoder | NormResidualBlock | PairedUnit | ResidualBlock]
    if path == "monai.networks.layers.simplelayers.SkipConnection" and (module.mode, module.dim) == ("cat", 1):
        make = ConcatSkip
    elif path == "monai.networks.blocks.dynunet_block.UnetUpBlock":
        make = ConcatUpBlock
    elif path == "monai.networks.nets.basic_unet.UpCat":
        make, note = ConcatUpCat, "padded only if sizes differ, concatenated in one pass"
    elif path == DECODER:
        make = ConcatDecoder
    elif path == RESIDUAL_BLOCK and can_fuse_residual(module):
        make, note = NormResidualBlock, "its input added and its result activated in the last norm's pass"
    elif path == _SEGRESNET_BLOCK and isinstance(module.act, Absorbed) and is_plain_sequence(module.conv2):
        make, note = ResidualBlock, "its input added in the passes of others"
    elif path == RESIDUAL_UNIT and can_pair(module):
        make, note = PairedUnit, "both convolutions of its input as one"
    else:
        return None, ""
    addition = find_addition(module)
    return (None, addition) if addition else (make(module), note)


def _find_part(module: Any, precision: torch.dtype | None) -> tuple[Part | None, str]:
    """Return the part for a convolution or an upsampling, and what it does; or None, and why there is none."""
    if isinstance(module, nn.Upsample):
        return _find_upsample(module)
    if isinstance(module, POOLS):
        return _find_pool(module)
    if precision not in HALVES:
        return None, "our kernels of convolutions need half precision"
    if isinstance(module, nn.ConvTranspose2d | nn.ConvTranspose3d) or module.padding_mode != "zeros" or module.groups > 1:
        return None, "cuDNN's own serves it"
    part, note = _find_convolution(module)
    return None if part is None else part(module), note


def _find_upsample(module: Any) -> tuple[Part | None, str]:
    factors = module.scale_factor if isinstance(module.scale_factor, tuple) else (module.scale_factor,)
    doubles = module.mode == "trilinear" and not module.align_corners and set(factors) == {2.0}
    if doubles and not module.recompute_scale_factor:
        return TrilinearUpsample(module), "gathered, forward and backward"
    return None, "the kernel supports only trilinear upsampling by two, without align_corners"


def _find_pool(module: Any) -> tuple[Part | None, str]:
    if are_apart(module):
        return Pool(module), "channels last"
    return None, "the kernels support only averages and maxima of windows beside each other, without padding"


def _find_convolution(module: Any) -> tuple[type[Part] | None, str]:
    """Return the part of a convolution with zero padding and one group, and what it does; or None, and why there is none."""
    inputs, results = module.in_channels, module.out_channels
    undilated = {*module.stride, *module.dilation} == {1}
    plain = undilated and set(module.kernel_size) == {3} and set(module.padding) == {1}
    if plain and inputs == results and results in CONV3D_CHANNELS:
        return FewChannelConvolution, "by a kernel for few channels"
    if plain and inputs < results and inputs < PADDED_CHANNELS and results in CONV3D_CHANNELS:
        return WidenedConvolution, f"its input padded to {results} channels, by a kernel for few"
    single = {*module.kernel_size, *module.stride} == {1} and set(module.padding) == {0}
    if single and results <= POINTWISE_RESULTS and inputs <= POINTWISE_CHANNELS:
        return PointwiseConvolution, "by a kernel for few results"
    if inputs < PADDED_CHANNELS and set(module.kernel_size) != {1}:
        return PaddedConvolution, f"its input padded to {PADDED_CHANNELS} channels"
    return None, "cuDNN's own serves it"
