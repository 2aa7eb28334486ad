"""One training process from start to end: set up, train, and leave a run record, however it ended."""

import logging
import os
import shutil
import time
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from speedproof.api import (
    ENDING_FILE,
    LOG_FILE,
    RUN_FILE,
    TRACE_FOLDER,
    Backend,
    Dataset,
    Ending,
    Mode,
    Ranges,
    Rates,
    Recorder,
    Run,
    RunOutcome,
    SpeedproofError,
    StoppedError,
    TrainingError,
    find_first_failure,
    raising_when_stopped,
    rank_folder,
    write_json,
)
from speedproof_accelerate.step import Step
from speedproof_spleen.config import SpleenConfig
from speedproof_spleen.segmentation import Case, build_case
from speedproof_spleen.training.checkpoint import Checkpoints
from speedproof_spleen.training.compiling import Compiling
from speedproof_spleen.training.conditions import choose_device, describe_conditions, find_clock, seconds_since_process_start
from speedproof_spleen.training.loaders import Loaders, build_loaders, build_store
from speedproof_spleen.training.loop import NotANumberError, Training, read_clock, run_epochs
from speedproof_spleen.training.observer import Observer, start_log
from speedproof_spleen.training.probe import measure_rates, slow_autocast_warning
from speedproof_spleen.training.ranks import Ranks, joined, read_ranks
from speedproof_spleen.training.reading import Readings
from speedproof_spleen.training.rehearsal import rehearse
from speedproof_spleen.training.schedule import Schedule
from speedproof_spleen.training.techniques import (
    apply_kernels,
    apply_memory_format,
    apply_meta_tracking,
    build_copies,
    build_objective,
    build_optimizer,
    build_precision,
    build_step,
    fix_randomness,
)
from speedproof_spleen.training.work import count_work
from speedproof_spleen.variant import SpleenVariant

log = logging.getLogger("speedproof")

_LEAST_ROOM_BYTES = 1 << 20


@dataclass(frozen=True)
class Request:
    """Which run this process is."""

    variant: str
    mode: Mode
    round: int
    seed: int
    profiler: Backend  # nsys: it runs around this process; kineto: it runs inside
    fingerprint: str | None = None  # names the run's checkpoints (measurement.checkpoint_every); None: it keeps none

    def command(self) -> list[str]:
        """Return the command line without its paths, which say nothing about a measurement."""
        options = {key: value for key, value in asdict(self).items() if value is not None}
        return ["speedproof_spleen", "train", *(f"--{key}={value}" for key, value in options.items())]


def run_training(
    config: SpleenConfig,
    dataset: Dataset,
    files: list[dict[str, str]],
    request: Request,
    folder: Path,
    readings: Readings | None = None,
    compiling: Compiling | None = None,
) -> Run:
    """Train once and leave the run record in `folder`.

    Whatever happens, `run.json` is written last and says how the run ended, and `epochs.csv` holds the epochs that were
    finished. Of several ranks, the first writes these; what is a rank's own lies in `rank<k>/`. With a fingerprint in the
    request, one process keeps checkpoints, and one of the same fingerprint is continued. `readings` are the cases whose
    reading began before, `compiling` the kernels whose compilation did.

    Raises:
        TrainingError: the run did not end well; the record says the same.
    """
    started = datetime.now(UTC).isoformat(timespec="seconds")
    folder.mkdir(parents=True, exist_ok=True)
    variant = config.variants[request.variant]
    ranks = read_ranks(os.environ, request.variant, variant)
    own_folder = ranks.folder(folder)
    (own_folder / ENDING_FILE).unlink(missing_ok=True)
    start_log(*{place / LOG_FILE for place in ([folder, own_folder] if ranks.leads else [own_folder])})
    device = choose_device(config.measurement.device, variant.gpus, ranks.local)
    fix_randomness(variant, ranks.seed(request.seed))
    epochs, validate_every = config.epochs_of(request.variant), config.validate_every_of(request.variant)
    recorder = Recorder() if request.profiler == "kineto" else None
    ranges = Ranges(variant.range_style, recorder)
    warnings: list[str] = []
    checkpoints = Checkpoints(folder, request.fingerprint, config.measurement.checkpoint_every)
    checkpoints.bring_back()
    outcome: RunOutcome = "completed"
    reason = ""
    with ExitStack() as stack:
        observer = stack.enter_context(
            Observer(
                folder,
                epochs,
                checkpoints.clock_s,
                ranks,
                checkpoints.read_earlier(),
                variant.step_log is True,
                variant.scoring == "device",
            )
        )
        stack.enter_context(raising_when_stopped())
        try:
            recording = _kineto_recording(recorder, own_folder / TRACE_FOLDER) if recorder else nullcontext()
            with joined(ranks, device), recording:
                training, cache_fill_s = _set_up(
                    config, dataset, files, variant, epochs, device, ranges, ranks, readings, compiling or Compiling(), warnings
                )
                start_up_s = seconds_since_process_start()
                log.info("set up in %.1f s, of which %.1f s filled the cache", start_up_s, cache_fill_s)
                first_epoch = checkpoints.begin(training, start_up_s, cache_fill_s)
                keep_checkpoint = partial(checkpoints.keep, training, observer)
                with _autograd_ranges(request.mode, device, warnings):
                    run_epochs(training, epochs, validate_every, observer, first_epoch, keep_checkpoint)
                    observer.write_best()
        except (Exception, StoppedError) as error:
            outcome, reason = _classify(error, folder)
            log.exception("the run ended early: %s", reason)
        process_s = checkpoints.clock_s()
    parts = checkpoints.list_parts(observer)
    if ranks.several:
        outcome, reason = _agree_on_ending(folder, Ending(rank=ranks.rank, outcome=outcome, reason=reason, ended_s=time.time()))
    rates = None
    if outcome == "completed" and request.mode == "timed" and ranks.leads:
        rates = _probe_device(variant, device, warnings)
    run = Run(
        run=folder.name,
        case=config.workload_name,
        variant=request.variant,
        mode=request.mode,
        profiler=request.profiler,
        round=request.round,
        seed=request.seed,
        epochs=epochs,
        validate_every=validate_every,
        techniques=variant.model_dump(mode="json"),
        workload=config.workload.model_dump(mode="json"),
        gpu_samples_per_s=config.profiling.gpu_samples_per_s,
        traced=config.profiling.traced if request.profiler == "nsys" else [],
        conditions=describe_conditions(device, dataset),
        warnings=warnings,
        command=request.command(),
        ranks=ranks.size,
        started=started,
        ended=datetime.now(UTC).isoformat(timespec="seconds"),
        clock=find_clock(),
        start_up_s=parts[0].start_up_s,
        cache_fill_s=parts[0].cache_fill_s,
        # Each rank knows of its own; and where it failed, there may be none.
        cache_bytes=training.cache_bytes if outcome == "completed" and not ranks.several else None,
        warm_up_s=parts[0].warm_up_s,
        training_s=observer.training_s,
        process_s=process_s,
        work=count_work(training.case.network(), training.case.patch_size(), training.patches_per_epoch) if rates else None,
        rates=rates,
        **_describe_best(observer),
        continued=parts[1:],
        outcome=outcome,
        reason=reason,
    )
    if ranks.leads:
        write_json(folder / RUN_FILE, run)
    log.info("%s%s", outcome.replace("_", " "), f": {reason}" if reason else "")
    if outcome != "completed":
        raise TrainingError(f"{folder.name}: {outcome.replace('_', ' ')}: {reason}; see {own_folder / LOG_FILE}")
    checkpoints.remove()
    return run


def _probe_device(variant: SpleenVariant, device: torch.device, warnings: list[str]) -> Rates | None:
    """Return the device's rates; a slow convolution under autocast is added to the warnings."""
    rates = measure_rates(device)
    warning = slow_autocast_warning(device) if variant.precision == "fp16" else None
    warnings += [warning] if warning else []
    return rates


def _describe_best(observer: Observer) -> dict[str, Any]:
    """Return the record's values of the best quality; without a validation, they are None."""
    best = observer.best
    found = (None, None, None) if best is None else (best.quality, best.epoch, best.at_s)
    return dict(zip(("best_quality", "best_quality_epoch", "best_quality_s"), found, strict=True))


def build_training(
    case: Case, variant: SpleenVariant, loaders: Loaders, epochs: int, device: torch.device, ranges: Ranges, ranks: Ranks
) -> Training:
    """Return a new network and what trains it over so many epochs."""
    network, step = build_training_step(case, variant, device, ranks)
    return Training(
        case=case,
        variant=variant,
        device=device,
        network=network,
        step=step,
        optimizer=step.optimizer,
        schedule=Schedule(variant, step.optimizer, len(loaders.training), epochs),
        precision=step.precision,
        training_loader=loaders.training,
        validation_loader=loaders.validation,
        patches_per_epoch=loaders.patches_per_epoch,
        cache_bytes=loaders.cache_bytes,
        ranges=ranges,
        ranks=ranks,
    )


def build_training_step(case: Case, variant: SpleenVariant, device: torch.device, ranks: Ranks) -> tuple[nn.Module, Step]:
    """Return a new network, the same on all ranks, and what is done with a batch to train it."""
    network = apply_memory_format(variant, apply_kernels(variant, case.network(), device))
    precision = build_precision(variant, device)
    if variant.averages_itself:
        ranks.copy_weights(network)
    copies = build_copies(variant, network, precision)
    leaves = [pair.leaf for pair in copies.pair_weights()] if copies else list(network.parameters())
    optimizer = build_optimizer(variant, network, copies)
    called = copies or (network if variant.averages_itself else ranks.distribute(network, device))
    objective = build_objective(variant, called, case.loss(), device)
    return network, build_step(variant, objective, optimizer, precision, leaves if variant.averages_itself else [])


def _set_up(
    config: SpleenConfig,
    dataset: Dataset,
    files: list[dict[str, str]],
    variant: SpleenVariant,
    epochs: int,
    device: torch.device,
    ranges: Ranges,
    ranks: Ranks,
    readings: Readings | None,
    compiling: Compiling,
    warnings: list[str],
) -> tuple[Training, float]:
    """Return all that the loop works on, and the seconds in which caches were filled; what a reader should know is a warning.

    Caches are filled here, always with MONAI's metadata, each rank's with its share; a persistent one by the first epoch.
    """
    apply_meta_tracking(variant, tracked=True)
    case = build_case(config.case, config.workload, variant, device)
    training_files, validation_files = case.split_files(files)
    if not training_files:
        raise TrainingError(
            f"workload.validation_cases is {config.workload.validation_cases}, but the dataset has {len(files)} cases: "
            "none is left to train on; lower it"
        )
    if len(validation_files) < ranks.size:
        raise TrainingError(
            f"workload.validation_cases is {len(validation_files)}, but {ranks.size} processes share them; raise it"
        )
    if variant.shard:
        training_files = ranks.share_evenly(training_files)
    validation_files = ranks.share(validation_files)
    store = build_store(case, variant, dataset, files, device)
    ahead = compiling.begun  # by other processes: volumes are prepared meanwhile
    if not ahead:
        rehearse(case, variant, device)
    start = read_clock(device)
    loaders = build_loaders(case, variant, training_files, validation_files, device, store, readings)
    cache_fill_s = 0.0 if variant.cache in ("none", "persistent") else read_clock(device) - start
    if ahead:
        rehearse(case, variant, device, compiling)
    warnings += loaders.warnings
    training = build_training(case, variant, loaders, epochs, device, ranges, ranks)
    apply_meta_tracking(variant, tracked=variant.track_meta)
    return training, cache_fill_s


def _kineto_recording(recorder: Recorder, folder: Path) -> AbstractContextManager[object]:
    from speedproof_spleen.training.kineto import kineto_recording  # it brings Arrow: only where a trace is made

    return kineto_recording(recorder, folder)


def _autograd_ranges(mode: Mode, device: torch.device, warnings: list[str]) -> AbstractContextManager[object]:
    """Return the context that marks every autograd operator where the mode is the documented one."""
    if mode != "documented":
        return nullcontext()
    if device.type != "cuda":
        warnings.append("autograd's own NVTX ranges (emit_nvtx) need a GPU: left out")
        return nullcontext()
    return torch.autograd.profiler.emit_nvtx()


def _agree_on_ending(folder: Path, own: Ending) -> tuple[RunOutcome, str]:
    """Write how this rank ended, and return how the run did: as the first rank that failed, since the others lost a partner."""
    write_json(rank_folder(folder, own.rank) / ENDING_FILE, own)
    first = find_first_failure(folder) or own
    return first.outcome, first.reason if first.rank == own.rank else f"rank {first.rank}: {first.reason}"


def _classify(error: BaseException, folder: Path) -> tuple[RunOutcome, str]:
    """Return how a run ended and one line of why."""
    text = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, StoppedError):
        return "stopped", f"received {text}"
    if isinstance(error, NotANumberError):
        return "not_a_number", text
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return "out_of_memory", text[:300]
    if isinstance(error, RuntimeError) and "DataLoader worker" in text:
        return "worker_died", text[:300]
    # torch writes through a stream of its own, which says nothing but that it broke.
    if isinstance(error, OSError | RuntimeError) and shutil.disk_usage(folder).free < _LEAST_ROOM_BYTES:
        return "failed", f"no space left on the disk of {folder}; make room there, or choose another folder for results"
    return "failed", f"{type(error).__name__}: {text[:300]}" if not isinstance(error, SpeedproofError) else text
