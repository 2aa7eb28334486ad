"""speedproof: tests whether one training program is faster than another, on your own machine.

In scripts and notebooks: :func:`prove`, :func:`compare`, :func:`load`, :func:`open_trace`, :func:`diff_traces`
(docs/python.md).
"""

import sys  # and nothing else: a command imports this before it leaves the working folder, where a user's `typing.py` may lie

if sys.platform == "win32":
    raise SystemExit("speedproof: Windows is not supported; run it in WSL 2, or on Linux")

__version__ = "0.3.0"

# Each is loaded when it is first used: whatever imports the package, as each command does, waits for none of them.
_MODULES = {
    "prove": "speedproof.library.proving",
    "compare": "speedproof.library.comparing",
    "FunctionComparison": "speedproof.library.function_comparison",
    "load": "speedproof.library.proof_result",
    "ProofResult": "speedproof.library.proof_result",
    "CandidateResult": "speedproof.library.proof_result",
    "open_trace": "speedproof.library.analyzed_trace",
    "diff_traces": "speedproof.library.analyzed_trace",
    "AnalyzedTrace": "speedproof.library.analyzed_trace",
    "TraceDifference": "speedproof.library.analyzed_trace",
    "SpeedproofError": "speedproof.util.errors",
}

TYPE_CHECKING = False  # for type checkers it is true
if TYPE_CHECKING:  # `X as X` marks a name as exported
    from speedproof.library.analyzed_trace import AnalyzedTrace as AnalyzedTrace
    from speedproof.library.analyzed_trace import TraceDifference as TraceDifference
    from speedproof.library.analyzed_trace import diff_traces as diff_traces
    from speedproof.library.analyzed_trace import open_trace as open_trace
    from speedproof.library.comparing import compare as compare
    from speedproof.library.function_comparison import FunctionComparison as FunctionComparison
    from speedproof.library.proof_result import CandidateResult as CandidateResult
    from speedproof.library.proof_result import ProofResult as ProofResult
    from speedproof.library.proof_result import load as load
    from speedproof.library.proving import prove as prove
    from speedproof.util.errors import SpeedproofError as SpeedproofError
else:
    __all__ = sorted(_MODULES)

    def __getattr__(name: str) -> object:
        """Load a name's module when the name is first used."""
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        globals()[name] = value = getattr(import_module(_MODULES[name]), name)
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
