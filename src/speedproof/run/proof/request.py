"""What is to be proven: commands, how they are read, what is claimed of them; from the command line, or from a file."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, ValidationError, ValidationInfo, model_validator

from speedproof.config.base import Model, Natural, Number, Positive
from speedproof.config.job_resources import ImageAddress, JobResources, Resources
from speedproof.config.model import Caches, VariablePattern
from speedproof.config.reading import ASKED_BY, FilePattern, Pattern, RangeName, Reading, ReadingSource, TimeUnit
from speedproof.config.validation_errors import NameKey, explain_problem, key_names
from speedproof.profilers.formats import describe_run_tracers
from speedproof.results.claim import ClaimText
from speedproof.results.experiment import LOOKS, Minutes
from speedproof.results.names import RunTracerName
from speedproof.results.quality import Better
from speedproof.run.proof.loss_names import find_loss_name
from speedproof.run.proof.request_mistakes import list_mistakes
from speedproof.run.proof.stop_after import StopAfter, read_stop
from speedproof.util.errors import ConfigError

_LONGEST_NAME = 48  # characters
MOST_ROUNDS = max(LOOKS)
BUDGET_MIN = 30.0
DEFAULT_OUT = Path("results/proof")
_CLAIM_PANEL, _READING_PANEL, _QUALITY_PANEL, _ROUNDS_PANEL = "Claim and metric", "Reading epochs", "Quality", "Rounds"
_ENVIRONMENT_PANEL, _PROFILING_PANEL, _CLUSTER_PANEL = "Environment", "Profiling", "Cluster"
REQUEST_SUFFIXES = (".yaml", ".yml", ".json")


def _check_command(text: str) -> str:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise ValueError(f"{text!r:.60}: cannot be split like a shell command ({str(error).lower()})") from None
    if not words:
        raise ValueError("empty command; write what a shell would run")
    if not text.isprintable():
        raise ValueError(f"{text!r:.60}: contains a line break or an unprintable character; put it into a script, and run that")
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
        raise ValueError("gpus: has its own key; write it there (--gpus)")
    return {**Resources().experiment.model_dump(exclude={"gpus"}), **given}


def _check_number(commands: list[str]) -> list[str]:
    if len(commands) < 2:
        raise ValueError("only one command; give two or more, each in quotes")
    return commands


def _read_count(given: Any) -> Any:
    """Return a number as YAML has it, as text."""
    return str(given) if type(given) is int else given


def _check_stop(text: str) -> str:
    read_stop(text)
    return text


def _check_names(names: list[str]) -> list[str]:
    for name in names:
        if not name.strip() or not name.isprintable() or len(name) > _LONGEST_NAME:
            raise ValueError(f"{name!r:.60}: write a name of up to {_LONGEST_NAME} characters, on one line")
    if len(set(names)) < len(names):
        raise ValueError("the same name twice; each command needs its own")
    return names


Command = Annotated[str, AfterValidator(_check_command)]
StopText = Annotated[str, BeforeValidator(_read_count), AfterValidator(_check_stop)]
RequestedJob = Annotated[JobResources, BeforeValidator(_read_job)]


def _name_metric(text: str) -> str:
    from speedproof.stats.metrics import METRIC_WORDS  # which imports pandas; help validates nothing

    return METRIC_WORDS.get(text.strip().lower(), text)


MetricText = Annotated[str, AfterValidator(_name_metric)]


def option(default: Any, panel: str, description: str, *, flag: str = "", metavar: str = "", **more: Any) -> Any:
    """Return a field that is an option of the command line, too, in a panel of its `--help`.

    `flag` is what it is called there if not as its key. In the description `{key}` stands for what another key is called.
    """
    shown: dict[str, Any] = {"panel": panel, "flag": flag, "metavar": metavar}
    return Field(default, description=description, json_schema_extra=shown, **more)


class ProofRequest(Model):
    """What `speedproof prove` is asked; `speedproof init` writes it as YAML.

    The options of both commands, and those of `speedproof.prove`, are made of these fields.
    """

    derived: ClassVar[frozenset[str]] = frozenset({"commands"})  # keys that other keys decide
    # `pass` is a keyword in Python. --help validates nothing, so the validator is built on first use.
    model_config = ConfigDict(populate_by_name=True, defer_build=True)

    commands: Annotated[list[Command], AfterValidator(_check_number)] = Field(
        max_length=26, description="Two or more commands; the first one's time is divided by each other's"
    )
    names: Annotated[list[str], AfterValidator(_check_names)] = option(
        [],
        _CLAIM_PANEL,
        "Name of a command, in their order. Default: A, B, C, each with what differs",
        flag="--name",
        metavar="TEXT",
    )

    claim: ClaimText | None = option(None, _CLAIM_PANEL, "Speedup to test, for example '>= 1.5'. Default: any difference")
    metric: MetricText | None = option(
        None,
        _CLAIM_PANEL,
        "Metric to compare, such as 'wall time'. Default: epoch time if every command reports epochs, else wall time",
    )

    epoch: Pattern | None = option(
        None, _READING_PANEL, "Regex for a line printed once per epoch; from one such line to the next is an epoch"
    )
    epoch_s: Pattern | None = option(
        None, _READING_PANEL, "Regex whose capture group is the epoch time; with {file}, the column's name"
    )
    rate: Pattern | None = option(
        None, _READING_PANEL, "Regex whose capture group is a rate, such as tokens/s; with {file}, the column's name"
    )
    epoch_range: RangeName | None = option(None, _READING_PANEL, "Name of the NVTX ranges that are epochs; * matches anything")
    file: FilePattern | None = option(
        None, _READING_PANEL, "File that the programs write: CSV, JSON, JSON lines, MLPerf log, TensorBoard"
    )
    unit: TimeUnit | None = option(
        None, _READING_PANEL, "Unit of {epoch_s}: ns, us, ms, s, min or h. Default: as printed after the number, else s"
    )
    cumulative: bool = option(False, _READING_PANEL, "Times read by {epoch_s} are cumulative; speedproof takes differences")
    trust_reported: str | None = option(
        None,
        _READING_PANEL,
        "Accept reported times although speedproof's clock disagrees; give the reason",
        metavar="REASON",
        pattern=r"^[^\r\n]{1,200}$",
    )

    quality: Pattern | None = option(
        None, _QUALITY_PANEL, "Regex whose capture group is the quality; with {file}, the column's name"
    )
    quality_command: Command | None = option(
        None,
        _QUALITY_PANEL,
        "Command that prints the quality of a run's {artifacts}: 'python evaluate.py {run}'",
        metavar="COMMAND",
    )
    artifacts: list[FilePattern] = option(
        [],
        _QUALITY_PANEL,
        "Files that each run must write, for example 'out/*.pt'",
        flag="--artifact",
        metavar="PATTERN",
    )
    margin: Number | None = option(
        None, _QUALITY_PANEL, "Largest acceptable loss of quality. Default: quality is not judged", ge=0
    )
    better: Better | None = option(None, _QUALITY_PANEL, "Better quality: higher or lower. Default: higher")

    rounds: Natural | None = option(
        None,
        _ROUNDS_PANEL,
        "Timed runs of each command; with {budget_min}, the maximum. Default: until decided, at most 24",
        le=1000,
    )
    budget_min: Minutes | None = option(
        None, _ROUNDS_PANEL, "Time limit for all rounds, without the warm-up. Default: 30", flag="--budget", metavar="MINUTES"
    )
    control: bool = option(False, _ROUNDS_PANEL, "Run the first command twice per round to show the noise")
    timeout_s: Positive | None = option(None, _ROUNDS_PANEL, "Time limit for each run", flag="--timeout", metavar="SECONDS")
    stop_after: StopText | None = option(
        None,
        _ROUNDS_PANEL,
        "End each run after so many epochs, such as 10, or after as many as a warm-up has in a time, such as 60s",
        metavar="EPOCHS|TIME",
    )
    wait: bool = option(False, _ROUNDS_PANEL, "Wait for another measurement here to end. Default: exit with an error")
    wait_for_quiet_min: Minutes | None = option(
        None,
        _ROUNDS_PANEL,
        "Wait up to this long for other programs to end. Default: no wait",
        flag="--wait-for-quiet",
        metavar="MINUTES",
    )

    workdir: Literal["copy", "commit", "here"] = option(
        "copy",
        _ENVIRONMENT_PANEL,
        "Start runs in a copy of this folder (copy) or its last commit (commit), or in the folder itself (here). Default: copy",
    )
    sources: list[str] = option(
        [], _ENVIRONMENT_PANEL, "Extra files or folders to watch for changes", flag="--source", metavar="PATH"
    )
    caches: Caches = option(
        "warm", _ENVIRONMENT_PANEL, "Compile caches: warm (private, filled by the warm-up), cold or shared. Default: warm"
    )
    isolate: bool = option(False, _ENVIRONMENT_PANEL, "Discard what a run writes to HOME, /tmp and Python packages")
    passed: list[VariablePattern] = option(
        [],
        _ENVIRONMENT_PANEL,
        "Pass hidden variables to all runs: secrets, and others that profiled runs lack",
        flag="--pass",
        metavar="PATTERN",
        alias="pass",
    )
    dropped: list[VariablePattern] = option(
        [],
        _ENVIRONMENT_PANEL,
        "Hide variables from the commands, for example 'WANDB_*'",
        flag="--drop",
        metavar="PATTERN",
        alias="drop",
    )
    blind: bool = option(False, _ENVIRONMENT_PANEL, "Hide speedproof from timed runs, to catch programs that detect it")
    device: Literal["auto", "cuda", "cpu"] = option("auto", _ENVIRONMENT_PANEL, "auto, cuda or cpu. Default: auto")
    gpus: Positive = option(
        1,
        _ENVIRONMENT_PANEL,
        "GPUs that each command uses by starting its own ranks, as torchrun does. Default: 1",
        le=1024,
    )
    container: ImageAddress | None = option(
        None, _ENVIRONMENT_PANEL, "Run the commands in this .sif image with Apptainer", metavar="IMAGE"
    )

    profiled: Natural = option(
        0, _PROFILING_PANEL, "Profiled runs of each command, to explain a difference. Default: 0", le=100
    )
    profiler: RunTracerName = option("nsys", _PROFILING_PANEL, f"{describe_run_tracers()}. Default: nsys")

    flops: bool = option(False, _PROFILING_PANEL, "Count FLOP in one more discarded run of each command (torch), to report MFU")

    profile: str | None = option(
        None,
        _CLUSTER_PANEL,
        "Snakemake profile (not a profiler) for running on a cluster, for example slurm",
        metavar="NAME",
        min_length=1,
    )
    job: RequestedJob | None = option(
        None,
        _CLUSTER_PANEL,
        "Cluster resources: cores, memory_mib, runtime_min, gpu_model. Default: 16 cores, 64 GiB, 4 hours",
        metavar="KEY=VALUE",
    )

    @model_validator(mode="after")
    def _can_be_decided(self, info: ValidationInfo) -> "ProofRequest":
        name = key_names(info)
        mistakes = list_mistakes(self, name)
        if mistakes:
            raise ValueError("; ".join(mistakes))
        _ = self.named_reading(info.context) or self.reading("marks", info.context)
        return self

    @classmethod
    def list_options(cls) -> list[str]:
        """Return the keys that are options of the command line."""
        return [key for key in cls.model_fields if key not in cls.derived]

    def name_folder(self, out: Path) -> Path | None:
        """Return the `--out` of the command line whose proof is in a folder; None if it is the default."""
        return None if out == DEFAULT_OUT else out

    def place_words(self, options: list[str]) -> list[str]:
        """Return the words of the command line that asks this, with these options."""
        return ["prove", *self.commands, *options]

    @property
    def loss_name(self) -> str | None:
        """Return the word by which the quality reads like a loss, if it does."""
        if self.quality is None:
            return None
        return find_loss_name(self.quality, is_column=self.file is not None and self.quality_command is None)

    @property
    def stop(self) -> StopAfter:
        """Return when runs are ended before their own end."""
        return read_stop(self.stop_after) if self.stop_after else StopAfter()

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

    def describe_comparison(self) -> dict[str, Any]:
        """Return settings of the measurement by which commands are compared, other than the defaults."""
        return {}

    def named_reading(self, context: dict[str, Any] | None = None) -> Reading | None:
        """Return the source that was named; None where the warm-up finds one."""
        named = (source for source, keys in ASKED_BY.items() if any(getattr(self, key) for key in keys))
        source = next(named, None)
        return None if source is None else self.reading(source, context)

    def reading(self, source: ReadingSource, context: dict[str, Any] | None = None) -> Reading:
        """Return how variants are read of a source; `context` says how messages call keys."""
        keys = ("epoch", "epoch_s", "epoch_range", "rate", "unit", "cumulative", "file")
        quality = None if self.quality_command else self.quality
        values = {"source": source, "quality": quality} | {key: getattr(self, key) for key in keys}
        return Reading.model_validate(values, context=context)


_Request = TypeVar("_Request", bound=ProofRequest)


def check_request(values: dict[str, Any], origin: str, name: NameKey = str) -> ProofRequest:
    """Return a checked request; raise :class:`ConfigError` with all that is wrong, in one line that calls keys by `name`."""
    return check_model(ProofRequest, values, origin, name)


def check_model(model: type[_Request], values: dict[str, Any], origin: str, name: NameKey = str) -> _Request:
    """Return the same of any kind of request."""
    try:
        return model.model_validate(values, context={"name": name})
    except ValidationError as error:
        raise ConfigError(f"{origin}: {_list_problems(error, name, model)}") from None


def check_options(values: dict[str, Any]) -> ProofRequest:
    """Return a checked request of the command line's options; raise :class:`ConfigError`, which names these, in one line."""
    return check_request(values, "prove", name_option)


def _list_problems(error: ValidationError, name: NameKey, model: type[ProofRequest]) -> str:
    """Return all that is wrong, each with its key as `name` calls it."""
    found = []
    for one in error.errors():
        first, *inner = [part for part in one["loc"] if isinstance(part, str)] or [""]
        called = name(first)
        where = (" " if called.startswith("--") else ".").join([called, *inner])
        said = explain_problem(one, model, "the output of `speedproof init`")
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
    from speedproof.util.yaml_input import read_yaml

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
    import yaml

    lines, panel = ["# speedproof prove proof.yaml"], ""
    for key, value in request.model_dump(mode="json").items():
        if panel != (panel := read_option(key).get("panel", "")):
            lines += ["", f"# -- {panel} --"]
        text = yaml.safe_dump(_name_by_key({key: value}), sort_keys=False, allow_unicode=True, width=1000).rstrip()
        lines += [f"# {describe_key(key, str)}", text]
    return "\n".join(lines) + "\n"


def read_option(key: str, model: type[ProofRequest] = ProofRequest) -> dict[str, str]:
    """Return how a key of a request is shown on the command line: its `panel`, `flag` and `metavar`."""
    shown = model.model_fields[key].json_schema_extra
    return {name: str(value) for name, value in shown.items()} if isinstance(shown, dict) else {}


def name_option(key: str) -> str:
    """Return what a key of a request is called on the command line."""
    if key == "commands" or not key:
        return key
    flag = read_option(key).get("flag") if key in ProofRequest.model_fields else ""
    return flag or f"--{key.replace('_', '-')}"


class _Names(dict[str, str]):
    """What keys are called; what is the name of none, as in `{run}`, stays as it is."""

    def __missing__(self, text: str) -> str:
        return f"{{{text}}}"


def describe_key(key: str, name: NameKey, model: type[ProofRequest] = ProofRequest) -> str:
    """Return what a key of a request means, in words that call other keys by `name`."""
    return (model.model_fields[key].description or "").format_map(_Names({one: name(one) for one in model.model_fields}))
