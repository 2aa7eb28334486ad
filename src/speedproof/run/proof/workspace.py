"""What a proof measures: its commands as variants of a workload, and the configuration."""

import json
import os
import shlex
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from speedproof.config.evaluation import Evaluation
from speedproof.config.job_resources import Resources
from speedproof.config.load import read_completed_config, validate
from speedproof.config.model import WORKLOAD_FILE, Config, Measurement
from speedproof.config.reading import Reading
from speedproof.config.workload import Declared, Workload
from speedproof.results.files import digest_of, sha256_of, write_text
from speedproof.results.folder import CONFIG_FILE
from speedproof.results.observations import WarmUpObserved
from speedproof.results.run_record import PROGRAMS
from speedproof.run.program_variables import deciding_variables
from speedproof.run.proof.find import RESULTS
from speedproof.run.proof.left_files import DIGESTS, Snapshot
from speedproof.run.proof.parent_folders import list_named_above
from speedproof.run.proof.recognition import needs_recognizing
from speedproof.run.proof.request import ProofRequest
from speedproof.run.proof.variant_labels import name_variants, title_variants
from speedproof.run.source_texts import read_sources
from speedproof.run.working_folder import program_environment
from speedproof.util.errors import ConfigError, SpeedproofError
from speedproof.util.image_file import identify_image

CONFIGURATION = "proof.json"
CACHES = "caches"  # compile caches that the warm-up left, of each variant
_ASK_PACKAGES = (
    "import importlib.metadata as m, json, platform; "
    "import site, sysconfig as s; "
    "print(json.dumps([platform.python_version(), sorted({f'{d.name}=={d.version}' for d in m.distributions()}), "
    "sorted({s.get_path('purelib'), s.get_path('platlib'), site.getusersitepackages()})]))"
)


def describe_interpreter(command: str) -> dict[str, Any]:
    """Return Python's version and its packages, by the interpreter that a command names; nothing of another program."""
    program = shlex.split(command)[0]
    if not Path(program).name.startswith("python"):
        return {}
    asked = _ask_interpreter(str(Path(program).absolute()))
    return {name: asked[name] for name in ("python", "packages") if name in asked}


def list_package_folders(command: str) -> list[str]:
    """Return the folders that hold the packages of the interpreter that a command names; none of another program."""
    program = shlex.split(command)[0]
    found = _ask_interpreter(str(Path(program).absolute())) if Path(program).name.startswith("python") else {}
    return [name for name in found.get("folders", []) if Path(name).is_dir()]


def list_named_folders(command: str) -> list[str]:
    """Return the folders that a command's arguments name in full; of one that does not exist yet, the one around it."""
    folders = []
    for word in shlex.split(command)[1:]:
        path = Path(os.path.normpath(word.rpartition("=")[2]))
        if not path.is_absolute() or path.is_file():
            continue
        while not path.exists():
            path = path.parent
        folders += [str(path)] if path.is_dir() and path != Path("/") else []
    return list(dict.fromkeys(folders))


@cache
def _ask_interpreter(program: str) -> dict[str, Any]:
    try:
        # From where nobody's modules lie: with -c Python looks for them in the working folder first. And with the path of a
        # command, which does not find packages beside this one.
        seen = program_environment(os.environ, [])
        asking = [program, "-c", _ASK_PACKAGES]
        done = subprocess.run(asking, cwd="/", env=seen, capture_output=True, text=True, timeout=60, check=True)
        version, packages, folders = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError):
        return {}
    return {"python": version, "packages": packages, "folders": folders}


def read_measurement(out: Path) -> Measurement | None:
    """Return what an earlier call measured; None if it left no record of it."""
    try:
        return read_completed_config(out / RESULTS / CONFIG_FILE).measurement
    except SpeedproofError:
        return None


@dataclass(frozen=True)
class ProofSetup:
    """What is measured: commands as the variants of a workload, and the configuration, as given and as completed.

    The workload's folder holds the copy of the working folder. That it holds a `workload.yaml` too is needed by other processes
    only: see :func:`write_for_others`.
    """

    workload: Workload
    values: dict[str, Any]
    config: Config


@dataclass(frozen=True)
class ProofBasis:
    """What decides what a proof measures, before anything has run.

    The commands run in copies of the snapshot, or in the folder `source` itself. `digests` are those of what else decides.
    """

    out: Path
    request: ProofRequest
    commands: Mapping[str, str]  # of each variant, resolved
    snapshot: Snapshot
    environ: Mapping[str, str]
    source: Path | None = None
    mirrored: int = 0  # folders above the snapshot's source
    digests: Mapping[str, str] = field(default_factory=dict)
    evaluation: Evaluation | None = None
    order_seed: int | None = None
    stop_after: int | None = None  # epochs

    def describe(
        self,
        reading: Reading,
        epochs: Mapping[str, int],
        metric: str | None = None,
        warm_ups: Mapping[str, WarmUpObserved] = MappingProxyType({}),
    ) -> ProofSetup:
        """Return what is measured, and compared by `metric`; `warm_ups` is what was seen of those, once they have run."""
        request, folder = self.request, Path(os.path.normpath((self.out / PROGRAMS).absolute()))
        shared = self._describe_shared(reading)
        variants, titles = {}, title_variants(request)
        for name, command in self.commands.items():
            own = self._describe_variant(name, command)
            warm_up = {"warm_up": warm_ups[name].model_dump(mode="json")} if name in warm_ups else {}
            variants[name] = {
                **shared, **self._describe_place(name), "title": titles[name], **own,
                "epochs": max(1, epochs.get(name, 1)), **warm_up
            }  # fmt: skip
        declared = {
            "title": "Proof",
            "variants": variants,
            "quality": _describe_quality(request),
            "sources": {"experiment": [DIGESTS]},  # thousands of files would be no configuration
        }
        workload = Workload(folder, validate(Declared, declared, "prove"))
        values = {"case": str(folder), **_configure(request, metric, self.order_seed)}
        return ProofSetup(workload, values, validate(Config, workload.complete(values, "prove"), "prove"))

    def _describe_variant(self, name: str, command: str) -> dict[str, Any]:
        """Return what is a variant's own."""
        request = self.request
        image = Path(request.container) if request.container else None
        return {
            "command": command,
            "package_folders": list_package_folders(command) if image is None else [],
            "named_folders": [*list_named_folders(command), *self._list_above(name)] if image is None else [],
            "kept_caches": str((self.out / CACHES / name).absolute()) if request.caches == "warm" else None,
            "settings": {
                **(describe_interpreter(command) if image is None else {"image_id": identify_image(image)}),
                **({"sources": dict(self.digests)} if self.digests else {}),
                **({"caches": request.caches} if request.caches != "warm" else {}),
                **({"isolated": True} if request.isolate else {}),
                "variables": list(deciding_variables(self.environ, request.passed, request.dropped)),
                # Student's interval is of a number that was fixed: who adds rounds after a look finds more than there is.
                **({"rounds": request.fixed_rounds} if request.fixed_rounds else {}),
                **({"blind": True} if request.blind else {}),
                **({"stop_after": self.stop_after} if self.stop_after else {}),
            },
        }

    def _describe_place(self, name: str) -> dict[str, Any]:
        """Return where a variant runs."""
        if self.source is not None:
            return {"tree": None, "linked": {}, "place": str(self.source.absolute())}
        linked = self.snapshot.list_linked(name, self.out / PROGRAMS)
        place: dict[str, Any] = {"tree": f"{{workload}}/{self.snapshot.name_tree(name)}", "linked": linked}
        if self.mirrored and self.snapshot.source is not None:
            place |= {"origin": os.path.realpath(self.snapshot.source), "mirrored": self.mirrored}
        return place

    def _list_above(self, name: str) -> list[str]:
        """Return the real folders above the working folder that a variant's command or sources name."""
        source = self.snapshot.source
        if not self.mirrored or source is None:
            return []
        tree = self.out / PROGRAMS / self.snapshot.name_tree(name)
        return list_named_above(Path(os.path.realpath(source)), self.mirrored, [self.commands[name], *read_sources(tree)])

    def _describe_shared(self, reading: Reading) -> dict[str, Any]:
        """Return what all variants have in common."""
        request, snapshot = self.request, self.snapshot
        return {
            "fixed": [str(((snapshot.source or Path()) / name).absolute()) for name in request.sources],
            "caches": request.caches,
            "isolated": request.isolate,
            "environment": {"PATH": self.environ.get("PATH", os.defpath)},
            "inherit_environment": True,
            "pass_environment": request.passed,
            "drop_environment": request.dropped,
            "reads": reading.model_dump(mode="json"),
            "stop_after": self.stop_after,
            "terminal": needs_recognizing(request),  # so that warm-up and timed runs look alike to it
            "gpus": request.gpus,
            "own_ranks": request.gpus > 1,
            "told_epochs": False,  # in no run, since the warm-up has to find how many there are
            "blind": request.blind,
            "evaluation": self.evaluation.model_dump(mode="json") if self.evaluation else None,
            **({"image": str(Path(request.container).absolute())} if request.container else {}),
        }


def _describe_quality(request: ProofRequest) -> dict[str, Any]:
    questioned = request.loss_name if request.better != "lower" else None
    title = f"{'' if request.quality_command else 'reported '}{f'{questioned} (higher is better)' if questioned else 'quality'}"
    rule = {"name": "quality", "title": title, "better": request.better or "higher", "margin": request.margin}
    return {**rule, "judged_above": None, "targets": []}


def _configure(request: ProofRequest, metric: str | None, order_seed: int | None) -> dict[str, Any]:
    """Return the configuration that measures the commands of a request."""
    stopping = {
        "until": "decided",
        "claim": request.claim,
        "budget_min": request.budget,
    }
    measurement = {
        "variants": name_variants(request),
        "rounds": request.most_rounds,
        **({} if request.fixed_rounds else stopping),
        "metric": metric,
        "order_seed": order_seed,
        "profiled": request.profiled,
        "control": request.control,
        "trust_reported": request.trust_reported,
        "device": request.device,
        "timeout_s": request.timeout_s,
        **request.describe_comparison(),
    }
    job = request.job or Resources().experiment
    resources = {"experiment": job.model_copy(update={"gpus": 0 if request.device == "cpu" else request.gpus}).model_dump()}
    return {"measurement": measurement, "profiling": {"backend": request.profiler}, "resources": resources}


def write_for_others(measured: ProofSetup, out: Path) -> Path:
    """Write what is measured for processes other than this one, and return the path of the configuration.

    Those are Snakemake and its jobs, and the process that starts a program under a profiler.
    """
    declared = measured.workload.declared.model_dump(mode="json", exclude_unset=True)
    write_text(measured.workload.folder / WORKLOAD_FILE, json.dumps(declared, indent=1, ensure_ascii=False) + "\n")
    configuration = out / CONFIGURATION
    write_text(configuration, json.dumps(measured.values, indent=1) + "\n")
    return configuration


def write_claims(measured: ProofSetup) -> None:
    """Write an empty file of documented numbers: comparisons and `results archive` read it."""
    write_text(measured.workload.claims, "sources: {}\nclaims: []\n")


def digest_sources(source: Path, names: list[str]) -> dict[str, str]:
    """Return a digest of each file's or folder's content, by its name relative to `source`.

    Raises :class:`ConfigError` if one is missing.
    """
    digests = {}
    for name in names:
        path = source / name
        if not path.exists():
            raise ConfigError(f"source: {name}: no such file or folder in {source}; correct it, or leave it out")
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        contents = {file.relative_to(path).as_posix(): sha256_of(file) for file in files if file.is_file()}
        digests[name] = digest_of(contents)[:16]
    return digests


def describe_commit(source: Path) -> str:
    """Return the commit of a folder, and which files differ from it; nothing outside a git checkout."""

    def ask(*words: str) -> list[str]:
        done = subprocess.run(["git", *words], cwd=source, capture_output=True, text=True, check=True)
        return done.stdout.splitlines()

    try:
        (commit,) = ask("rev-parse", "--short=12", "HEAD")
        edited = [line[3:] for line in ask("status", "--porcelain", "--untracked-files=normal", ".")]
    except (OSError, ValueError, subprocess.CalledProcessError):
        return ""
    return f"commit {commit}" + (f", with changes to {', '.join(sorted(edited)[:8])}" if edited else "")


def check_out(out: Path, source: Path) -> None:
    """Check that a proof's folder can be one.

    Raises :class:`ConfigError` if it is the working folder itself, or holds something other than a proof.
    """
    if out.resolve() == source.resolve():
        raise ConfigError(f"--out: {out} is the working folder itself; name a folder for the proof")
    if out.is_dir() and any(out.iterdir()) and not (out / PROGRAMS).is_dir():
        raise ConfigError(f"--out: {out} holds something other than a proof; name another folder")
