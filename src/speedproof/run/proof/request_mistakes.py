"""What is wrong with a request as a whole: values that each are right by themselves, and do not go together."""

import re
from typing import TYPE_CHECKING

from speedproof.config.validation_errors import NameKey
from speedproof.results.experiment import LOOKS
from speedproof.stats.estimates import LEAST_PAIRS

if TYPE_CHECKING:
    from speedproof.run.proof.request import ProofRequest


def list_mistakes(request: "ProofRequest", name: NameKey) -> list[str]:
    """Return all that is wrong; `name` is how messages call keys."""
    return [
        *_list_mistakes_of_names(request, name),
        *_list_mistakes_of_rounds(request, name),
        *_list_mistakes_of_quality(request, name),
        *_list_mistakes_of_reading(request, name),
        *_list_mistakes_of_places(request, name),
        *_list_mistakes_of_profiles(request, name),
    ]


def _list_mistakes_of_names(request: "ProofRequest", name: NameKey) -> list[str]:
    if len(request.names) in (0, len(request.commands)):
        return []
    return [f"{name('names')}: {len(request.names)} for {len(request.commands)} commands; give one for each, or none"]


def _list_mistakes_of_rounds(request: "ProofRequest", name: NameKey) -> list[str]:
    """Return what is wrong with how much is measured, and what is compared."""
    mistakes = []
    if request.fixed_rounds is not None and (request.fixed_rounds < LEAST_PAIRS or request.fixed_rounds % 2):
        mistakes.append(f"{name('rounds')}: must be even and at least {LEAST_PAIRS} (given: {request.rounds})")
    if request.rounds is not None and request.budget_min is not None and request.rounds not in LOOKS:
        looks = ", ".join(map(str, LOOKS))
        mistakes.append(
            f"{name('rounds')}: {request.rounds}: with {name('budget_min')} rounds may end after {looks}; choose one of these"
        )
    if request.stop_after and request.epoch_range:
        mistakes.append(
            f"{name('stop_after')} and {name('epoch_range')}: a run that is ended early leaves no ranges; leave one of them out"
        )
    if request.metric is not None:
        from speedproof.run.proof.metric_needs import list_mistakes_of_metric

        mistakes += list_mistakes_of_metric(request, name)
    return mistakes


def _list_mistakes_of_quality(request: "ProofRequest", name: NameKey) -> list[str]:
    """Return the mistakes in how quality is judged."""
    mistakes = []
    if request.better is None and (word := request.loss_name):
        better = name("better")
        mistakes.append(
            f"{name('quality')}: {word!r} sounds as if lower is better; add {better} lower, or {better} higher if it is not"
        )
    if request.blind and request.margin is not None:
        mistakes.append(
            f"{name('blind')} and {name('margin')}: quality is judged across seeds (SPEEDPROOF_SEED), which blind runs do not "
            "see"
        )
    if request.quality_command is None:
        if request.artifacts:
            mistakes.append(f"{name('artifacts')}: requires {name('quality_command')}; add that, or leave it out")
        if request.margin is not None and request.quality is None and _reads_no_quality(request):
            mistakes.append(
                f"{name('margin')}: no quality is named; print it ({name('quality')}), or measure it "
                f"({name('quality_command')})"
            )
        return mistakes
    if not request.artifacts:
        mistakes.append(
            f"{name('quality_command')} also needs {name('artifacts')}: the files that each run leaves to be judged, for "
            f"example {name('artifacts')} 'out/*.pt'"
        )
    elif request.workdir == "here" and not all("{run}" in command for command in request.commands):
        mistakes.append(
            f"{name('artifacts')}: with {name('workdir')} here all runs share this folder; have each command write below "
            "{run}, a fresh folder for each run, for example 'python a.py --out {run}/out'"
        )
    if "{run}" not in request.quality_command:
        mistakes.append(f"{name('quality_command')}: lacks {{run}}, the folder with the files that a run left; add it")
    if request.quality is not None and re.compile(request.quality).groups != 1:
        mistakes.append(f"{name('quality')}: must have one (group) around the number, as in `val_acc: (\\S+)`")
    return mistakes


def _reads_no_quality(request: "ProofRequest") -> bool:
    """Return whether the source that is named has no quality by itself, as marks and MLPerf's log have."""
    return bool(request.epoch or request.epoch_s or request.rate or request.epoch_range)


def _list_mistakes_of_reading(request: "ProofRequest", name: NameKey) -> list[str]:
    """Return what is wrong with where epochs are read."""
    mistakes = []
    if sum(map(bool, (request.epoch, request.epoch_s, request.rate))) > 1:
        mistakes.append(f"{name('epoch')}, {name('epoch_s')} and {name('rate')}: give one of them")
    if request.epoch_range and (request.epoch or request.epoch_s or request.rate or request.file):
        others = f"{name('epoch')}, {name('epoch_s')}, {name('rate')} and {name('file')}"
        mistakes.append(f"{name('epoch_range')}: is a source by itself; leave {others} out")
    if request.file and request.epoch:
        mistakes.append(
            f"{name('epoch')}: is for printed lines; for a file give {name('epoch_s')} or {name('rate')}, its column"
        )
    if request.workdir == "here" and request.file and not request.file.startswith("{run}/"):
        mistakes.append(
            f"{name('file')}: all runs start in the same folder and would share the file; write and name it below {{run}}/"
        )
    if request.blind and request.epoch_range:
        mistakes.append(
            f"{name('blind')} and {name('epoch_range')}: NVTX loads our library to record ranges; leave one of them out"
        )
    return mistakes


def _list_mistakes_of_places(request: "ProofRequest", name: NameKey) -> list[str]:
    """Return what is wrong with where commands run."""
    mistakes = []
    if request.container and "://" in request.container:
        mistakes.append(f"{name('container')}: name a file; `apptainer pull image.sif {request.container}` makes one")
    if request.isolate and request.caches == "shared":
        mistakes.append(f"{name('isolate')} and {name('caches')}: an isolated run shares no caches; leave one of them out")
    if request.isolate and (request.container or request.profiled or request.epoch_range):
        others = f"{name('container')}, {name('profiled')} and {name('epoch_range')}"
        mistakes.append(f"{name('isolate')}: cannot be combined with {others}; leave it or these out")
    if request.profile and (request.wait or request.wait_for_quiet_min):
        mistakes.append(f"{name('profile')}: its jobs run elsewhere; leave {name('wait')} and {name('wait_for_quiet_min')} out")
    return mistakes


def _list_mistakes_of_profiles(request: "ProofRequest", name: NameKey) -> list[str]:
    """Return what is wrong with runs under a profiler."""
    mistakes = []
    if request.container and request.profiled and request.profiler == "nsys":
        mistakes.append(
            f"{name('profiled')} and {name('container')}: nsys here does not see into an image; for a program with torch "
            f"set {name('profiler')} to kineto"
        )
    if request.profiler == "kineto" and not request.profiled:
        mistakes.append(f"{name('profiler')}: kineto has no run to record; set {name('profiled')} to 1, or leave it out")
    if request.gpus > 1 and request.profiled and request.profiler == "kineto":
        mistakes.append(
            f"{name('profiler')} and {name('gpus')}: kineto records one process of a program; use nsys, or profile it on "
            "one GPU"
        )
    return mistakes
