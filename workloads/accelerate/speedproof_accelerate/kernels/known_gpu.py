"""Compile for a GPU of NVIDIA without CUDA, which takes half a second to start and which forks cannot ask."""

import os
from typing import Any

import torch
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia import driver as nvidia
from triton.runtime import driver


class _KnownGpu(nvidia.CudaDriver):
    """Triton's driver, of which nothing is loaded."""

    def __init__(self, capability: tuple[int, int]) -> None:
        """Take the compute capability; Triton's own would load CUDA, and compile a helper for it."""
        self._target = GPUTarget("cuda", capability[0] * 10 + capability[1], 32)
        compiles = hasattr(nvidia, "make_launcher")  # from 3.7 on launchers come from the helper
        self.launcher_cls = nvidia.CudaLauncher if compiles else lambda *_: None

    def get_current_target(self) -> GPUTarget:
        return self._target

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, _: Any) -> int:
        return 0


def make_helper() -> None:
    """Compile the helper of Triton's driver to Triton's folder on disk, for processes that load it."""
    nvidia.CudaUtils()


def know_gpu(capability: tuple[int, int]) -> None:
    """Let torch and Triton know the GPU's compute capability in this process and its forks, which then compile for it.

    Call it before kernels are imported: they ask torch.
    """
    os.environ["CUDA_VISIBLE_DEVICES"] = ""  # torch counts GPUs before it computes gradients, and starts a thread for each
    torch.cuda.is_available = lambda: True
    torch.cuda.get_device_capability = lambda *_: capability
    driver.set_active(_KnownGpu(capability))
