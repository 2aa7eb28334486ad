"""Gradients of weights, computed on a second stream while a backward pass is recorded.

Nothing in a backward pass waits for the gradients of weights, and many kernels are too small to fill a GPU. In a recorded pass,
both streams are branches of the graph, whose kernels run at the same time.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from math import inf
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode_stack
from torch.utils._pytree import tree_leaves

_Made = TypeVar("_Made")


class SecondStream(TorchDispatchMode):
    """Computes gradients of weights on a second stream while it is active. At its end, the first stream waits for them.

    They are those of torch's convolutions, and of kernels that call :func:`compute_beside`. Operations of torch that read such
    a gradient are computed on the second stream, too.

    The first stream must not reuse memory that the second one still reads, so it is kept until the first one waits. In a trial,
    recordings of five networks reserved up to 26 % more. A chain of convolutions and activations may need 50 % more.

    The first stream also waits if it is about to change what the second one reads, or if too much is kept.
    """

    def __init__(self, first: Any, second: Any, most: float = inf) -> None:
        """Take the stream of the pass, an idle one of the same GPU, and about how many bytes may be kept."""
        super().__init__()
        self._first, self._second, self._most = first, second, most
        # What the second stream has written and read since the first one last waited, by address. Storages are kept, not
        # tensors, because autograd copies a gradient that others hold.
        self._written: dict[int, torch.UntypedStorage] = {}
        self._read: dict[int, torch.UntypedStorage] = {}
        self._kept: list[torch.UntypedStorage] = []
        self._computes = False

    def __exit__(self, *error: Any) -> None:
        """Let the first stream wait."""
        super().__exit__(*error)
        with suppress(*[RuntimeError] if any(error) else []):  # a failure may have ended the recording
            if self._read or self._written:
                self.join()
        self._kept.clear()

    def dispatch(self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        """Compute an operation of torch, on the second stream if it is part of a gradient of weights."""
        if any(one.__torch_dispatch__ is not Tensor.__torch_dispatch__ for one in types):  # a subclass takes it apart first
            return NotImplemented
        named = kwargs or {}
        compute = partial(function, *args, **named)
        if self._computes:
            return compute()
        read = _find_tensors((args, named))
        changed = _find_changed(function, args, named)
        if self.has_written(read):
            return self.compute(compute, read, changed)
        if function is torch.ops.aten.convolution_backward.default and args[-1][1]:
            *given, (of_input, _, of_bias) = args
            _, weight, bias = self.compute(partial(function, *given, [False, True, of_bias]), read)
            return function(*given, [True, False, False])[0] if of_input else None, weight, bias
        if any(_find_address(one) in self._read for one in changed):
            self.join()
        return compute()

    def compute(self, work: Callable[[], _Made], read: Iterable[Tensor], changed: Iterable[Tensor] = ()) -> _Made:
        """Return what `work` computes on the second stream, where it reads and changes these tensors."""
        storages = {_find_address(one): one.untyped_storage() for one in read if not self.has_written([one])}
        if storages:
            self._second.wait_stream(self._first)
            self._read.update(storages)
        self._computes = True
        try:
            with torch.cuda.stream(self._second):
                made = work()
        finally:
            self._computes = False
        for one in [*_find_tensors(made), *changed]:
            if address := _find_address(one):
                self._written[address] = one.untyped_storage()
        if sum(one.nbytes() for one in self._read.values()) > self._most:
            self.join()
        return made

    def has_written(self, tensors: Iterable[Tensor]) -> bool:
        """Return whether the second stream computes one of these tensors."""
        return any(_find_address(one) in self._written for one in tensors)

    def join(self) -> None:
        """Let the first stream wait for the second. Then it may read and change everything."""
        self._first.wait_stream(self._second)
        self._kept += self._written.values()  # if freed, the second one would use it again while the first one reads it
        self._written.clear()
        self._read.clear()


# Not in the body of the class: there, torch would wrap the method, and import its compiler (1 s) with the first operation.
SecondStream.__torch_dispatch__ = SecondStream.dispatch  # type: ignore[method-assign, assignment]


def beside(outs: Iterable[Tensor], first: Any, second: Any) -> AbstractContextManager[object]:
    """Return a context that gives the backward pass of these results a second stream.

    It does nothing if a function of the pass is neither torch's nor ours. Such a function may read a gradient of weights in a
    kernel that torch does not know, before the second stream has written it.
    """
    if any(map(_is_foreign, _find_functions(outs))):
        return nullcontext()
    free, _ = torch.cuda.mem_get_info(first.device)
    return SecondStream(first, second, free // 4)


def _find_functions(outs: Iterable[Tensor]) -> Iterator[Any]:
    """Yield the functions of a backward pass."""
    left = [one.grad_fn for one in outs]
    seen = set()
    while left:
        one = left.pop()
        if one is not None and one not in seen:
            seen.add(one)
            left.extend(following for following, _ in one.next_functions)
            yield one


def _is_foreign(function: Any) -> bool:
    """Return whether a function of a backward pass is neither torch's nor ours."""
    own = getattr(type(function), "_forward_cls", None)  # only functions written in Python have it
    # Others' C++ functions, and TorchScript, which fuses operations.
    unknown = any(one in function.name() for one in ("CppNode", "torch::jit"))
    return unknown or (own is not None and own.__module__.partition(".")[0] != __name__.partition(".")[0])


def compute_beside(work: Callable[[], _Made], *read: Tensor) -> _Made:
    """Return what `work` computes from these tensors, on the second stream if one is active."""
    active = _find_active()
    return work() if active is None else active.compute(work, read)


def wait_for_second_stream(read: Iterable[Any]) -> None:
    """Let the first stream wait if the second one computes what a kernel is about to read."""
    active = _find_active()
    if active is not None and active.has_written(one for one in read if isinstance(one, Tensor)):
        active.join()


def _find_active() -> SecondStream | None:
    return next((one for one in _get_current_dispatch_mode_stack() if isinstance(one, SecondStream)), None)


def _find_tensors(values: Any) -> list[Tensor]:
    """Return the tensors in some values; of a sparse one, what it consists of."""
    tensors = [one for one in tree_leaves(values) if isinstance(one, Tensor)]
    pieces = [piece for one in tensors if one.layout == torch.sparse_coo for piece in (one._indices(), one._values())]
    return [one for one in tensors if one.layout == torch.strided] + pieces


def _find_changed(function: Any, args: tuple[Any, ...], named: Mapping[str, Any]) -> list[Tensor]:
    """Return the arguments of an operation that it changes."""
    schema = function._schema
    if not schema.is_mutable:
        return []
    given = {one.name: value for one, value in zip(schema.arguments, args, strict=False)} | {**named}
    return _find_tensors([given.get(one.name) for one in schema.arguments if one.alias_info and one.alias_info.is_write])


def _find_address(one: Tensor) -> int:
    """Return where a tensor's memory begins; 0: it has none."""
    return one.untyped_storage().data_ptr()
