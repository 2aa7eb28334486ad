"""What a proof measures: a copy of the working folder as it was, the commands as variants of a workload, the configuration."""

import json
import os
import re
import shlex
import shutil
import string
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from stat import S_ISREG
from types import MappingProxyType
from typing import Any

from speedproof.config.evaluation import Evaluation
from speedproof.config.load import read_completed_config, validate
from speedproof.config.model import Config, Measurement, Resources
from speedproof.config.reading import Reading
from speedproof.config.workload import WORKLOAD_FILE, Declared, Workload
from speedproof.results.files import digest_of, sha256_of, write_text
from speedproof.results.folder import CONFIG_FILE
from speedproof.results.observations import WarmUpObserved
from speedproof.run.program_variables import deciding_variables
from speedproof.run.proof.find import PROGRAMS, RESULTS
from speedproof.run.proof.request import REQUEST_SUFFIXES, ProofRequest, read_request
from speedproof.run.working_folder import UNWATCHED
from speedproof.util.errors import ConfigError, SpeedproofError
from speedproof.util.image_file import identify_image
from speedproof.util.secrets import scrub_secrets

TREE, DIGESTS, CONFIGURATION = "tree", "tree.sha256", "proof.json"
OUTPUTS_FILE = "outputs.json"
CACHES = "caches"  # compile caches that the warm-up left, of each variant
LINKED_FROM_MIB = 64
_LARGEST_REQUEST = 2**16  # bytes
_ASK_PACKAGES = (
    "import importlib.metadata as m, json, platform; "
    "import site, sysconfig as s; "
    "print(json.dumps([platform.python_version(), sorted({f'{d.name}=={d.version}' for d in m.distributions()}), "
    "sorted({s.get_path('purelib'), s.get_path('platlib'), site.getusersitepackages()})]))"
)


@dataclass(frozen=True)
class Snapshot:
    """What a run's working folder holds besides copied files: what is linked instead; and what it lacks."""

    linked: dict[str, str] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)  # large, or ignored by git, and the proof lies in it
    changed: list[str] = field(default_factory=list)  # against the copy that an earlier call took
    source: Path | None = field(default=None, compare=False)  # the folder that was copied


def name_variants(request: ProofRequest) -> list[str]:
    """Return a letter for each command."""
    return list(string.ascii_lowercase[: len(request.commands)])


def title_of(name: str, command: str) -> str:
    """Return what tables call a variant: its letter, and its command without secrets."""
    text = f"{name.upper()}: {scrub_secrets(command)}"
    return text if len(text) <= 80 else f"{text[:79]}…"


def take_snapshot(source: Path, out: Path, committed: bool = False, commands: Sequence[str] = ()) -> Snapshot:
    """Copy the working folder `source` into the proof's folder `out`; what is large, or ignored by git, is linked instead.

    Of what git knows its last commit is taken where `committed` is asked for. Edits that are made while it runs change nothing;
    those since an earlier call are named. No part of it are the file that our own output goes to, which is another one each
    time, and files that ask for a proof of these `commands`.

    Raises :class:`ConfigError` where there is no commit.
    """
    tree = out / PROGRAMS / TREE
    known, before = tree.is_dir(), _digest_tree(tree)
    shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir(0o700 | (source.stat().st_mode & 0o077), parents=True)  # no more open than what it copies
    (out / PROGRAMS / DIGESTS).touch()  # by which it is known for a proof, and not copied into itself
    leave_out = partial(_leave_out, _list_outputs(out), list(commands))
    names = [entry.name for entry in source.iterdir()]
    names = sorted({*names} - {*leave_out(str(source), names)})
    ignored = _ignored_by_git(source, names)
    linked, left_out = {}, []
    for entry in (source / name for name in names):
        if entry.name in ignored or (not committed and ((entry.is_symlink() and entry.is_dir()) or _is_large(entry))):
            if out.resolve().is_relative_to(entry.resolve()):  # it would hold what is measured of it
                left_out.append(entry.name)
            else:
                linked[entry.name] = str(entry.absolute())
        elif committed:
            continue
        elif entry.is_dir():
            shutil.copytree(entry, tree / entry.name, symlinks=True, ignore=leave_out)
        else:
            shutil.copy2(entry, tree / entry.name, follow_symlinks=entry.exists())
    if committed:
        _take_commit(source, tree)
    after = _digest_tree(tree)
    lines = [f"{digest.hex()}  {name}" for name, digest in after.items()]
    write_text(out / PROGRAMS / DIGESTS, "\n".join(["# What decides what is measured.", *lines, ""]))
    changed = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    return Snapshot(linked, left_out, changed if known else [], source)


def _list_outputs(out: Path) -> set[tuple[int, int]]:
    """Return device and inode of the files that stdout and stderr go to, as in `prove … --json > verdict.json`.

    Those of earlier calls of the proof in `out` are among them.
    """
    path = out / OUTPUTS_FILE
    found: set[tuple[int, int]] = set()
    with suppress(OSError, ValueError, TypeError):
        found = {(device, inode) for device, inode in json.loads(path.read_text(encoding="utf-8"))}
    for stream in (1, 2):
        with suppress(OSError):
            state = os.fstat(stream)
            if S_ISREG(state.st_mode):
                found.add((state.st_dev, state.st_ino))
    if found:
        write_text(path, json.dumps(sorted(found)) + "\n")
    return found


def _identify(path: Path) -> tuple[int, int] | None:
    try:
        state = path.lstat()
    except OSError:
        return None
    return state.st_dev, state.st_ino


def _leave_out(outputs: set[tuple[int, int]], commands: list[str], folder: str, names: list[str]) -> list[str]:
    """Return which entries of a folder are not copied: tools' own, our own output, proofs, and what is no file."""
    paths = {name: Path(folder, name) for name in names}
    return [
        name for name, path in paths.items() if name in UNWATCHED or _is_none_of_its(path, outputs) or _asks_for(path, commands)
    ]


def _asks_for(path: Path, commands: list[str]) -> bool:
    """Return whether a file, as `speedproof init` writes it, asks for a proof of these commands."""
    try:
        small = path.suffix in REQUEST_SUFFIXES and path.stat().st_size <= _LARGEST_REQUEST
        return small and b"commands" in path.read_bytes() and read_request(path).commands == commands
    except (OSError, SpeedproofError):
        return False


def _is_none_of_its(path: Path, outputs: set[tuple[int, int]]) -> bool:
    if path.is_symlink():
        return False
    special = not path.is_file() and not path.is_dir()  # a pipe, a socket
    return special or _identify(path) in outputs or (path / PROGRAMS / DIGESTS).is_file()


def _take_commit(source: Path, tree: Path) -> None:
    """Put the files of a folder's last commit into `tree`."""
    try:
        done = subprocess.run(["git", "archive", "--format=tar", "HEAD", "."], cwd=source, capture_output=True, check=True)
        # As a checkout has them, links and rights included.
        subprocess.run(["tar", "--extract", "--directory", tree], input=done.stdout, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        said = getattr(error, "stderr", b"").decode(errors="replace").strip() or str(error)
        why = said.splitlines()[0]
        raise ConfigError(f"workdir: no commit of {source} to be had ({why}); commit, or leave it out") from None


# What only a shell understands: as words they would be handed to the program.
_SHELLS = {"&&", "||", "|", ";", "&", "<", ">", ">>", "2>", "2>&1", "&>"}
_REDIRECTION = re.compile(r"(\d?>{1,2}|&>)[^=>].*")
_BUILTINS = {"cd", "export", "source", ".", "set", "ulimit", "exec"}
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")


def resolve_command(command: str, source: Path, path: str, contained: bool = False) -> tuple[str, list[str]]:
    """Return a command that means the same in a copy of the folder `source`, and what is wrong with it, if anything.

    Its program is found now, by the `path` of who asks, or in the image that it is `contained` in; files outside of the folder
    are named in full.
    """
    first, *words = shlex.split(command)
    shell = _SHELLS.intersection(words) or any(word.endswith(";") or _REDIRECTION.fullmatch(word) for word in (first, *words))
    if first in _BUILTINS or shell:
        return command, [f"no shell reads {command!r:.80}; write sh -c {shlex.quote(command)}"]
    if _ASSIGNMENT.match(first):
        return command, [f"no shell reads {command!r:.80}; write env {command}"]
    if contained and os.sep not in first:
        return command, _list_missing_scripts(command, words, source)
    if contained and os.path.isabs(first):  # noqa: PTH117
        return command, []
    program = source / first if os.sep in first else shutil.which(first, path=path)
    if program is None:
        return command, [
            f"{first}: no such program on your PATH; correct the command {command!r:.80}, and quote one that has arguments"
        ]
    if not Path(program).is_file():
        return command, [f"{first}: no such file in {source}; correct the command {command!r:.80}"]
    if not os.access(program, os.X_OK):
        return command, [f"{first}: cannot be executed; allow it (chmod +x {first}), or name what runs it (sh {first})"]
    mistakes = _list_missing_scripts(command, words, source)
    if Path(program).absolute().is_relative_to(source.absolute()) and os.sep in first and not os.path.isabs(first):  # noqa: PTH117
        found = first if not first.startswith("..") else str(Path(program).absolute())
    else:
        found = str(Path(program).absolute())
    outside = [
        str((source / word).resolve()) if word.startswith("../") and (source / word).exists() else word for word in words
    ]
    return shlex.join([found, *outside]), mistakes


def _list_missing_scripts(command: str, words: list[str], source: Path) -> list[str]:
    return [
        f"{word}: no such file in {source}; correct the command {command!r:.80}"
        for word in words[:1]
        if Path(word).suffix in (".py", ".sh") and not (source / word).exists()
    ]


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


@cache
def _ask_interpreter(program: str) -> dict[str, Any]:
    try:
        # From where nobody's modules lie: with -c Python looks for them in the working folder first.
        done = subprocess.run([program, "-c", _ASK_PACKAGES], cwd="/", capture_output=True, text=True, timeout=60, check=True)
        version, packages, folders = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError):
        return {}
    return {"python": version, "packages": packages, "folders": folders}


def read_measurement(out: Path) -> Measurement | None:
    """Return what an earlier call measured; None where it left nothing that says so."""
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


def describe_measured(
    out: Path,
    request: ProofRequest,
    commands: Mapping[str, str],
    snapshot: Snapshot,
    reading: Reading,
    epochs: Mapping[str, int],
    environ: Mapping[str, str],
    source: Path | None = None,
    digests: Mapping[str, str] = MappingProxyType({}),
    metric: str | None = None,
    warm_ups: Mapping[str, WarmUpObserved] = MappingProxyType({}),
    evaluation: Evaluation | None = None,
    order_seed: int | None = None,
) -> ProofSetup:
    """Return what is measured of a request, and compared by `metric`.

    The commands run in copies of the snapshot, or in the folder `source` itself. `digests` are those of what else decides;
    `warm_ups` is what was seen of those, once they have run. `order_seed` decides the order of the runs.
    """
    titles = dict(zip(commands, request.commands, strict=True))
    shared = _describe_shared(request, snapshot, reading, environ, source)
    shared["evaluation"] = evaluation.model_dump(mode="json") if evaluation else None
    variables = list(deciding_variables(environ, request.passed, request.dropped))
    image = Path(request.container) if request.container else None
    variants = {
        name: {
            **shared,
            "title": title_of(name, titles[name]),
            "command": command,
            "package_folders": list_package_folders(command) if image is None else [],
            "warm_up": warm_ups.get(name),
            "kept_caches": str((out / CACHES / name).absolute()) if request.caches == "warm" else None,
            "epochs": max(1, epochs.get(name, 1)),
            **({"warm_up": warm_ups[name].model_dump(mode="json")} if name in warm_ups else {}),
            "settings": {
                **(describe_interpreter(command) if image is None else {"image_id": identify_image(image)}),
                **({"sources": dict(digests)} if digests else {}),
                **({"caches": request.caches} if request.caches != "warm" else {}),
                **({"isolated": True} if request.isolate else {}),
                "variables": variables,
                # Student's interval is of a number that was fixed: who adds rounds after a look finds more than there is.
                **({"rounds": request.fixed_rounds} if request.fixed_rounds else {}),
                **({"blind": True} if request.blind else {}),
            },
        }
        for name, command in commands.items()
    }
    folder = Path(os.path.normpath((out / PROGRAMS).absolute()))
    title = "quality" if request.quality_command else "reported quality"
    quality = {"name": "quality", "title": title, "better": request.better or "higher", "margin": request.margin}
    declared = {
        "title": "Proof",
        "variants": variants,
        "quality": {**quality, "judged_above": None, "targets": []},
        "sources": {"experiment": [DIGESTS]},  # thousands of files would be no configuration
    }
    workload = Workload(folder, validate(Declared, declared, "prove"))
    values = {"case": str(folder), **_configure(request, metric, order_seed)}
    return ProofSetup(workload, values, validate(Config, workload.complete(values, "prove"), "prove"))


def _describe_shared(
    request: ProofRequest, snapshot: Snapshot, reading: Reading, environ: Mapping[str, str], source: Path | None
) -> dict[str, Any]:
    """Return what all sides of a proof have in common."""
    place: dict[str, Any] = (
        {"tree": f"{{workload}}/{TREE}", "linked": snapshot.linked}
        if source is None
        else {"tree": None, "linked": {}, "place": str(source.absolute())}
    )
    return {
        **place,
        "fixed": [str(((snapshot.source or Path()) / name).absolute()) for name in request.sources],
        "caches": request.caches,
        "isolated": request.isolate,
        "environment": {"PATH": environ.get("PATH", os.defpath)},
        "inherit_environment": True,
        "pass_environment": request.passed,
        "drop_environment": request.dropped,
        "reads": reading.model_dump(mode="json"),
        "gpus": request.gpus,
        "own_ranks": request.gpus > 1,
        "told_epochs": False,  # in no run, since the warm-up has to find how many there are
        "blind": request.blind,
        **({"image": str(Path(request.container).absolute())} if request.container else {}),
    }


def _configure(request: ProofRequest, metric: str | None, order_seed: int | None) -> dict[str, Any]:
    """Return the configuration that measures the commands of a request."""
    stopping = {
        "until": "decided",
        "claimed": request.claimed,
        "claimed_at_most": request.claims_at_most,
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
    """Write the documented numbers of a proof, which are none: what compares results, and `record`, read their file."""
    write_text(measured.workload.claims, "sources: {}\nclaims: []\n")


def digest_sources(source: Path, names: list[str]) -> dict[str, str]:
    """Return a digest of the content of each file or folder, by its name relative to `source`.

    Raises :class:`ConfigError` where one is not there.
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
    """Return the commit of a folder, and which files differ from it; nothing outside of a git checkout."""

    def ask(*words: str) -> list[str]:
        done = subprocess.run(["git", *words], cwd=source, capture_output=True, text=True, check=True)
        return done.stdout.splitlines()

    try:
        (commit,) = ask("rev-parse", "--short=12", "HEAD")
        edited = [line[3:] for line in ask("status", "--porcelain", "--untracked-files=normal", ".")]
    except (OSError, ValueError, subprocess.CalledProcessError):
        return ""
    return f"commit {commit}" + (f", and what differs from it: {', '.join(sorted(edited)[:8])}" if edited else "")


def _digest_tree(tree: Path) -> dict[str, bytes]:
    """Return the digest of each file of a tree, by its name: of its content, and of who may execute it."""
    import hashlib

    return {
        path.relative_to(tree).as_posix(): hashlib.sha256(b"%o" % (path.stat().st_mode & 0o111) + path.read_bytes()).digest()
        for path in (sorted(tree.rglob("*")) if tree.is_dir() else [])
        if path.is_file()
    }


def _ignored_by_git(folder: Path, names: list[str]) -> set[str]:
    try:
        done = subprocess.run(
            ["git", "check-ignore", "--stdin", "-z"], cwd=folder, input="\0".join(names), capture_output=True, text=True
        )
    except OSError:
        return set()
    return set(done.stdout.split("\0")) - {""}


def _is_large(entry: Path) -> bool:
    """Return whether a file or folder is too large to be copied for each run."""
    total = 0
    paths = entry.rglob("*") if entry.is_dir() else [entry]
    for path in paths:
        try:
            total += path.lstat().st_size
        except OSError:
            continue
        if total > LINKED_FROM_MIB * 2**20:
            return True
    return False


def check_out(out: Path, source: Path) -> None:
    """Check that a proof's folder can be one.

    Raises :class:`ConfigError` where it is the working folder itself, or holds what is no proof.
    """
    if out.resolve() == source.resolve():
        raise ConfigError(f"--out: {out} is the working folder itself; name a folder for the proof")
    if out.is_dir() and any(out.iterdir()) and not (out / PROGRAMS).is_dir():
        raise ConfigError(f"--out: {out} holds something else than a proof; name another folder")
