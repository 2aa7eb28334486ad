"""The workflow as a subprocess of `prove`, for a Snakemake profile that sends its jobs elsewhere."""

import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

import yaml

from speedproof.report.figures.figure_data import Evidence, read_evidence
from speedproof.results.files import read_record, write_text
from speedproof.run.proof.executor import ENDING, INTERRUPTED
from speedproof.run.proof.find import RESULTS
from speedproof.run.proof.live_status import Status
from speedproof.run.proof.progress import Progress, Records
from speedproof.run.proof.request import ProofRequest
from speedproof.run.proof.warm_up import REQUEST_FILE, WARMED_UP, WarmUp
from speedproof.run.proof.workspace import ProofSetup, write_for_others
from speedproof.util.environment import SAFE_PATH
from speedproof.util.errors import ConfigError, SpeedproofError, TrainingError, advise_install
from speedproof.util.failure_reasons import REASONS_VARIABLE, read_reasons
from speedproof.util.guardian import PR_SET_PDEATHSIG, PRCTL
from speedproof.util.sources import BASE
from speedproof.util.text import suggest
from speedproof.util.yaml_input import read_yaml

WORKFLOW_LOG, PROFILE_FOLDER, REASONS_FOLDER = "workflow.log", "profile", "reasons"
_LOOK_S = 0.5
# What a proof decides itself: commands enter images by themselves, and files lie in its folder.
_NOT_OF_A_PROFILE = {
    "use-singularity", "use-apptainer", "software-deployment-method", "sdm",
    "snakefile", "directory", "configfile", "configfiles",
}  # fmt: skip


class ProfileExecutor:
    """Warms up and measures where a profile sends the jobs of the workflow."""

    def __init__(self, out: Path, request: ProofRequest, status: Status) -> None:
        """Take the proof's folder, what is asked, and what prints how it goes on.

        Raises :class:`ConfigError` if Snakemake or the workflow is missing.
        """
        self._out, self._request, self._status = out, request, status
        self._snakefile, self._profile = find_snakefile(), request.profile or ""

    def warm_up(self, measured: ProofSetup) -> WarmUp:
        """Have a job run each command once, which is discarded."""
        write_text(self._out / REQUEST_FILE, self._request.model_dump_json(indent=1) + "\n")
        (self._out / WARMED_UP).unlink(missing_ok=True)
        self._status.go_on_with("warm-up: running the workflow")
        self.run(write_for_others(measured, self._out), lambda: None, str(WARMED_UP))
        return read_record(self._out / WARMED_UP, WarmUp)

    def measure(self, measured: ProofSetup, progress: Progress) -> Evidence:
        """Have a job measure what is missing, and the workflow compare the runs and write the report."""
        records = Records(self._out / RESULTS / "experiments/experiment-1", progress)
        self._status.go_on_with("the workflow running")
        self.run(write_for_others(measured, self._out), records.look)
        return read_evidence(self._out / RESULTS)

    def run(self, configuration: Path, look: Callable[[], None], *targets: str) -> None:
        """Run the workflow to its report, or to other targets; `look` is called now and then. What it prints goes to a log.

        Raises :class:`SpeedproofError` with what it ended for.
        """
        log_file, reasons = self._out / WORKFLOW_LOG, self._out.absolute() / REASONS_FOLDER
        shutil.rmtree(reasons, ignore_errors=True)
        with log_file.open("wb") as log:
            streams = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log}
            # A group of its own: a signal that a terminal sends to all of ours would reach it twice.
            environ = {**os.environ, **SAFE_PATH, REASONS_VARIABLE: str(reasons)}
            own = {"start_new_session": True, "preexec_fn": _end_with_us, "env": environ}
            words = [*self._words(configuration), *targets]
            with subprocess.Popen(words, **streams, **own) as workflow:  # type: ignore[call-overload]
                try:
                    with passing_on_stops(workflow.pid):
                        while workflow.poll() is None:
                            time.sleep(_LOOK_S)
                            look()
                except KeyboardInterrupt:
                    with passing_on_stops(workflow.pid):
                        await_end(workflow, self._status.say)
                    raise TrainingError(INTERRUPTED) from None
        look()
        if workflow.returncode < 0:
            name = signal.Signals(-workflow.returncode).name
            raise SpeedproofError(
                f"the workflow was killed ({name}); run the same command again, which keeps the rounds that have finished; "
                f"output of the workflow: {log_file}"
            )
        if workflow.returncode:
            of_steps = "; ".join(read_reasons(reasons))
            # A step names files as it sees them, from the proof's folder.
            reason = f"{of_steps} (in {self._out})" if of_steps else _find_error(log_file)
            raise SpeedproofError(f"{reason}; output of the workflow: {log_file}")

    def _words(self, configuration: Path) -> list[str]:
        words = [sys.executable, "-P", "-m", "snakemake", "--snakefile", str(self._snakefile)]
        words += ["--directory", str(self._out.absolute()), "--configfile", str(configuration.absolute())]
        words += ["--nolock", "--rerun-incomplete", "--nocolor"]
        return [*words, "--profile", str(write_profile(self._profile, self._out))]


def _find_error(log_file: Path) -> str:
    """Return the last error that Snakemake printed, else its last words: for failures before any step."""
    said = [line.strip() for line in log_file.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    errors = [line for line in said if re.match(r"\w*(Error|Exception)\b.*:.*\w", line)]
    return next((lines[-1] for lines in (errors, said) if lines), "it said nothing")


def find_snakefile() -> Path:
    """Return the workflow's Snakefile: that of the wheel, or of the checkout.

    Raises :class:`ConfigError` if it or Snakemake is missing.
    """
    snakefile = BASE / "Snakefile"
    if not snakefile.is_file():
        raise ConfigError("the workflow's Snakefile is missing; reinstall speedproof")
    if importlib.util.find_spec("snakemake") is None:
        raise ConfigError(f"Snakemake is missing; {advise_install('workflow')}")
    return snakefile


def find_profile(name: str) -> Path:
    """Return the file of a Snakemake profile: a folder of that path, one of the user's or the system's, or ours.

    Raises :class:`ConfigError` if there is none.
    """
    home = Path(os.environ.get("XDG_CONFIG_HOME") or Path("~/.config").expanduser())
    places = [Path(), home / "snakemake", Path("/etc/xdg/snakemake"), BASE]
    for place in places:
        if (place / name / "config.yaml").is_file():
            return place / name / "config.yaml"
    close = suggest(name, {path.parent.name for place in places for path in place.glob("*/config.yaml")})
    raise ConfigError(
        f"profile: no {name}/config.yaml here, in {home / 'snakemake'} or built in (slurm){close or '; write one'}"
    )


def write_profile(name: str, out: Path) -> Path:
    """Return a folder with a profile as a proof uses it: without what the proof decides itself."""
    path = find_profile(name)
    values = read_yaml(path)
    if not isinstance(values, dict):
        raise ConfigError(f"{path}: must be a mapping of Snakemake's options")
    kept = {key: value for key, value in values.items() if key not in _NOT_OF_A_PROFILE}
    folder = out / PROFILE_FOLDER
    write_text(folder / "config.yaml", yaml.safe_dump(kept, sort_keys=False, allow_unicode=True))
    return folder.absolute()


def _end_with_us() -> None:
    """Let the workflow be interrupted, also where we are killed: nothing goes on measuring that nobody waits for."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a script's background starts with it ignored
    if PRCTL:
        PRCTL(PR_SET_PDEATHSIG, signal.SIGINT, 0, 0, 0)


@contextmanager
def passing_on_stops(group: int) -> Iterator[None]:
    """Let Ctrl-C, SIGTERM and a closed terminal interrupt the workflow's process group, too, and then us."""

    def pass_on(_number: int, _frame: FrameType | None) -> None:
        with suppress(ProcessLookupError):
            os.killpg(group, signal.SIGINT)  # a measured program has a group of its own, and a guardian
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():  # which alone may ask for signals
        yield
        return
    stops = [one for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) if signal.getsignal(one) is not signal.SIG_IGN]
    before = {one: signal.signal(one, pass_on) for one in stops}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


def await_end(workflow: subprocess.Popen[bytes], say: Callable[[str], None]) -> None:
    """Wait for a workflow that got the signal too, and ends its runs in good order; asked for twice more, end it at once."""
    for said in ENDING:
        say(said)
        try:
            workflow.wait()
        except KeyboardInterrupt:
            continue
        return
    workflow.kill()  # its jobs end with it
