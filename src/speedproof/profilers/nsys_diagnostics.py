"""What nsys reports about its own recording, and whether a GPU's work would be in it."""

import re
from collections.abc import Collection, Iterator

from speedproof.profilers.nsys_columns import THREAD_BITS
from speedproof.profilers.nsys_sqlite import ExportFile
from speedproof.results.trace_tables import GpuTracing
from speedproof.util.errors import RecordError

_WARNING, _ERROR = 2, 3  # DIAGNOSTIC_EVENT.severity, as ENUM_DIAGNOSTIC_SEVERITY_LEVEL names them; 1 is information, 4 chatter
# Notes about missing events count at any severity.
_LOST = re.compile(
    r"\bdropp?ed\b|\blost\b|not all .* (collected|recorded)|buffers? (are |is |was |were )?full|incomplete", re.I
)
_CUDA = re.compile(r"\b(CUDA|CUPTI\w*)\b")
# What is read here, besides samples of the CPU, of which nsys has much to say.
_MATTERS = re.compile(r"\b(CUDA|CUPTI\w*|NVTX|GPUs?|driver|profiling)\b", re.I)
_ELSEWHERE = re.compile(r"\b(OpenGL|Vulkan|DirectX|DX1[12]|D3D1[12]|OpenACC|OpenMP|MPI|UCX|WDDM|NVMedia|OpenXR|video)\b", re.I)
_SEEN_ANYWAY = "No NVTX events collected"  # that there are none
# Of CUDA: tracing may not have worked.
_FAILED = re.compile(
    r"not (been )?started|not supported|unsupported|fail|unable|could not|cannot|can't|not found|insufficient|permission"
    r"|not all .* collected|no CUDA events",
    re.I,
)
_LONGEST, _MOST = 200, 8  # characters of a note; notes

_KIND = "CAPTURE_EVENT_TYPE"  # of META_DATA_CAPTURE: what is traced, a row each
_CALLS = ("CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_DRIVER")
_UNREAD = ("VULKAN_WORKLOAD", "OPENGL_WORKLOAD", "DX12_WORKLOAD", "GPU_CONTEXT_SWITCH_EVENTS", "NPU_EVENTS")

# Other tools' databases, by how one of their tables' names begins.
_OTHERS = {
    "rocpd_": "a database of rocprofv3; record JSON: rocprofv3 --runtime-trace --output-format json",
    "stringtable": "a database of nvprof, which is not read; profile again with nsys profile",
}


def read_diagnostics(export: ExportFile, calling: Collection[int]) -> list[str]:
    """Return nsys' warnings and errors, and its notes about lost events, if they are about what is read here.

    Some processes are `calling` CUDA. Of others, such as a loader's workers, nsys complains that it collected nothing.
    """
    notes: dict[str, None] = {}
    for text, severity, process in _read_texts(export):
        if severity not in (_WARNING, _ERROR) and not _LOST.search(text):
            continue
        if _MATTERS.search(text) and not _ELSEWHERE.search(text) and not text.startswith(_SEEN_ANYWAY):
            other = calling and process is not None and process >> THREAD_BITS not in calling and _CUDA.search(text)
            notes[f"nsys says{' of a process without CUDA calls' if other else ''}: {text[:_LONGEST]}"] = None
    listed, beyond = [*notes][:_MOST], len(notes) - _MOST
    return [*listed, f"nsys says {beyond} things more (table DIAGNOSTIC_EVENT)"] if beyond > 0 else listed


def _read_texts(export: ExportFile) -> Iterator[tuple[str, int, int | None]]:
    """Yield each text, its severity, 0 if unknown, and its process' number, None if unknown."""
    added = [name for name in ("severity", "globalPid") if export.has("DIAGNOSTIC_EVENT", name)]
    for text, *values in export.select("DIAGNOSTIC_EVENT", text=str | None, **dict.fromkeys(added, int | None)):
        known = dict(zip(added, values, strict=True))
        yield " ".join((text or "").split()), known.get("severity") or 0, known.get("globalPid")


def find_gpu_tracing(export: ExportFile) -> GpuTracing:
    """Return whether the work of a GPU would be in the export. Whether it says that CUDA is traced may be wrong if it is."""
    settings = [*export.select("META_DATA_CAPTURE", name=str, value=str | None)]
    asked = {value for name, value in settings if name.endswith("COLLECT_CUDA_TRACE")}
    kinds = {value for name, value in settings if name == _KIND}
    called = any(map(export.holds_rows, _CALLS))
    if any(map(export.holds_rows, _UNREAD)) and not called:
        return "unread"
    if not called and export.holds_rows("TARGET_INFO_SYSTEM_ENV") and not export.holds_rows("TARGET_INFO_GPU"):
        return "unseen"
    if called or "true" in asked or "Cuda" in kinds:
        return "failed" if any(_CUDA.search(text) and _FAILED.search(text) for text, *_ in _read_texts(export)) else "on"
    return "off" if asked or kinds else "unknown"


def explain_other(export: ExportFile) -> RecordError:
    """Return what a database is that Nsight Systems did not write, if that is known."""
    known = (what for begin, what in _OTHERS.items() if any(table.startswith(begin) for table in export.tables))
    default = "not an export of Nsight Systems; make one with `nsys export --type=sqlite`"
    return RecordError(export.path, f": {next(known, default)}")
