"""Why steps of a workflow failed: a file for each reason, for the process that waits for the workflow."""

import os
import time
from contextlib import suppress
from pathlib import Path

# Set where somebody waits for a workflow: the folder for the reasons of its steps, wherever they run.
REASONS_VARIABLE = "SPEEDPROOF_REASONS"


def leave_reason(reason: object) -> None:
    """Write why this process fails, if another process waits for its workflow."""
    if not (named := os.environ.get(REASONS_VARIABLE)):
        return
    folder = Path(named)
    with suppress(OSError):  # the reason is printed, too
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{time.time_ns()}-{os.getpid()}.txt").write_text(str(reason), encoding="utf-8")


def read_reasons(folder: Path) -> list[str]:
    """Return the reasons that a workflow's steps left, in the order of their times, each once."""
    return list(dict.fromkeys(path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.txt"))))
