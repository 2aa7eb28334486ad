from types import SimpleNamespace

import pynvml
import torch

from speedproof_spleen.training import conditions


def test_a_gpu_that_nvml_does_not_describe_is_no_processor(monkeypatch):
    def missing():
        raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    about = SimpleNamespace(name="NVIDIA H200", uuid="aaaa-1111", total_memory=141 << 30)
    monkeypatch.setattr(pynvml, "nvmlInit", missing)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: about)
    dataset = SimpleNamespace(digest="d", name="n", version="1", synthetic=True)
    described = conditions.describe_conditions(torch.device("cuda", 0), dataset)
    assert described.device_name() == "NVIDIA H200"
    assert (described.gpu.uuid, described.gpu.memory_mib, described.gpu.driver) == ("GPU-aaaa-1111", 141 << 10, "unknown")
