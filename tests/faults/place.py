"""A working folder with a tiny configuration, the commands that work in it, and what can be seen of it from outside."""

import csv
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
CLAIMS = ROOT / "workloads/spleen/claims.yaml"
MODULES = os.pathsep.join(str(ROOT / name) for name in ("src", "workloads/spleen", "workloads/accelerate"))
# A training process sees allowed variables only, and hands this one on to all that it starts.
MARK = "TORCH_FAULT_TEST"
PATIENCE_S = 600  # a busy machine is slow; a step that hangs is not waited for for ever
ENDING_S = 90  # what is told to stop may take a minute to write its record

_GROUPED = {
    "analyze": ["trace", "analyze"],
    "rebuild": ["results", "rebuild"],
    "report": ["results", "report"],
    "record": ["results", "archive"],
}

# What a variant needs to train in a second: no threads besides, a network of a few thousand weights.
TINY = {"network": {"channels": [4, 8], "dropout": 0.0}, "cache_workers": 1, "validation_cache_workers": 1, "step_log": False}


@dataclass(frozen=True)
class Ended:
    """A command that ended: its exit status (negative: the signal), and what it said to a person."""

    status: int
    said: str

    @property
    def message(self) -> str:
        """The one line of a refusal, without the program's name; the signal where it could say nothing."""
        lines = [line for line in self.said.splitlines() if line.startswith("speedproof: ")]
        return lines[-1].removeprefix("speedproof: ") if lines else ""

    def describe_status(self) -> str:
        return f"{signal.Signals(-self.status).name}" if self.status < 0 else str(self.status)


@dataclass
class Place:
    """A working folder; `config` is what its steps are told, as the workflow tells them: results/config.json."""

    folder: Path
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)
    before: tuple[str, ...] = ()  # words in front of every command
    variables: dict[str, str] = field(default_factory=dict)

    @property
    def results(self) -> Path:
        return self.folder / "results"

    @property
    def dataset(self) -> Path:
        return self.results / "data/phantom/dataset.json"

    @property
    def experiment(self) -> Path:
        return self.results / "experiments/experiment-1"

    @property
    def temporary(self) -> Path:
        # Not below the folder, whose path may be too long for the sockets that loaders' workers lay there.
        return Path(tempfile.gettempdir(), f"faults-{self.mark[:12]}")

    def configure(self, **changes: Mapping[str, Any]) -> None:
        """Write the configuration: the ci one with few epochs on the processor, and what is changed, section by section."""
        code = (
            "import json, sys; from pathlib import Path; from speedproof_spleen.config import load_config;"
            "from speedproof.results.files import write_json;"
            "write_json(Path('results/config.json'), load_config(*map(Path, sys.argv[1:])))"
        )
        (self.folder / "changes.json").write_text(json.dumps(_merge(_settings(), changes)))
        files = [ROOT / "config.yaml", ROOT / "workflow/config/ci.yaml", "changes.json"]
        ended = self._complete([sys.executable, "-c", code, *map(str, files)])
        assert ended.status == 0, ended.said

    def words(self, step: str, *options: str) -> list[str]:
        """Return the command line of a step, as the workflow's rules write it."""
        config = f"--config={self.results / 'config.json'}"
        known = {
            "data": [config, f"--out={self.dataset}"],
            "doctor": [config, f"--out={self.results / 'doctor.json'}"],
            "experiment": [config, f"--dataset={self.dataset}", "--name=experiment-1", f"--out={self.experiment}"],
            "verdicts": [f"--from={self.results}", f"--claims={CLAIMS}"],
            "rebuild": [f"--from={self.results}", f"--claims={CLAIMS}"],
            "report": [f"--from={self.results}"],
            "record": [f"--from={self.results}", f"--claims={CLAIMS}", f"--out={self.folder / 'record'}"],
        }
        module = "speedproof_spleen" if step == "data" else "speedproof"
        return [*self.before, sys.executable, "-m", module, *_GROUPED.get(step, [step]), *known.get(step, []), *options]

    def run(self, step: str, *options: str) -> Ended:
        """Run a step to its end."""
        return self._complete(self.words(step, *options))

    def start(self, step: str, *options: str) -> "Running":
        return self.start_words(self.words(step, *options))

    def start_words(self, words: Sequence[str]) -> "Running":
        said = self.folder / f"said-{uuid.uuid4().hex[:8]}"
        with said.open("wb") as output:
            process = subprocess.Popen(
                words,
                cwd=self.folder,
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        return Running(self, process, said)

    def environment(self) -> dict[str, str]:
        self.temporary.mkdir(exist_ok=True)
        own = {MARK: self.mark, "OMP_NUM_THREADS": "1", "TMPDIR": str(self.temporary), "PYTHONPATH": MODULES}
        site = [os.environ["PYTHONPATH"]] if os.environ.get("PYTHONPATH") else []
        own["PYTHONPATH"] = os.pathsep.join([own["PYTHONPATH"], *site])
        return {**os.environ, **own, **self.variables}

    def _complete(self, words: Sequence[str]) -> Ended:
        return self.start_words(words).wait()

    def log_of(self, run: str) -> str:
        """Return what a run's processes said so far; empty where there is no such run."""
        return "".join(path.read_text(errors="replace") for path in self.experiment.glob(f"runs/{run}/**/log.txt"))

    # What is there

    def snapshot(self) -> dict[str, str]:
        """Return the digest of every file of the results and of the volumes; logs and the like are no results."""
        found = {}
        for top in (self.results, self.folder / "data", self.folder / "record"):
            for path in top.rglob("*") if top.exists() else []:
                if path.is_file() and not path.name.endswith((".log", ".lock")) and path.name != "log.txt":
                    found[str(path.relative_to(self.folder))] = hashlib.sha256(path.read_bytes()).hexdigest()
        return found

    def leftovers(self) -> list[str]:
        """Return files and folders that should have gone: temporary ones, by name or by place; locks may stay."""
        hidden = [
            path
            for top in (self.results, self.folder / "data")
            for path in (top.rglob(".*") if top.exists() else [])
            if path.name != ".speedproof.json" and not path.name.endswith(".lock")
        ]
        drafts = self.folder.glob(".record-*")
        return sorted(map(str, [*hidden, *drafts, *self.temporary.glob("speedproof*")]))

    def whole_runs(self) -> list[str]:
        found = []
        for path in sorted(self.experiment.glob("runs/*/run.json")):
            with suppress(ValueError):
                if json.loads(path.read_text())["outcome"] == "completed":
                    found.append(path.parent.name)
        return found


@dataclass
class Running:
    """A command under way."""

    place: Place
    process: subprocess.Popen[bytes]
    said_file: Path

    def wait_for(self, sign: Callable[[], object], seconds: float = PATIENCE_S) -> None:
        """Wait until something can be seen; the command must not have ended by then."""
        deadline = time.monotonic() + seconds
        while not sign():
            assert self.process.poll() is None, f"ended before its fault was injected: {self.said()}"
            assert time.monotonic() < deadline, f"its sign never came: {self.said()}"
            time.sleep(0.01)

    def said(self) -> str:
        return self.said_file.read_text(errors="replace")

    def wait(self, seconds: float = PATIENCE_S) -> Ended:
        try:
            status = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            end_marked(self.place.mark)
            raise AssertionError(f"hangs: {self.said()}") from None
        said = self.said()
        self.said_file.unlink()
        return Ended(status, said)

    def kill(self, number: int) -> Ended:
        """Send a signal as the system does: HUP to the terminal's whole session, any other to the command alone."""
        if number == signal.SIGHUP:
            os.killpg(self.process.pid, number)
        else:
            self.process.send_signal(number)
        return self.wait(ENDING_S)


def _settings() -> dict[str, Any]:
    return {
        "results": "results",
        "data": {"folder": "data"},
        "workload": {"validation_cases": 1, "patches_per_volume": 1},
        "measurement": {
            "variants": ["baseline"],
            "rounds": 2,
            "profiled": 0,
            "device": "cpu",
            "epochs": 8,
            "validate_every": 4,
        },
        "profiling": {"backend": "kineto"},
        "variants": {"baseline": TINY},
    }


def _merge(base: Any, changes: Any) -> Any:
    if not (isinstance(base, dict) and isinstance(changes, Mapping)):
        return changes
    return {
        key: _merge(base[key], changes[key]) if key in base and key in changes else {**base, **changes}[key]
        for key in {**base, **changes}
    }


# Who still lives


def find_marked(mark: str) -> list[int]:
    """Return the processes that bear a mark in their environment, but for those that ended and are not yet collected."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (
                f"{MARK}={mark}".encode() in (folder / "environ").read_bytes()
                and "\nState:\tZ" not in (folder / "status").read_text()
            ):
                found.append(int(folder.name))
    return found


def trainers(here: Place) -> list[int]:
    """Return this place's processes that train, the first one first; their own children are among them."""
    found = []
    for process in sorted(find_marked(here.mark)):
        with suppress(OSError):
            words = Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")
            if b"train" in words and b"-m" in words and b"torch.distributed.run" not in words:
                found.append(process)
    return found


def signal_trainers(here: Place, number: int) -> None:
    for trainer in trainers(here):
        os.kill(trainer, number)


def end_marked(mark: str) -> None:
    for process in find_marked(mark):
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def assert_none_lives_on(mark: str, seconds: float = ENDING_S) -> None:
    """Wait a little for what was told to stop; a training that lives on would spoil whatever is measured next."""
    deadline = time.monotonic() + seconds
    while living := find_marked(mark):
        if time.monotonic() > deadline:
            commands = [Path(f"/proc/{one}/cmdline").read_bytes().replace(b"\0", b" ").decode()[:200] for one in living]
            end_marked(mark)
            raise AssertionError(f"lives on: {commands}")
        time.sleep(0.05)


# Whether two results are the same


def undisturbed(place: Place) -> dict[str, Any]:
    """Return all of a results folder that does not depend on when and how fast: what a rerun must end in."""
    found: dict[str, Any] = {"files": _files(place)}
    for name in ("data/phantom/dataset.json", "experiments/experiment-1/plan.json", "config.json"):
        if (place.results / name).exists():
            found[name] = json.loads((place.results / name).read_text())
    for folder in sorted(place.experiment.glob("runs/*")):
        run = json.loads((folder / "run.json").read_text())
        keys = [
            "run",
            "variant",
            "mode",
            "profiler",
            "round",
            "seed",
            "epochs",
            "techniques",
            "workload",
            "ranks",
            "outcome",
            "best_quality",
            "best_quality_epoch",
        ]
        found[folder.name] = {key: run[key] for key in keys} | {"conditions": {**run["conditions"], "git_commit": None}}
        with (folder / "epochs.csv").open() as table:
            found[f"{folder.name} epochs"] = [
                {key: row[key] for key in ("epoch", "loss", "quality", "quality_with_background", "steps")}
                for row in csv.DictReader(table)
            ]
    if (place.experiment / "experiment.json").exists():
        experiment = json.loads((place.experiment / "experiment.json").read_text())
        found["experiment.json"] = {
            key: experiment[key] for key in ("experiment", "variants", "order", "runs", "quality", "undone", "left_out")
        }
        found["vouched"] = sorted(experiment["digests"])
    for path in sorted(place.results.glob("analysis/**/*.json")):
        found[str(path.relative_to(place.results))] = shape_of(json.loads(path.read_text()))
    if (place.results / "comparison.json").exists():
        found["comparison.json"] = shape_of(json.loads((place.results / "comparison.json").read_text()))
    if (place.results / "report.md").exists():
        found["report.md"] = [line for line in (place.results / "report.md").read_text().splitlines() if line.startswith("#")]
    return found


def shape_of(value: Any) -> Any:
    """Return a JSON value's names and kinds, without numbers and what is said of them."""
    if isinstance(value, dict):
        return {key: shape_of(item) for key, item in value.items()}
    if isinstance(value, list):
        return [shape_of(value[0])] if value else []
    return "number" if isinstance(value, int | float) and not isinstance(value, bool) else type(value).__name__


def _files(place: Place) -> list[str]:
    names = (name for name in place.snapshot() if not name.startswith("record/"))
    return sorted(
        {
            re.sub(r"events\.out\.tfevents\.\S+", "events", name)
            for name in names
            if "/trace/" not in name and "/analysis/" not in name
        }
    )


def differences(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """Return what is in one and not in the other, by name; of lists, such as that of all files, which items."""
    return [f"{key}: {_differ(one.get(key), other.get(key))}" for key in {**one, **other} if one.get(key) != other.get(key)]


def _differ(one: Any, other: Any) -> str:
    if isinstance(one, list) and isinstance(other, list):
        more, less = ([item for item in these if item not in those] for these, those in ((one, other), (other, one)))
        return f"besides {more}, without {less}"[:400]
    return f"{str(one)[:120]} is not {str(other)[:120]}"


@contextmanager
def mounted(folder: Path, size: str) -> Iterator[Callable[[str], None]]:
    """Put a small disk of its own under a folder, with what the folder holds; yield what mounts it anew with other options."""
    top = Path(tempfile.mkdtemp(prefix="aside-"))  # outside of the results, whose files are looked at
    aside = top / folder.name
    folder.mkdir(parents=True, exist_ok=True)
    folder.rename(aside)
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "fault", folder], check=True)
    try:
        shutil.copytree(aside, folder, dirs_exist_ok=True)
        yield lambda options: subprocess.run(["mount", "-o", f"remount,{options}", folder], check=True)
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)
        folder.rmdir()
        aside.rename(folder)
        top.rmdir()
