"""What GPUs can do at most, as their datasheets state it: dense arithmetic without sparsity, memory, and links for copies.

Of each figure: FLOP/s in TFLOP/s, bytes in GB/s. Links count one direction. Sources are the vendor's datasheets and
architecture whitepapers of the named product, as `source` names them.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

# By so much a speed must exceed a datasheet before it is called impossible. Datasheets state peaks at the boost clock, and a
# GPU's highest clock is above that: by 8 % on an H100 (1980 MHz, 1830), by up to 23 % on a GeForce.
BEYOND = 1.25

_TERA, _GIGA = 1e12, 1e9
_PCIE_3, _PCIE_4, _PCIE_5 = 15.8, 31.5, 63.0  # 16 lanes


@dataclass(frozen=True)
class GpuPeaks:
    """The peaks of one product."""

    product: str
    source: str
    half: float  # of float16 and, if the GPU has it, bfloat16, on tensor cores, accumulated in float32
    single: float  # of float32 without tensor cores
    memory: float
    host_link: float  # to the host
    tf32: float | None = None  # of float32 operands on tensor cores
    double: float | None = None
    byte: float | None = None  # of float8 and int8
    fast_half: float | None = None  # accumulated in float16, if that is faster
    gpu_link: float | None = None  # to other GPUs: all NVLinks together
    fast_host_link: float | None = None  # to the host, if a machine can have another link than PCIe
    bfloat: bool = True  # whether `half` is that of bfloat16, too

    @property
    def memory_bytes_per_s(self) -> float:
        return self.memory * _GIGA

    def flop_per_s(self, kind: str, tensor_cores: bool | None = None) -> float | None:
        """Return the peak of a type of number (`float32`, `bfloat16`), of float32 that of TF32 unless known not to be used."""
        peaks = {
            "float16": self.half,
            "bfloat16": self.half if self.bfloat else None,
            "float32": self.single if tensor_cores is False else self.tf32 or self.single,
            "float64": self.double,
            "float8": self.byte,
            "int8": self.byte,
        }
        peak = peaks.get(kind)
        return None if peak is None else peak * _TERA

    def most_flop_per_s(self, kind: str) -> float | None:
        """Return the highest speed that a type can have.

        Of float32 it is that of its tensor cores: convolutions may be transformed to need fewer operations than are counted.
        """
        if kind == "float32":
            return (self.tf32 or self.half) * _TERA
        return self.fast_half * _TERA if kind == "float16" and self.fast_half is not None else self.flop_per_s(kind)

    def copy_bytes_per_s(self, kind: str) -> float | None:
        """Return the most that a copy of a kind (`HtoD`, `DtoH`, `DtoD`, `PtoP`, `memset`) can carry; None: not known."""
        if kind in ("HtoD", "DtoH"):
            return self.host_link * _GIGA
        if kind == "DtoD":
            return self.memory * _GIGA / 2  # each byte is read and written
        if kind == "memset":
            return self.memory * _GIGA
        return self.gpu_link * _GIGA if kind == "PtoP" and self.gpu_link is not None else None

    def most_link_bytes_per_s(self, kind: str) -> float | None:
        """Return the most that a link between memories can carry in a copy of a kind; None: not known, or there is no link."""
        if kind in ("HtoD", "DtoH") and self.fast_host_link is not None:
            return self.fast_host_link * _GIGA
        return self.copy_bytes_per_s(kind) if kind in ("HtoD", "DtoH", "PtoP") else None


_H100 = GpuPeaks("H100 SXM", "NVIDIA H100 datasheet", 989.4, 66.9, 3350, _PCIE_5, 494.7, 66.9, 1978.9, gpu_link=450)
_H100_NVL = GpuPeaks("H100 NVL", "NVIDIA H100 datasheet", 835.5, 60, 3900, _PCIE_5, 417.5, 60, 1671, gpu_link=300)
_A100 = GpuPeaks("A100 40 GB", "NVIDIA A100 datasheet", 312, 19.5, 1555, _PCIE_4, 156, 19.5, 624, gpu_link=300)
_B200 = GpuPeaks("B200", "NVIDIA HGX B200 datasheet", 2250, 80, 8000, _PCIE_5, 1125, 40, 4500, gpu_link=900)
_V100 = GpuPeaks(
    *("V100 SXM2", "NVIDIA V100 datasheet", 125, 15.7, 900, _PCIE_3),
    double=7.8,
    gpu_link=150,
    fast_host_link=75,
    bfloat=False,
)
# By a part of the driver's name; the first that fits.
_PRODUCTS = {
    "GB200": replace(_B200, product="GB200", source="NVIDIA GB200 datasheet", host_link=450),
    "B200": _B200,
    "GH200": replace(_H100, product="GH200", source="NVIDIA GH200 datasheet", memory=4900, host_link=450),
    "H200 NVL": replace(_H100_NVL, product="H200 NVL", source="NVIDIA H200 datasheet", memory=4800, gpu_link=450),
    "H200": replace(_H100, product="H200 SXM", source="NVIDIA H200 datasheet", memory=4800),
    "H100 NVL": _H100_NVL,
    "H100 PCIe": GpuPeaks("H100 PCIe", "NVIDIA H100 datasheet", 756, 51.2, 2039, _PCIE_5, 378, 51.2, 1513, gpu_link=300),
    "H100 80GB HBM3": _H100,
    "A100 80GB PCIe": replace(_A100, product="A100 PCIe 80 GB", memory=1935),
    "A100-SXM4-80GB": replace(_A100, product="A100 SXM 80 GB", memory=2039),
    "A100": _A100,
    "V100S": replace(_V100, product="V100S PCIe", half=130, single=16.4, memory=1134, double=8.2, fast_host_link=None),
    "V100-PCIE": replace(_V100, product="V100 PCIe", half=112, single=14, double=7, gpu_link=None, fast_host_link=None),
    "V100": _V100,
    "L40S": GpuPeaks("L40S", "NVIDIA L40S datasheet", 362, 91.6, 864, _PCIE_4, 183, None, 733),
    "L40": GpuPeaks("L40", "NVIDIA L40 datasheet", 181, 90.5, 864, _PCIE_4, 90.5, None, 362),
    "L4": GpuPeaks("L4", "NVIDIA L4 datasheet", 121, 30.3, 300, _PCIE_4, 60, None, 242.5),
    "A40": GpuPeaks("A40", "NVIDIA A40 datasheet", 149.7, 37.4, 696, _PCIE_4, 74.8, None, 299.3, gpu_link=56.25),
    "A30": GpuPeaks("A30", "NVIDIA A30 datasheet", 165, 10.3, 933, _PCIE_4, 82, 10.3, 330, gpu_link=100),
    "A10G": GpuPeaks("A10G", "NVIDIA A10G datasheet", 70, 31.5, 600, _PCIE_4, 35, None, 140),
    "A10": GpuPeaks("A10", "NVIDIA A10 datasheet", 125, 31.2, 600, _PCIE_4, 62.5, None, 250),
    "T4": GpuPeaks("T4", "NVIDIA T4 datasheet", 65, 8.1, 320, _PCIE_3, byte=130, bfloat=False),
    "RTX A6000": GpuPeaks("RTX A6000", "NVIDIA RTX A6000 datasheet", 154.8, 38.7, 768, _PCIE_4, 77.4, gpu_link=56.25),
    "RTX 4090": GpuPeaks("RTX 4090", "NVIDIA Ada whitepaper", 165.2, 82.6, 1008, _PCIE_4, 82.6, None, 660.6, fast_half=330.3),
    "RTX 3090": GpuPeaks(
        "RTX 3090", "NVIDIA Ampere GA102 whitepaper", 71, 35.6, 936, _PCIE_4, 35.6, fast_half=142, gpu_link=56.25
    ),
}


def find_peaks(gpu: str | None) -> GpuPeaks | None:
    """Return the peaks of a GPU by its driver's name; None if it is unknown, a part of a GPU (MIG), or a laptop's."""
    if not gpu or re.search(r"\b(MIG|Laptop)\b", gpu):
        return None
    return next((peaks for name, peaks in _PRODUCTS.items() if re.search(rf"(?<![A-Za-z0-9]){name}(?![A-Za-z0-9])", gpu)), None)


def find_common_peaks(gpus: Iterable[str | None]) -> GpuPeaks | None:
    """Return the peaks of GPUs if they are of one known product."""
    names = set(gpus)
    return find_peaks(names.pop()) if len(names) == 1 else None
