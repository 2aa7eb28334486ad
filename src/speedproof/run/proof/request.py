"""What is to be proven: commands, how they are read, what is claimed of them; from the command line, or from a file."""

import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from shlex import quote
from types import MappingProxyType
from typing import Annotated, Any, Literal

import yaml
from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, ValidationError, ValidationInfo, model_validator

from speedproof.config.base import Model, Natural, Number, Positive
from speedproof.config.job_resources import ImageAddress, JobResources, Resources
from speedproof.config.model import Caches, VariablePattern
from speedproof.config.reading import FilePattern, Pattern, RangeName, Reading, ReadingSource, TimeUnit
from speedproof.config.validation_errors import NameKey, explain_problem, key_names
from speedproof.profilers.formats import describe_run_tracers
from speedproof.results.asked import Asked, Claim
from speedproof.results.experiment import LOOKS, Minutes
from speedproof.results.names import RunTracerName
from speedproof.results.quality import Better
from speedproof.run.proof.loss_names import find_loss_name
from speedproof.util.errors import ConfigError
from speedproof.util.secrets import scrub_secrets
from speedproof.util.yaml_input import read_yaml

_CLAIM = re.compile(r"\s*(?P<sign>>=|<=|>|<|≥|≤)\s*(?P<value>\d+(?:\.\d+)?)\s*[×x]?\s*")
_LARGEST_CLAIM = 1e9
_LEAST_ROUNDS, MOST_ROUNDS = 4, max(LOOKS)
BUDGET_MIN = 30.0
REQUEST_SUFFIXES = (".yaml", ".yml", ".json")


def read_claim(text: str) -> Claim:
    """Read `>= 1.5`, or `<= 0.9`. Raises ValueError of anything else."""
    found = _CLAIM.fullmatch(text)
    if found is None or not 0 < float(found["value"]) <= _LARGEST_CLAIM:
        raise ValueError(f"{text!r:.40}: write a sign and a number above 0, as in '>= 1.5'")
    value, upward = float(found["value"]), found["sign"] in (">=", ">", "≥")
    return Claim(value=value, low=value if upward else None, high=None if upward else value)


def _check_claim(text: str) -> str:
    read_claim(text)
    return text


def _check_command(text: str) -> str:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise ValueError(f"{text!r:.60}: cannot be split as a shell does ({str(error).lower()})") from None
    if not words:
        raise ValueError("an empty command; write what a shell would run")
    if not text.isprintable():
        raise ValueError(
            f"{text!r:.60}: a line break, or another sign that cannot be printed; put it into a script, and name that"
        )
    return text


def _read_job(given: Any) -> Any:
    """Return what a job asks for, of a mapping or of `KEY=VALUE` texts; what is not named is what any experiment asks for."""
    if isinstance(given, list):
        pairs = [str(text).partition("=") for text in given]
        if unread := [key for key, sign, value in pairs if not (sign and value)]:
            raise ValueError(f"{unread[0]!r:.40}: write KEY=VALUE, as in cores=8")
        given = {key.strip(): value.strip() for key, _, value in pairs}
    if not isinstance(given, Mapping):
        return given
    if str(given.get("gpus", 0)) != "0":
        raise ValueError("gpus: has a key of its own beside it; write it there (--gpus)")
    return {**Resources().experiment.model_dump(exclude={"gpus"}), **given}


def _check_number(commands: list[str]) -> list[str]:
    if len(commands) < 2:
        raise ValueError("one command alone; give two or more, each in quotes")
    return commands


Command = Annotated[str, AfterValidator(_check_command)]
RequestedJob = Annotated[JobResources, BeforeValidator(_read_job)]


class ProofRequest(Model):
    """What `speedproof prove` is asked; `speedproof init` writes it as YAML."""

    model_config = ConfigDict(populate_by_name=True)  # `pass` is no name in Python

    commands: Annotated[list[Command], AfterValidator(_check_number)] = Field(
        max_length=26, description="The first one's time is divided by each other's"
    )
    claim: Annotated[str, AfterValidator(_check_claim)] | None = Field(None, description="Of that ratio, as '>= 1.5'")
    metric: str | None = Field(
        None,
        description="What is compared; null: a rate if one is read, the epoch if all variants have epochs, else the process",
    )
    rounds: Natural | None = Field(
        None,
        le=1000,
        description="Timed runs of each command, with budget_min at most; null: until the variants are decided, at most 24",
    )
    budget_min: Minutes | None = Field(
        None, description="Minutes that rounds may take until the variants are decided; null: 30"
    )
    control: bool = Field(False, description="The first command once more in each round: what it differs from itself")
    timeout_s: Positive | None = Field(None, description="How long a run may take")
    wait: bool = Field(False, description="Whether it waits for another measurement on the machine to end, instead of failing")
    wait_for_quiet_min: Minutes | None = Field(
        None, description="Minutes that it waits at most, in all, for other programs to leave the machine before rounds"
    )
    epoch: Pattern | None = Field(None, description="Matches one printed line an epoch")
    epoch_s: Pattern | None = Field(None, description="Its group is an epoch's seconds in a printed line; of a file the column")
    epoch_range: RangeName | None = Field(
        None, description="What the programs' NVTX ranges are called that are epochs; `*` stands for anything"
    )
    rate: Pattern | None = Field(
        None, description="Its group is a rate in a printed line, such as tokens a second; of a file the column"
    )
    unit: TimeUnit | None = Field(None, description="Unit of epoch_s. Default: the one that follows each number, else seconds")
    cumulative: bool = Field(False, description="Whether epoch_s is the time since the start; epochs are its differences")
    quality: Pattern | None = Field(None, description="Its group is the quality in a printed line; of a file the column")
    quality_command: Command | None = Field(
        None,
        description="Prints the quality of what a run left in {run}, after each timed run; quality then matches its output",
    )
    artifacts: list[FilePattern] = Field(
        [], description="Files that each run must write, which quality_command judges; as 'out/*.pt'"
    )
    margin: Number | None = Field(None, ge=0, description="A quality that is worse by more than this withholds a speedup")
    better: Better | None = Field(None, description="Which quality is better: higher or lower; null: higher")
    file: FilePattern | None = Field(None, description="A file that the programs write, in which epochs and qualities stand")
    passed: list[VariablePattern] = Field(
        [], alias="pass", description="Variables that the programs see although they read like a secret, by name or pattern"
    )
    dropped: list[VariablePattern] = Field(
        [], alias="drop", description="Variables that the programs do not see, by name or pattern; goes before pass"
    )
    trust_reported: str | None = Field(
        None, pattern=r"^[^\r\n]{1,200}$", description="Why reported times count even if our own clock does not support them"
    )
    blind: bool = Field(False, description="Whether timed runs see nothing of speedproof; the warm-up does")
    device: Literal["auto", "cuda", "cpu"] = "auto"
    gpus: Positive = Field(1, le=1024, description="GPUs that each command uses; it starts its own ranks, as by torchrun")
    profiled: Natural = Field(0, le=100, description="Runs of each command under a profiler, which say why")
    profiler: RunTracerName = Field("nsys", description=describe_run_tracers())
    sources: list[str] = Field([], description="Files and folders besides that decide, too: where edited, all is repeated")
    workdir: Literal["copy", "commit", "here"] = Field(
        "copy",
        description="Runs start each in a fresh copy of the folder, or of its last commit; or here, and {run} is fresh",
    )
    caches: Caches = Field(
        "warm",
        description="Compile caches of runs: private, as the warm-up left them (warm) or empty (cold); or yours (shared)",
    )
    isolate: bool = Field(False, description="Whether what a run writes to HOME, temporary folders and packages goes after it")
    profile: str | None = Field(None, min_length=1, description="A Snakemake profile: where jobs run, as on Slurm; null: here")
    job: RequestedJob | None = Field(None, description="What the job asks a cluster for; null: 16 cores, 64 GiB, 4 hours")
    container: ImageAddress | None = Field(None, description="A .sif file that the commands run in, by Apptainer")

    @model_validator(mode="after")
    def _can_be_decided(self, info: ValidationInfo) -> "ProofRequest":
        name = key_names(info)
        mistakes = [
            *self._list_mistakes_of_rounds(name),
            *self._list_mistakes_of_quality(name),
            *self._list_mistakes_of_reading(name),
            *self._list_mistakes_of_places(name),
            *self._list_mistakes_of_profiles(name),
        ]
        if mistakes:
            raise ValueError("; ".join(mistakes))
        _ = self.named_reading(info.context) or self.reading("marks", info.context)
        return self

    def _list_mistakes_of_rounds(self, name: NameKey) -> list[str]:
        """Return what is wrong with how much is measured, and what is compared."""
        mistakes = []
        if self.fixed_rounds is not None and (self.fixed_rounds < _LEAST_ROUNDS or self.fixed_rounds % 2):
            mistakes.append(
                f"{name('rounds')}: {self.rounds}: an even number from {_LEAST_ROUNDS} on, since fewer pairs give no verdict"
            )
        if self.rounds is not None and self.budget_min is not None and self.rounds not in LOOKS:
            looks = ", ".join(map(str, LOOKS))
            mistakes.append(
                f"{name('rounds')}: {self.rounds}: with {name('budget_min')} rounds may end after {looks}; name one of these"
            )
        if self.metric is not None:
            from speedproof.run.proof.metric_needs import list_mistakes_of_metric

            mistakes += list_mistakes_of_metric(self, name)
        return mistakes

    def _list_mistakes_of_quality(self, name: NameKey) -> list[str]:
        """Return what is wrong with what judges the quality."""
        mistakes = []
        if self.better is None and (word := self.loss_name):
            better = name("better")
            mistakes.append(
                f"{name('quality')}: {word!r} reads as if lower were better; say so ({better} lower), or not ({better} higher)"
            )
        if self.blind and self.margin is not None:
            mistakes.append(
                f"{name('blind')} and {name('margin')}: quality is judged over seeds (SPEEDPROOF_SEED), which blind runs do "
                "not see"
            )
        if self.quality_command is None:
            if self.artifacts:
                mistakes.append(f"{name('artifacts')}: is for {name('quality_command')}; add that, or leave it out")
            if self.margin is not None and self.quality is None and self._reads_no_quality():
                mistakes.append(
                    f"{name('margin')}: no quality is named; print it ({name('quality')}), or measure it "
                    f"({name('quality_command')})"
                )
            return mistakes
        if not self.artifacts:
            mistakes.append(
                f"{name('quality_command')} also needs {name('artifacts')}: the files that each run leaves to be judged, for "
                f"example {name('artifacts')} 'out/*.pt'"
            )
        elif self.workdir == "here" and not all("{run}" in command for command in self.commands):
            mistakes.append(
                f"{name('artifacts')}: with {name('workdir')} here all runs share this folder; have each command write below "
                "{run}, which is a fresh folder in each run, for example 'python a.py --out {run}/out'"
            )
        if "{run}" not in self.quality_command:
            mistakes.append(f"{name('quality_command')}: does not name {{run}}, the folder that holds what a run left; add it")
        if self.quality is not None and re.compile(self.quality).groups != 1:
            mistakes.append(f"{name('quality')}: must have one (group) around the number, as in `val_acc: (\\S+)`")
        return mistakes

    def _reads_no_quality(self) -> bool:
        """Return whether the source that is named has no quality by itself, as marks and MLPerf's log have."""
        return bool(self.epoch or self.epoch_s or self.rate or self.epoch_range)

    def _list_mistakes_of_reading(self, name: NameKey) -> list[str]:
        """Return what is wrong with where epochs are read."""
        mistakes = []
        if sum(map(bool, (self.epoch, self.epoch_s, self.rate))) > 1:
            mistakes.append(f"{name('epoch')}, {name('epoch_s')} and {name('rate')}: give one of them")
        if self.epoch_range and (self.epoch or self.epoch_s or self.rate or self.file):
            others = f"{name('epoch')}, {name('epoch_s')}, {name('rate')} and {name('file')}"
            mistakes.append(f"{name('epoch_range')}: is a source by itself; leave {others} out")
        if self.file and self.epoch:
            mistakes.append(
                f"{name('epoch')}: is for printed lines; of a file give {name('epoch_s')} or {name('rate')}, its column"
            )
        if self.workdir == "here" and self.file and not self.file.startswith("{run}/"):
            mistakes.append(
                f"{name('file')}: where all runs start here, it would be another run's; write and name it below {{run}}/"
            )
        if self.blind and self.epoch_range:
            mistakes.append(
                f"{name('blind')} and {name('epoch_range')}: NVTX loads a library of ours to take ranges; leave one of them out"
            )
        return mistakes

    def _list_mistakes_of_places(self, name: NameKey) -> list[str]:
        """Return what is wrong with where commands run."""
        mistakes = []
        if self.container and "://" in self.container:
            mistakes.append(f"{name('container')}: name a file; `apptainer pull image.sif {self.container}` makes one")
        if self.isolate and self.caches == "shared":
            mistakes.append(f"{name('isolate')} and {name('caches')}: an isolated run shares no caches; leave one of them out")
        if self.isolate and (self.container or self.profiled or self.epoch_range):
            others = f"{name('container')}, {name('profiled')} and {name('epoch_range')}"
            mistakes.append(f"{name('isolate')}: goes with none of {others}; leave it or these out")
        if self.profile and (self.wait or self.wait_for_quiet_min):
            mistakes.append(
                f"{name('profile')}: its jobs run elsewhere; leave {name('wait')} and {name('wait_for_quiet_min')} out"
            )
        return mistakes

    def _list_mistakes_of_profiles(self, name: NameKey) -> list[str]:
        """Return what is wrong with runs under a profiler."""
        mistakes = []
        if self.container and self.profiled and self.profiler == "nsys":
            mistakes.append(
                f"{name('profiled')} and {name('container')}: nsys here does not see into an image; for a program with torch "
                f"set {name('profiler')} to kineto"
            )
        if self.profiler == "kineto" and not self.profiled:
            mistakes.append(f"{name('profiler')}: kineto has no run to record; set {name('profiled')} to 1, or leave it out")
        if self.gpus > 1 and self.profiled and self.profiler == "kineto":
            mistakes.append(
                f"{name('profiler')} and {name('gpus')}: kineto records one process of a program; use nsys, or profile it on "
                "one GPU"
            )
        return mistakes

    @property
    def loss_name(self) -> str | None:
        """Return the word by which the quality reads like a loss, if it does."""
        if self.quality is None:
            return None
        return find_loss_name(self.quality, is_column=self.file is not None and self.quality_command is None)

    @property
    def claimed(self) -> float | None:
        """Return the ratio that the claim names, if there is one."""
        return None if self.claim is None else read_claim(self.claim).value

    @property
    def claims_at_most(self) -> bool:
        """Return whether the claim is that the ratio is at most something; not if there is none."""
        return self.claim is not None and read_claim(self.claim).low is None

    @property
    def fixed_rounds(self) -> int | None:
        """Return how many rounds run in any case; None if they end once the variants are decided."""
        return self.rounds if self.budget_min is None else None

    @property
    def most_rounds(self) -> int:
        """Return how many rounds there are at most."""
        return self.rounds or MOST_ROUNDS

    @property
    def budget(self) -> float | None:
        """Return the minutes that rounds may take; None where their number is fixed."""
        return None if self.fixed_rounds is not None else self.budget_min or BUDGET_MIN

    def named_reading(self, context: dict[str, Any] | None = None) -> Reading | None:
        """Return the source that was named; None where the warm-up finds one."""
        if self.epoch_range:
            return self.reading("ranges", context)
        if self.file:
            return self.reading("file", context)
        return self.reading("lines", context) if self.epoch or self.epoch_s or self.rate else None

    def reading(self, source: ReadingSource, context: dict[str, Any] | None = None) -> Reading:
        """Return how variants are read of a source; `context` says how messages call keys."""
        keys = ("epoch", "epoch_s", "epoch_range", "rate", "unit", "cumulative", "file")
        quality = None if self.quality_command else self.quality
        values = {"source": source, "quality": quality} | {key: getattr(self, key) for key in keys}
        return Reading.model_validate(values, context=context)


def check_request(values: dict[str, Any], origin: str, name: NameKey = str) -> ProofRequest:
    """Return a checked request; raise :class:`ConfigError` with all that is wrong, in one line that calls keys by `name`."""
    try:
        return ProofRequest.model_validate(values, context={"name": name})
    except ValidationError as error:
        raise ConfigError(f"{origin}: {_list_problems(error, name)}") from None


def check_options(values: dict[str, Any]) -> ProofRequest:
    """Return a checked request of the command line's options; raise :class:`ConfigError`, which names these, in one line."""
    return check_request(values, "prove", name_option)


def _list_problems(error: ValidationError, name: NameKey) -> str:
    """Return all that is wrong, each with its key as `name` calls it."""
    found = []
    for one in error.errors():
        first, *inner = [part for part in one["loc"] if isinstance(part, str)] or [""]
        called = name(first)
        where = (" " if called.startswith("--") else ".").join([called, *inner])
        said = explain_problem(one, ProofRequest, "the output of `speedproof init`")
        found.append(f"{where}{': ' if where else ''}{said}")
    return "; ".join(dict.fromkeys(found))


def make_request(values: dict[str, Any]) -> ProofRequest:
    """Return a checked request of options: if their one command is a file of `init`, that, with the others laid over it.

    Raises :class:`ConfigError` with all that is wrong.
    """
    commands = values["commands"]
    if len(commands) == 1 and commands[0].endswith(REQUEST_SUFFIXES):
        return read_request(Path(commands[0]), {name: value for name, value in values.items() if name != "commands"})
    return check_options(values)


def read_request(path: Path, over: Mapping[str, Any] = MappingProxyType({})) -> ProofRequest:
    """Read what `speedproof init` wrote, with the options `over` laid over it, those of a job one by one."""
    values = read_yaml(path)
    if not isinstance(values, dict):
        raise ConfigError(f"{path}: must be a mapping of keys; `speedproof init 'python a.py' 'python b.py'` writes one")
    together = {**_name_by_key(values), **_name_by_key(over)}
    if isinstance(values.get("job"), dict) and isinstance(over.get("job"), list):
        together["job"] = [*(f"{key}={value}" for key, value in values["job"].items() if value is not None), *over["job"]]
    typed = {*over, *_name_by_key(over)}
    return check_request(together, str(path), lambda key: name_option(key) if key in typed else key)


def _name_by_key(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values by the keys that files have for them, of values by these or by the request's own names."""
    keys = {name: field.alias for name, field in ProofRequest.model_fields.items() if field.alias}
    return {keys.get(name, name): value for name, value in values.items()}


def write_request(request: ProofRequest) -> str:
    """Return a request as YAML, each key with what it means."""
    lines = ["# speedproof prove proof.yaml"]
    for name, value in request.model_dump(mode="json").items():
        said = ProofRequest.model_fields[name].description
        text = yaml.safe_dump(_name_by_key({name: value}), sort_keys=False, allow_unicode=True, width=1000).rstrip()
        lines += [f"# {said}"] * bool(said) + [text]
    return "\n".join(lines) + "\n"


# What is called otherwise on the command line than in the file.
_OPTIONS = {
    "commands": "commands",
    "budget_min": "--budget",
    "timeout_s": "--timeout",
    "passed": "--pass",
    "dropped": "--drop",
    "sources": "--source",
    "artifacts": "--artifact",
    "wait_for_quiet_min": "--wait-for-quiet",
}


def name_option(key: str) -> str:
    """Return what a key of a request is called on the command line."""
    return _OPTIONS.get(key, f"--{key.replace('_', '-')}" if key else "")


def describe_asked(request: ProofRequest, metric: str, attempt: int) -> Asked:
    """Return what a report is to know of a request whose variants are compared by `metric`, of the so-manieth proof."""
    claim = read_claim(request.claim) if request.claim else None
    return Asked(command=scrub_secrets(write_call(request)), metric=metric, margin=request.margin, claim=claim, attempt=attempt)


def write_call(request: ProofRequest) -> str:
    """Return a request as a shell reads it: its commands, and each option that is not as it would be without."""
    words = ["speedproof", "prove", *request.commands]
    for name, value in request.model_dump(mode="json", exclude_defaults=True, exclude={"commands", "job"}).items():
        option = name_option(name)
        for one in value if isinstance(value, list) else [value]:
            words += [option] if one is True else [option, str(one)]
    job = request.job.model_dump(exclude={"gpus"}, exclude_none=True) if request.job else {}
    words += [word for key, value in job.items() for word in ("--job", f"{key}={value}")]
    return " ".join(map(quote, words))
