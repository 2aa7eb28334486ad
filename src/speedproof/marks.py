"""Report a program's progress to speedproof: one file without dependencies, to import or to copy.

    from speedproof import marks

    for epoch in marks.epochs(10):      # each epoch begins and ends here
        train()
        marks.validation()              # what follows, until the epoch ends, validates
        marks.quality(evaluate())
        marks.samples(len(dataset))     # samples of this epoch

`marks.flop` and `marks.parameters` report how much an epoch computes and how large the network is. Variants that differ in
these do unequal work.

A shell script calls `python3 -m speedproof.marks epoch-begins`, `epoch-ends`, `validation`, `quality 0.9`, `samples 128`,
`flop 1.5e13` or `parameters 4808917`.
Without speedproof, none of this does anything.
"""

import sys

if __name__ == "__main__" and not (sys.flags.isolated or getattr(sys.flags, "safe_path", False)):
    del sys.path[0]  # the working folder, by `-m`: a module there is not ours

import json
import os
import time
from collections.abc import Iterable, Iterator
from typing import Any

FOLDER_VARIABLE, EPOCHS_VARIABLE, SEED_VARIABLE = "SPEEDPROOF_RUN", "SPEEDPROOF_EPOCHS", "SPEEDPROOF_SEED"
VALIDATE_EVERY_VARIABLE = "SPEEDPROOF_VALIDATE_EVERY"
# Epochs that a profiler waits for, FIRST-LAST, and the NVTX range around them by which it knows them.
CAPTURE_VARIABLE, CAPTURE_RANGE = "SPEEDPROOF_CAPTURE", "speedproof capture"
MARKS_FILE = "marks.jsonl"
WITHOUT_VALUE, WITH_VALUE = ("epoch-begins", "epoch-ends", "validation"), ("quality", "samples", "flop", "parameters")


class Capture:
    """Opens an NVTX range around the epochs that a profiler waits for; where none waits it does nothing."""

    def __init__(self) -> None:
        self.epoch = 0
        self.nvtx: Any = None

    def epoch_begins(self) -> None:
        """Count an epoch of this process; open the range at the first requested epoch."""
        self.epoch += 1
        if self.epoch == self._wanted()[0]:
            import nvtx

            self.nvtx = nvtx
            nvtx.push_range(CAPTURE_RANGE)

    def epoch_ends(self) -> None:
        """Close the range after the last epoch that is wanted."""
        if self.nvtx is not None and self.epoch == self._wanted()[1]:
            self.nvtx.pop_range()
            self.nvtx = None

    def _wanted(self) -> tuple[int, int]:
        first, _, last = os.environ.get(CAPTURE_VARIABLE, "0-0").partition("-")
        return int(first), int(last)


capture = Capture()


def mark(what: str, value: float | None = None) -> None:
    """Write one mark: its kind, the machine's monotonic clock in seconds, and a value if given."""
    folder = os.environ.get(FOLDER_VARIABLE)
    if not folder or os.environ.get("RANK", "0") != "0":  # of several ranks, as torchrun numbers them, the first one tells
        return
    line = json.dumps({"mark": what, "at_s": time.monotonic()} | ({} if value is None else {"value": value})) + "\n"
    # Opened for each mark and written at once: several processes may write, and a killed one loses nothing.
    file = os.open(os.path.join(folder, MARKS_FILE), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)  # noqa: PTH118
    try:
        os.write(file, line.encode())
    finally:
        os.close(file)


def epochs(number: int | Iterable[int]) -> Iterator[int]:
    """Yield so many epochs, or those given; fewer if SPEEDPROOF_EPOCHS is lower. Each lasts until the next one begins."""
    wanted = os.environ.get(EPOCHS_VARIABLE)
    for done, epoch in enumerate(range(number) if isinstance(number, int) else number):
        if wanted and done >= int(wanted):
            return
        capture.epoch_begins()
        mark("epoch-begins")
        yield epoch
        mark("epoch-ends")
        capture.epoch_ends()


def validation() -> None:
    """Mark that training is over in this epoch; what follows validates."""
    mark("validation")


def quality(value: float) -> None:
    """Mark how good the result is now."""
    mark("quality", float(value))


def samples(number: int) -> None:
    """Mark on how many samples this epoch trained."""
    mark("samples", float(number))


def flop(number: float) -> None:
    """Mark how many floating-point operations an epoch's training takes."""
    mark("flop", float(number))


def parameters(number: int) -> None:
    """Mark how many parameters are trained."""
    mark("parameters", float(number))


def main(arguments: list[str]) -> int:
    """Write one mark, for a program in another language."""
    if len(arguments) == 1 and arguments[0] in WITHOUT_VALUE:
        mark(arguments[0])
        return 0
    try:
        what, value = arguments
        if what in WITH_VALUE:
            mark(what, float(value))
            return 0
    except ValueError:
        pass
    print(f"usage: marks {' | '.join(WITHOUT_VALUE)} | {' | '.join(f'{what} NUMBER' for what in WITH_VALUE)}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
