import math
import os
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import nibabel
import numpy as np
import pytest
import torch

from speedproof_accelerate.kernels.strided_implementations import IMPLEMENTATIONS
from speedproof_spleen.config import load_config
from speedproof_spleen.training.fused_network import FUSED_OPERATIONS, Operations
from tests.support import require
from workloads.spleen.tests.training.kernel_checks import references

ROOT = Path(__file__).parents[4]

# Before anybody imports Triton: without a GPU it interprets kernels.
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"


@pytest.fixture(autouse=True)
def _metadata_is_tracked():
    """Training without metadata turns it off for the whole process, and so for later tests."""
    yield
    if "monai.data" in sys.modules:
        sys.modules["monai.data"].set_track_meta(True)


@pytest.fixture(scope="session")
def full_config():
    """config.yaml: the documented values."""
    return load_config(ROOT / "config.yaml")


@pytest.fixture(scope="session")
def ci_config():
    return load_config(ROOT / "config.yaml", ROOT / "workflow/config/ci.yaml")


@pytest.fixture(scope="session")
def volumes(tmp_path_factory):
    """Five small volumes with a bright ball in noise; their axes are mirrored, as scanners do."""
    folder = tmp_path_factory.mktemp("volumes")
    random = np.random.default_rng(0)
    files = []
    for number in range(5):
        shape = (40, 36, 28)
        centre = random.integers(12, 18, 3)
        grid = np.indices(shape)
        label = (sum((axis - c) ** 2 for axis, c in zip(grid, centre, strict=True)) < 64).astype(np.uint8)
        image = (random.normal(40, 30, shape) + 60 * label).astype(np.int16)
        paths = {"image": str(folder / f"image{number}.nii.gz"), "label": str(folder / f"label{number}.nii.gz")}
        affine = np.diag([-8.0, -8.0, 8.0, 1.0])
        nibabel.save(nibabel.Nifti1Image(image, affine), paths["image"])
        nibabel.save(nibabel.Nifti1Image(label, affine), paths["label"])
        files.append(paths)
    return files


@pytest.fixture(scope="module")
def exact_products():
    """Let the library multiply in full precision, where it takes part: its TF32 has 11 bits."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.backends.cudnn, "allow_tf32", False)
        yield


@pytest.fixture(scope="session")
def compiled(request):
    """Where compiled kernels are kept for the next time, by a digest of all that they are made of, as Triton does."""
    return os.environ.get("SPEEDPROOF_COMPILED") or str(request.config.cache.mkdir("triton"))


@pytest.fixture(scope="module")
def modules():
    """The modules of kernels: imported only where Triton is there."""
    require("triton", find_spec("triton") is not None, "triton is not installed")
    names = (*FUSED_OPERATIONS, *(one.module for one in IMPLEMENTATIONS), "weight_matrices", "dice_ce_loss", "random_crop")
    found = SimpleNamespace(**{name: import_module(f"speedproof_accelerate.kernels.{name}") for name in names})
    if not torch.cuda.is_available():
        quicken_interpreter()
    return found


def quicken_interpreter():
    """Interpret fewer and larger programs, which cost more than what they compute, and take less of Triton's time for each."""
    from speedproof_accelerate.kernels import batch_norm_prelu, weight_matrices

    weight_matrices._SPREAD, weight_matrices._SUMMED, weight_matrices._GATHERED = 8192, 8192, 8192
    weight_matrices._MATRICES, weight_matrices._SHARES = 8, 4
    batch_norm_prelu._SLOTS = 16
    patch_language_once()


def patch_language_once():
    """Have a function that interpreted kernels call replace the language's functions once, and not anew in each call.

    To look for them takes a third of a kernel's time. A kernel itself replaces them, and puts them back when it ends.
    """
    from triton.runtime import interpreter
    from triton.runtime.interpreter import InterpretedFunction

    patch, patched = InterpretedFunction.__call__, set()

    def patch_attribute(place, name, function, _builder, scope):
        plain = getattr(function, "__wrapped__", function)  # without its question whether it is called by a kernel

        def call_with_semantic(*args, **kwargs):
            kwargs["_semantic"] = interpreter.interpreter_semantic
            return plain(*args, **kwargs)

        scope.set_attr(place, name, call_with_semantic)

    def call(function, *args, **kwargs):
        if function.fn in patched:
            return function.rewrite()(*args, **kwargs)
        patched.add(function.fn)
        return patch(function, *args, **kwargs)

    if not patch.__module__.startswith("workloads"):
        InterpretedFunction.__call__, interpreter._patch_attr = call, patch_attribute
        remember_types()
        remember_operands()
        check_overflow_at_once()


def remember_types():
    """Have interpreted kernels make each type, and the sizes of tensors, once: in each operation anew they take much time."""
    from triton.language import core
    from triton.runtime import interpreter

    find_type, make_block, types, blocks, sizes = interpreter._get_np_dtype, core.block_type.__init__, {}, {}, {}

    def numpy_type(kind):
        kind = kind.element_ty if isinstance(kind, core.block_type) else kind
        return types.get(kind.name) or types.setdefault(kind.name, find_type(kind))

    def init_block(self, element_ty, shape):
        key = element_ty.name, getattr(element_ty, "address_space", None), tuple(shape)
        if key not in blocks:
            make_block(self, element_ty, shape)
            blocks[key] = dict(vars(self))
        vars(self).update(blocks[key])

    def init_tensor(self, handle, type):
        shape = tuple(type.shape) if type.is_block() else ()
        if shape not in sizes:
            sizes[shape] = core.constexpr(math.prod(shape)), core.tuple([core.constexpr(side) for side in shape])
        self.handle, self.type, self.dtype = handle, type, type.scalar
        self.numel, self.shape = sizes[shape]

    core.block_type.__init__, core.tensor.__init__ = init_block, init_tensor
    interpreter._get_np_dtype = numpy_type


def remember_operands():
    """Have operands' types checked, and their shapes matched, once for equal ones: anew, that takes a third of a kernel's time.

    Numbers become the same constants again. What has to be cast is left to Triton.
    """
    from triton.language.core import tensor
    from triton.language.semantic import TritonSemantic
    from triton.runtime.interpreter import TensorHandle

    def broadcast(values, shape):
        if not values.flags.c_contiguous:
            return np.broadcast_to(values, shape)
        sizes = (1,) * (len(shape) - values.ndim) + values.shape
        strides = (0,) * (len(shape) - values.ndim) + values.strides
        strides = tuple(stride if size > 1 else 0 for size, stride in zip(sizes, strides, strict=True))
        return np.ndarray(shape, values.dtype, values, 0, strides)  # np.broadcast_to takes ten times as long

    def describe(operand):
        return operand.type.name if isinstance(operand, tensor) else (type(operand), repr(operand))

    def find_change(operand, result):
        """Return None for an operand that stays, what a number becomes, or the type and shape that a tensor is broadcast to."""
        changed = isinstance(operand, tensor) and result is not operand
        return (result.type, tuple(side.value for side in result.shape)) if changed else None if result is operand else result

    def change(operand, how):
        if isinstance(how, tuple):
            kind, shape = how
            return tensor(TensorHandle(broadcast(operand.handle.data, shape), operand.handle.dtype), kind)
        return operand if how is None else how

    def remember(match):
        known = {}

        def call(self, lhs, rhs, *flags, **options):
            key = describe(lhs), describe(rhs), flags, *options.items()
            if key in known:
                left, right = known[key]
                return change(lhs, left), change(rhs, right)
            results = match(self, lhs, rhs, *flags, **options)
            pairs = list(zip((lhs, rhs), results, strict=True))
            if all(one.dtype == other.dtype for one, other in pairs if isinstance(one, tensor)):
                known[key] = [find_change(*pair) for pair in pairs]
            return results

        return call

    for name in ("binary_op_type_checking_impl", "broadcast_impl_value"):
        setattr(TritonSemantic, name, remember(getattr(TritonSemantic, name)))


def check_overflow_at_once():
    """Have NumPy check each sum and product of integers. The interpreter's own check takes a quarter of a kernel's time."""
    from triton.language.semantic import TritonSemantic

    exact, bounds = {"add": np.add, "sub": np.subtract, "mul": np.multiply}, {}

    def check(self, lhs, rhs, binary_op):
        kind = lhs.dtype
        assert kind.name == rhs.dtype.name and kind.is_int()
        if kind.int_bitwidth < 64:
            low, high = bounds.get(kind.name) or bounds.setdefault(
                kind.name, (kind.get_int_min_value(), kind.get_int_max_value())
            )
            found = exact[binary_op.__name__](lhs.handle.data, rhs.handle.data, dtype=np.int64)
            fits = low <= found.min() and found.max() <= high
            assert fits, f"int{kind.int_bitwidth} overflow detected for operation {binary_op.__name__}"

    TritonSemantic.binary_op_sanitize_overflow_impl = check


@pytest.fixture(scope="module")
def kernels(modules):
    return Operations.of(*(getattr(modules, name) for name in FUSED_OPERATIONS))


@pytest.fixture(params=["references", "kernels"])
def operations(request):
    return references if request.param == "references" else request.getfixturevalue("kernels")
