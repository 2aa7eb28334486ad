"""Keeping a run's state every few epochs, and going on from it in a new process, to the same weights as without a break."""

import logging
import random
import shutil
import tempfile
import types
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from speedproof.api import (
    CHECKPOINTS_FOLDER,
    EPOCHS_FILE,
    RUN_FILE,
    STATE_FILE,
    BestQuality,
    Checkpoint,
    Part,
    TrainingError,
    describe_end,
    find_checkpoint,
    list_checkpoints,
    read_checkpoint,
    read_epochs,
    seal_checkpoint,
)
from speedproof_accelerate.resident import PatchLoader
from speedproof_spleen.training.conditions import seconds_since_process_start
from speedproof_spleen.training.loop import EpochResult, Training
from speedproof_spleen.training.observer import BEST_FILE, Best, Earlier, Observer

log = logging.getLogger("speedproof")

# What a run's folder held at a checkpoint, it holds again when the run goes on.
_KEPT_FILES = [EPOCHS_FILE, BEST_FILE]

Generator = np.random.RandomState | torch.Generator


@dataclass
class Checkpoints:
    """The checkpoints of one run. Without a fingerprint, or `every` so many epochs, there are none."""

    folder: Path  # the run's
    fingerprint: str | None
    every: int | None
    _latest: Checkpoint | None = None
    _reason: str = ""  # why the process before ended
    _start: Part | None = None  # this process' own, once it trains

    def bring_back(self) -> None:
        """Put the files of the newest fitting checkpoint back into the run's folder; call it before they are opened."""
        found = find_checkpoint(self.folder, self.fingerprint) if self.fingerprint and self.every else None
        if found is None:
            self.remove()
            return
        self._latest = read_checkpoint(found)
        self._reason = describe_end(self.folder)
        for name in [RUN_FILE, *_KEPT_FILES]:
            (self.folder / name).unlink(missing_ok=True)
        for name in _KEPT_FILES:
            if (found / name).exists():
                shutil.copyfile(found / name, self.folder / name)

    def clock_s(self) -> float:
        """Return how long this process has lived and, where it goes on, those before it up to their checkpoints."""
        return (self._latest.at_s if self._latest else 0.0) + seconds_since_process_start()

    def read_earlier(self) -> Earlier | None:
        """Return what was measured before this process; None where it begins the run."""
        if self._latest is None:
            return None
        best = self._latest.best
        return Earlier(_read_results(self.folder), Best(best.quality, best.epoch, best.at_s) if best else None)

    def begin(self, training: Training, start_up_s: float, cache_fill_s: float) -> int:
        """Restore the training, note this process' own start, and return its first epoch."""
        first_epoch = 1
        if self._latest:
            first_epoch = self._latest.epoch + 1
            state = self.folder / CHECKPOINTS_FOLDER / str(self._latest.epoch) / STATE_FILE
            restore_state(training, torch.load(state, weights_only=True, map_location=training.device))
            log.info("goes on after epoch %d; the process before: %s", self._latest.epoch, self._reason)
        self._start = Part(
            first_epoch=first_epoch,
            reason=self._reason,
            start_up_s=start_up_s,
            cache_fill_s=cache_fill_s,
            warm_up_s=None,
        )
        return first_epoch

    def keep(self, training: Training, observer: Observer, epoch: int) -> None:
        """Write a checkpoint if one is due; it replaces the older ones once it is complete."""
        if not (self.fingerprint and self.every) or epoch % self.every:
            return
        before = list_checkpoints(self.folder)
        target = self.folder / CHECKPOINTS_FOLDER / str(epoch)
        target.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".") as scratch:
            unfinished = Path(scratch) / target.name
            unfinished.mkdir()
            torch.save(capture_state(training), unfinished / STATE_FILE)
            for name in _KEPT_FILES:
                if (self.folder / name).exists():
                    shutil.copyfile(self.folder / name, unfinished / name)
            seal_checkpoint(unfinished, self._describe(observer, epoch))
            unfinished.rename(target)
        for folder in before:
            shutil.rmtree(folder)

    def list_parts(self, observer: Observer) -> list[Part]:
        """Return the run's processes that trained, this one last; one without times if none has trained yet."""
        before = self._latest.parts if self._latest else []
        own = [self._start.model_copy(update={"warm_up_s": observer.warm_up_s})] if self._start else []
        return [*before, *own] or [Part(first_epoch=1, reason="", start_up_s=0.0, cache_fill_s=0.0, warm_up_s=None)]

    def remove(self) -> None:
        """Remove all checkpoints: the run is whole."""
        shutil.rmtree(self.folder / CHECKPOINTS_FOLDER, ignore_errors=True)

    def _describe(self, observer: Observer, epoch: int) -> Checkpoint:
        return Checkpoint(
            fingerprint=self.fingerprint or "",
            epoch=epoch,
            at_s=self.clock_s(),
            best=BestQuality(**asdict(observer.best)) if observer.best else None,
            parts=self.list_parts(observer),
        )


def capture_state(training: Training) -> dict[str, Any]:
    """Return all that decides how a training goes on, as tensors and plain values, which `weights_only` can read."""
    scaler, loader = training.precision.scaler, training.training_loader
    return {
        "network": training.network.state_dict(),
        "optimizer": training.optimizer.state_dict(),
        "schedule": training.schedule.steps,
        "scaler": scaler.state_dict() if scaler else None,
        "python": random.getstate(),
        "numpy": _capture_numpy(np.random.get_state()),  # noqa: NPY002 (libraries draw from it)
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state(training.device) if training.device.type == "cuda" else None,
        "loader": loader.state_dict() if isinstance(loader, PatchLoader) else None,
        "generators": [_capture_generator(generator) for generator in _generators_of(training)],
    }


def restore_state(training: Training, state: dict[str, Any]) -> None:
    """Bring a training that was just set up, with the same variant, to a captured state.

    Raises:
        TrainingError: it has other sources of randomness than the one that was captured.
    """
    generators = _generators_of(training)
    if len(generators) != len(state["generators"]):
        raise TrainingError("the checkpoint is of another training than this one; delete the run's folder")
    training.network.load_state_dict(state["network"])
    training.optimizer.load_state_dict(state["optimizer"])
    training.schedule.go_to(state["schedule"])
    if isinstance(training.training_loader, PatchLoader):
        training.training_loader.load_state_dict(state["loader"])
    if training.precision.scaler:
        training.precision.scaler.load_state_dict(state["scaler"])
    random.setstate(state["python"])
    np.random.set_state(_numpy_state(state["numpy"]))  # noqa: NPY002
    torch.set_rng_state(state["torch"].cpu())
    if state["cuda"] is not None:
        torch.cuda.set_rng_state(state["cuda"].cpu(), training.device)
    for generator, captured in zip(generators, state["generators"], strict=True):
        _restore_generator(generator, captured)


def _generators_of(training: Training) -> list[Generator]:
    """Return the random generators that the loaders and their transforms own, each once, always in the same order.

    Those of worker processes are not needed: torch's own state seeds them in every epoch.
    """
    found: dict[int, Generator] = {}
    seen: set[int] = set()
    for loader in (training.training_loader, training.validation_loader):
        for generator in _walk(loader, seen):
            found.setdefault(id(generator), generator)
    return list(found.values())


def _walk(value: Any, seen: set[int]) -> Iterator[Generator]:
    if isinstance(value, np.random.RandomState | torch.Generator):
        yield value
    elif isinstance(value, torch.Tensor | np.ndarray | type | types.ModuleType | types.FunctionType) or id(value) in seen:
        return
    elif isinstance(value, list | tuple):
        seen.add(id(value))
        for item in value:
            yield from _walk(item, seen)
    elif hasattr(value, "__dict__"):
        seen.add(id(value))
        # MONAI's transforms share a generator of their class until one of their own is set.
        for item in [getattr(value, "R", None), *vars(value).values()]:
            yield from _walk(item, seen)


def _capture_generator(generator: Generator) -> Any:
    return generator.get_state() if isinstance(generator, torch.Generator) else _capture_numpy(generator.get_state())


def _restore_generator(generator: Generator, captured: Any) -> None:
    if isinstance(generator, torch.Generator):
        generator.set_state(captured.cpu())
    else:
        generator.set_state(_numpy_state(captured))


def _capture_numpy(state: Any) -> tuple[Any, ...]:
    """Return a state of NumPy's generator with its 624 words as a tensor."""
    name, words, *rest = state
    return name, torch.from_numpy(words.astype(np.int64)), *rest


def _numpy_state(captured: Any) -> tuple[Any, ...]:
    name, words, *rest = captured
    return name, words.cpu().numpy().astype(np.uint32), *rest


def _read_results(folder: Path) -> list[EpochResult]:
    table = read_epochs(folder).astype(object)
    rows = table.where(table.notna(), None)
    return [EpochResult(**{str(name): value for name, value in row.items()}) for row in rows.to_dict("records")]
