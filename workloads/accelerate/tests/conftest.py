import os
from importlib.util import find_spec

import pytest
import torch

from tests.support import require

# Before anybody imports Triton: without a GPU it interprets kernels.
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"


@pytest.fixture(scope="session")
def interpreted():
    """Kernels run, by Triton's interpreter where there is no GPU."""
    require("triton", find_spec("triton") is not None, "triton is not installed")
    if not torch.cuda.is_available():
        from workloads.spleen.tests.training.conftest import patch_language_once

        patch_language_once()
