"""A GPU that is not there, for programs that ask what Triton compiles and launches: nothing is loaded, and nothing computed."""

import triton
from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase


class Utilities:
    """What loads kernels: nothing."""

    def load_binary(self, *_):
        return None, None, 0, 0, 1024

    def get_device_properties(self, _):
        return {"max_shared_mem": 227 * 1024}


class Driver(DriverBase):
    """A GPU of compute capability 9.0, of which nothing is there."""

    utils = Utilities()
    is_active = classmethod(lambda cls: True)
    map_python_to_cpp_type = get_active_torch_device = get_benchmarker = None

    def __init__(self, launcher):
        self.launcher_cls = launcher

    def get_current_target(self):
        return GPUTarget("cuda", 90, 32)

    def get_current_device(self):
        return 0

    def get_current_stream(self, _):
        return 0


def pretend_gpu(launcher):
    """Let Triton find this GPU; objects of the class `launcher` are what it calls instead of kernels."""
    triton.runtime.driver.set_active(Driver(launcher))
