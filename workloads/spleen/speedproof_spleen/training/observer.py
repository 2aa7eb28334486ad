"""Who writes down what the loop tells: the log, `epochs.csv`, TensorBoard's scalars, the best checkpoint, the progress bar."""

import logging
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from speedproof.api import replacing, write_epochs
from speedproof_spleen.training.ranks import Ranks

if TYPE_CHECKING:
    from rich.progress import Progress
    from torch.utils.tensorboard import SummaryWriter

    from speedproof_spleen.training.loop import EpochResult

log = logging.getLogger("speedproof")

BEST_FILE = "best.pt"


@dataclass
class Best:
    """The best foreground Dice so far, its epoch, and when it was reached, in seconds since the process started."""

    quality: float
    epoch: int
    at_s: float


@dataclass
class Earlier:
    """What was measured before this process, of a run that goes on."""

    results: list["EpochResult"]
    best: Best | None


class Observer:
    """Writes what the loop reports into a run's folder, epoch by epoch, so that a run that ends early keeps its epochs.

    With several ranks, the first one writes the files of the whole run, and each writes its own into its own folder.
    TensorBoard is imported only if its scalars are requested: the import takes as long as some epochs.
    """

    def __init__(
        self,
        folder: Path,
        epochs: int,
        since_start_s: Callable[[], float],
        ranks: Ranks,
        before: Earlier | None = None,
        scalars: bool = False,
        keeps_best: bool = False,
    ) -> None:
        """Begin an empty table of epochs, or go on from `before`.

        `keeps_best`: the best weights stay on the device until the run ends, instead of being written at each best Dice.
        """
        self._keeps_best = keeps_best
        self._best_weights: dict[str, Tensor] | None = None  # kept and not written yet
        self.best = before.best if before else None
        self.warm_up_s: float | None = None
        self.results = before.results if before else []
        self._own_results = list(self.results)
        self._ranks = ranks
        self._folder = folder
        self._own_folder = ranks.folder(folder)
        self._epochs = epochs
        self._since_start_s = since_start_s
        self._writer = _open_scalars(self._own_folder / "scalars") if scalars else None
        watched = sys.stderr.isatty() and ranks.leads
        self._progress = _start_progress(epochs, len(self.results)) if watched else None
        self._write_epochs()

    def __enter__(self) -> "Observer":
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.write_best()
        except RuntimeError as error:  # a device that failed holds nothing any more; the run's record says how it failed
            log.warning("%s is not written: %s", BEST_FILE, " ".join(str(error).split())[:200])
        if self._progress:
            self._progress.stop()
        if self._writer:
            self._writer.close()

    @property
    def training_s(self) -> float:
        """Return the sum of all epochs so far, in seconds."""
        return sum(result.train_s + (result.validation_s or 0.0) for result in self.results)

    def on_first_step(self, seconds: float) -> None:
        """Keep how long the first step took: it holds what a process does only once."""
        self.warm_up_s = seconds

    def on_step(self, epoch: int, step: int, steps: int, loss: float, step_s: float) -> None:
        """Print a step, and write its loss where scalars are written, as the documented programs do."""
        log.info("epoch %d step %d/%d loss %.4f in %.4f s", epoch, step + 1, steps, loss, step_s)
        self._add_scalar("step_loss", loss, (epoch - 1) * steps + step)

    def on_validation(self, epoch: int, dice: float, network: nn.Module) -> None:
        """Keep the network where its foreground Dice is the best so far."""
        if self.best is None or dice > self.best.quality:
            self.best = Best(dice, epoch, self._since_start_s())
            if not self._ranks.leads:
                return
            if self._keeps_best:
                self._best_weights = {name: value.detach().clone() for name, value in network.state_dict().items()}
            else:
                self._write_weights(network.state_dict())

    def write_best(self) -> None:
        """Write the best weights if they are kept and not written yet."""
        if self._best_weights is not None:
            self._write_weights(self._best_weights)
            self._best_weights = None

    def _write_weights(self, weights: dict[str, Tensor]) -> None:
        with replacing(self._folder / BEST_FILE) as temporary:
            torch.save(weights, temporary)

    def on_epoch(self, result: "EpochResult", own: "EpochResult") -> None:
        """Write an epoch's row, scalars and line; `own` is what this rank saw of it."""
        self.results.append(result)
        self._own_results.append(own)
        self._write_epochs()
        self._add_scalar("loss", result.loss, result.epoch)
        self._add_scalar("train_s", result.train_s, result.epoch)
        validation = ""
        if result.validation_s is not None and result.quality is not None:
            validation = f", validated in {result.validation_s:.3f} s, Dice {result.quality:.4f}"
            self._add_scalar("dice_foreground", result.quality, result.epoch)
        line = f"epoch {result.epoch}/{self._epochs} trained in {result.train_s:.3f} s, loss {result.loss:.4f}"
        log.info("%s%s", line, validation)
        if self._progress:
            self._progress.advance(self._progress.task_ids[0])

    def _add_scalar(self, name: str, value: float, number: int) -> None:
        if self._writer:
            self._writer.add_scalar(name, value, number)

    def _write_epochs(self) -> None:
        if self._ranks.leads:
            _write_table(self._folder, self.results)
        if self._ranks.several:
            _write_table(self._own_folder, self._own_results)


def _write_table(folder: Path, results: Sequence["EpochResult"]) -> None:
    write_epochs(folder, [asdict(result) for result in results])


def _open_scalars(folder: Path) -> "SummaryWriter":
    from torch.utils.tensorboard import SummaryWriter

    return SummaryWriter(log_dir=str(folder))


def _start_progress(epochs: int, completed: int) -> "Progress":
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    progress = Progress(*columns, console=Console(stderr=True))
    progress.add_task("epochs", total=epochs, completed=completed)
    progress.start()
    return progress


def start_log(*paths: Path) -> None:
    """Write the program's log lines to each file, with the seconds of this process before each; warnings and more to stderr."""
    begin = time.perf_counter()

    class _Seconds(logging.Formatter):
        def format(self, record: logging.LogRecord) -> str:
            return f"{time.perf_counter() - begin:10.3f} s  {record.getMessage()}"

    log.handlers = []
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        handler = logging.FileHandler(path, mode="a", encoding="utf-8")
        handler.setFormatter(_Seconds())
        log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False
