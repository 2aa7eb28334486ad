"""Runs of commits, by what `prove` runs: each in a fresh copy of its commit, which is built and warmed up once."""

import math
import os
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from speedproof.results.dataset import own_data
from speedproof.results.experiment import PLAN_FILE, RUNS_FOLDER
from speedproof.results.files import write_json
from speedproof.results.folder import CONFIG_FILE
from speedproof.run.bisect.bisect_request import BisectRequest
from speedproof.run.bisect.search import UnusableCommitError
from speedproof.run.commits import BuildError, CommitTrees, HistoryCommit, resolve_commit
from speedproof.run.observer import EndedRun, Observer
from speedproof.run.plan import plan_experiment
from speedproof.run.proof.command_lookup import resolve_command
from speedproof.run.proof.find import RESULTS
from speedproof.run.proof.left_files import take_snapshot
from speedproof.run.proof.live_status import Status
from speedproof.run.proof.metric_needs import check_epochs
from speedproof.run.proof.verdict import choose_metric
from speedproof.run.proof.warm_up import warm_up
from speedproof.run.proof.workspace import ProofBasis
from speedproof.run.run_experiment import ExperimentAttempt, Job, ask_conditions
from speedproof.stats.metrics import METRICS
from speedproof.util.errors import ConfigError, SpeedproofError, TrainingError

COMMITS_FOLDER = "commits"
_VARIANT = "a"
_MOST_RUNS = 1000  # of one commit


class _LastRun(Observer):
    """Keeps the cost of the run that ended last."""

    cost: float | None = None

    def end_run(self, ended: EndedRun) -> None:
        self.cost = ended.compared.cost if ended.compared else None


@dataclass
class _ReadyCommit:
    """A commit that is built and warmed up."""

    job: Job
    attempt: ExperimentAttempt
    last: _LastRun
    runs: int = 0

    def run(self) -> float | None:
        """Run it once more, and return what the run cost; None: it has no value."""
        plan = plan_experiment(self.job.config, self.job.experiment)
        name, planned = list(plan.runs().items())[self.runs]
        self.runs += 1
        self.attempt.take(self.runs, self.job.folder / RUNS_FOLDER / name, planned)
        return self.last.cost


class CommitRuns:
    """Runs the command of a request at the commits of a history, in the folder `out`."""

    def __init__(
        self, request: BisectRequest, history: Sequence[HistoryCommit], source: Path, out: Path, status: Status
    ) -> None:
        self._request, self._history, self._source, self._out, self._status = request, history, source, out, status
        self._command, mistakes = resolve_command(request.commands[0], source, os.environ.get("PATH", os.defpath))
        if mistakes:
            raise ConfigError("; ".join(mistakes))
        self._ready: dict[int, _ReadyCommit] = {}
        self._order = random.Random()
        self.metric: str | None = request.metric
        self.count = 0

    @property
    def commits(self) -> int:
        """Return how many commits the history has, both ends included."""
        return len(self._history)

    def measure(self, places: Sequence[int]) -> list[float]:
        """Run each of these commits once, in random order, and return the logarithms of what the runs cost.

        Raises :class:`UnusableCommitError` if one cannot be built or run.
        """
        for place in places:
            self._prepare(place)
        costs = [0.0] * len(places)
        for number in self._order.sample(range(len(places)), len(places)):
            costs[number] = self._run(places[number])
        return costs

    def _run(self, place: int) -> float:
        commit = self._history[place]
        self.count += 1
        self._status.go_on_with(f"run {self.count}: {commit.sha[:12]}")
        try:
            cost = self._ready[place].run()
        except TrainingError as error:
            raise UnusableCommitError(place, f"{commit.sha[:12]}: {error}") from None
        if cost is None or cost <= 0:
            title = METRICS[self.metric].title if self.metric else "metric"
            raise UnusableCommitError(place, f"{commit.sha[:12]}: its run has no {title}")
        return math.log(cost)

    def _prepare(self, place: int) -> None:
        if place in self._ready:
            return
        try:
            self._ready[place] = self._make_ready(self._history[place])
        except (BuildError, ConfigError, TrainingError) as error:
            raise UnusableCommitError(place, str(error)) from None

    def _make_ready(self, commit: HistoryCommit) -> _ReadyCommit:
        """Write a commit's files, build them, and run its command once without counting the run."""
        say, short = self._status.go_on_with, commit.sha[:12]
        say(f"checking out {short}")
        base = self._out / COMMITS_FOLDER / short
        trees = CommitTrees({_VARIANT: resolve_commit(self._source, commit.sha)}, self._request.build)
        snapshot = replace(take_snapshot(self._source, base, trees.fill), own_trees=frozenset(trees.commits))
        # One variant, and as many runs as the search asks for.
        own = {"commands": [self._command], "names": [short], "rounds": _MOST_RUNS, "budget_min": None}
        request = self._request.model_copy(update=own)
        basis = ProofBasis(base, request, {_VARIANT: self._command}, snapshot, os.environ, order_seed=0)
        measured = basis.describe(request.named_reading() or request.reading("marks"), {})
        found = warm_up(base, measured.config, measured.workload, request, say)
        check_epochs(request, found.epochs)
        self.metric = self.metric or choose_metric(request, found.epochs, bool(found.reading.rate))
        basis = replace(basis, stop_after=found.stop_after)
        measured = basis.describe(found.reading, found.epochs, self.metric, found.observed)
        results = base / RESULTS
        data = results / "data/data/dataset.json"
        write_json(results / CONFIG_FILE, measured.config)
        write_json(data, own_data(measured.workload.declared.title))
        folder = results / "experiments/experiment-1"
        job = Job(measured.config, [results / CONFIG_FILE], data, "experiment-1", folder, declared=measured.workload)
        plan, last = plan_experiment(job.config, job.experiment), _LastRun()
        write_json(folder / PLAN_FILE, plan)
        return _ReadyCommit(job, ExperimentAttempt(job, plan, ask_conditions(job, job.gpus), None, last), last)


def explain_unusable(error: UnusableCommitError) -> SpeedproofError:
    """Return what to say of an end that cannot be measured."""
    return TrainingError(f"{error.reason}; choose a commit whose command works")
