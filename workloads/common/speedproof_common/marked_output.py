"""Marks the epochs that a published program of MONAI prints: each line is marked the moment that it is printed.

The programs print `epoch 1/6`, `epoch 1 average loss: …` when an epoch has trained, `saved new best metric model`, and
`time consuming of epoch 1 is: …` when it ends. They read the loss from the device before, so its work is done by then.
"""

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TextIO

from speedproof import marks

if TYPE_CHECKING:
    from monai.metrics import DiceMetric

_BEGINS = re.compile(r"epoch (\d+)/(\d+)$")
_TRAINED = re.compile(r"epoch (\d+) average loss: ")
_ENDS = re.compile(r"time consuming of epoch (\d+) is: ")
_SAVED = "saved new best metric model"


class EnoughEpochs(SystemExit):
    """The program has trained as many epochs as are measured, and would go on."""


@dataclass
class MarkedOutput:
    """A stream that marks the epochs in what is printed to it, and ends the program after `wanted` epochs."""

    stream: TextIO
    validate_every: int
    wanted: int
    samples: int  # of an epoch
    before_the_end: Callable[[], None] = lambda: (
        None
    )  # called as the last epoch has ended; the program's objects are still there
    names_epochs: bool = False  # by an NVTX range, for programs without their own
    dice: float | None = None  # by the last validation
    saved_dice: float | None = None  # of the weights that the program saved last
    _planned: int = 0  # epochs that the program would train
    _line: str = ""

    def write(self, text: str) -> int:
        """Pass a text on, and mark the lines that it ends."""
        count = self.stream.write(text)
        *whole, self._line = (self._line + text).split("\n")
        for line in whole:
            self._mark(line)
        return count

    def __getattr__(self, name: str) -> Any:
        """Return what else a stream has."""
        return getattr(self.stream, name)

    def take_dice(self, dice: float) -> None:
        """Mark the quality of a validation."""
        self.dice = dice
        marks.quality(dice)

    def _mark(self, line: str) -> None:
        if begins := _BEGINS.match(line):
            self._planned = int(begins[2])
            marks.capture.epoch_begins()
            self._name_epoch(begins=True)
            marks.mark("epoch-begins")
        elif trained := _TRAINED.match(line):
            if int(trained[1]) % self.validate_every == 0:
                marks.validation()
        elif line == _SAVED:
            self.saved_dice = self.dice
        elif ends := _ENDS.match(line):
            marks.mark("epoch-ends")
            self._name_epoch(begins=False)
            marks.capture.epoch_ends()
            marks.samples(self.samples)
            self._end_after(int(ends[1]))

    def _name_epoch(self, *, begins: bool) -> None:
        if not self.names_epochs:
            return
        import nvtx  # which a workload brings that asks for it

        if begins:
            nvtx.push_range("epoch", color="red")
        else:
            nvtx.pop_range()

    def _end_after(self, epoch: int) -> None:
        if epoch == min(self.wanted, self._planned):
            self.before_the_end()
            if epoch < self._planned:
                raise EnoughEpochs


@contextmanager
def marking(output: MarkedOutput) -> Iterator[None]:
    """Let `output` stand for what is printed; a program may be ended after enough epochs."""
    sys.stdout = output
    try:
        yield
    except EnoughEpochs:
        print(f"ended after {output.wanted} of its epochs")
    finally:
        sys.stdout = output.stream


def watch_dice(tell: Callable[[float], None], find: Callable[["DiceMetric", Any], float | None]) -> None:
    """Have MONAI's `DiceMetric` tell a Dice whenever a program aggregates its values.

    `find` gets the metric and what it returns to the program, and returns the Dice, or None if this metric is not the one.
    """
    from monai.metrics import DiceMetric

    aggregate = DiceMetric.aggregate

    def aggregate_and_tell(metric: DiceMetric, *options: Any, **more: Any) -> Any:
        means = aggregate(metric, *options, **more)
        if (dice := find(metric, means)) is not None:
            tell(dice)
        return means

    DiceMetric.aggregate = aggregate_and_tell  # type: ignore[method-assign, assignment]
