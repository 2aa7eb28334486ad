import os
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec

import pytest
import torch

from tests.support import require

# Without a GPU Triton interprets kernels. It decides that as it is imported: here, before a test hides the variable.
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"
    with suppress(ModuleNotFoundError):
        import_module("triton.language")


@pytest.fixture(scope="session")
def interpreted():
    """Kernels run, by Triton's interpreter where there is no GPU."""
    require("triton", find_spec("triton") is not None, "triton is not installed")
    if not torch.cuda.is_available():
        from workloads.spleen.tests.training.conftest import quicken_interpreter

        quicken_interpreter()


@pytest.fixture
def no_gpu(monkeypatch):
    """As on a machine without a GPU, where nothing interprets kernels either."""
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr("speedproof_accelerate.parts._sees_gpu", lambda: False)


@pytest.fixture
def full_products(monkeypatch):
    """A GPU multiplies in full single precision."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
