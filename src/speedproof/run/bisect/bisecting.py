"""A bisection from its two commits to its result."""

import math
import os
import time
from collections.abc import Sequence
from pathlib import Path

from speedproof.cluster.gpu_monitor import list_gpu_uuids
from speedproof.results.bisect_result import BISECT_FILE, BISECT_STATUS, BisectedCommit, BisectResult, ChangeRatio
from speedproof.results.files import digest_of, write_json
from speedproof.run.bisect.bisect_request import BisectRequest
from speedproof.run.bisect.commit_runs import CommitRuns, explain_unusable
from speedproof.run.bisect.kept_rounds import ROUNDS_FILE, KeptRounds
from speedproof.run.bisect.search import ChangeSearch, SearchResult, UnusableCommitError
from speedproof.run.commits import Commit, HistoryCommit, list_history, resolve_commit
from speedproof.run.conditions import digest_host
from speedproof.run.locks import holding_devices, holding_folder
from speedproof.run.program_variables import deciding_variables, digest_variables
from speedproof.run.proof.executor import PROOF_LOG, commit_in_environment, ending_in_order, logging_to
from speedproof.run.proof.live_status import Status
from speedproof.run.proof.quiet import wait_aloud
from speedproof.run.proof.shared_code import describe_shared_code
from speedproof.stats.estimates import Estimate
from speedproof.util.errors import ConfigError
from speedproof.util.numbers import format_count
from speedproof.util.progress_bar import without_progress
from speedproof.util.secrets import scrub_command

KEPT = "interrupted; completed rounds are kept: run the same command to resume"


def bisect_commits(request: BisectRequest, good: str, bad: str, out: Path, source: Path, status: Status) -> BisectResult:
    """Find the commit that changed the speed between two of the repository around `source`.

    Raises :class:`SpeedproofError` in the class of what failed.
    """
    if out.resolve() == source.resolve():
        raise ConfigError(f"--out: {out} is the working folder itself; name a folder for the results")
    ends = resolve_commit(source, good), resolve_commit(source, bad)
    history = list_history(*ends)
    if len(history) < 2:
        raise ConfigError(f"{good} and {bad}: no commit between them changes {source.name}; nothing can differ")
    runs = CommitRuns(request, history, source, out, status)
    status.say(f"{format_count(len(history) - 1, 'commit')} from {history[0].sha[:12]} to {history[-1].sha[:12]}")
    for note in describe_shared_code(request, source, ends):
        status.say(note)
    device = "cuda" if request.device != "cpu" and list_gpu_uuids() else "cpu"
    waiting = wait_aloud(status) if request.wait else None
    with (
        holding_folder(out, waiting),
        holding_devices(device, request.gpus, waiting=waiting),
        logging_to(out / PROOF_LOG),
        commit_in_environment(),
        ending_in_order(status, KEPT),
        without_progress(),
    ):
        kept = KeptRounds(out / ROUNDS_FILE, _digest_asked(request, history, ends))
        if kept.replaces:
            status.say(f"{out} holds another bisection; this one replaces it (--out chooses another folder)")
        elif kept.file.rounds:
            status.say(
                f"continuing from {format_count(len(kept.file.rounds), 'round')} of an earlier call ({out / ROUNDS_FILE})"
            )
        result = _describe(request, history, _search(request, runs, kept), kept)
        write_json(out / BISECT_FILE, result)
    status.pause()
    return result


def _search(request: BisectRequest, runs: CommitRuns, kept: KeptRounds) -> SearchResult:
    """Search with the rounds that are kept, then with new ones; each new one is kept at once."""
    began_s, before_min = time.monotonic(), kept.file.minutes
    runs.metric = runs.metric or kept.file.metric

    def measure(places: Sequence[int]) -> Sequence[float]:
        if (costs := kept.replay(places)) is not None:
            return costs
        try:
            return kept.measure(places, runs.measure)
        finally:
            kept.write(runs.metric, before_min + (time.monotonic() - began_s) / 60)

    def find_left_s() -> float:
        return 60 * request.budget - (time.monotonic() - began_s)

    try:
        return ChangeSearch(runs.commits, measure, find_left_s).run()
    except UnusableCommitError as error:
        raise explain_unusable(error) from None


def _digest_asked(request: BisectRequest, history: list[HistoryCommit], ends: tuple[Commit, Commit]) -> str:
    """Return a digest of what decides what runs cost: rounds of another one do not count."""
    variables = digest_variables(deciding_variables(os.environ, request.passed, request.dropped))
    asked = request.model_dump(mode="json", exclude={"budget_min", "wait"})
    return digest_of([asked, [one.sha for one in history], [end.tree for end in ends], variables, digest_host()])


def _describe(request: BisectRequest, history: list[HistoryCommit], found: SearchResult, kept: KeptRounds) -> BisectResult:
    return BisectResult(
        outcome=found.outcome,
        exit_status=BISECT_STATUS[found.outcome],
        command=scrub_command(request.commands[0]),
        metric=kept.file.metric,
        good=_name(history[0]),
        bad=_name(history[-1]),
        ends=_invert(found.ends),
        commit=None if found.place is None else _name(history[found.place]),
        step=_invert(found.step) if found.step else None,
        chance=found.chance,
        several=found.several,
        suspects=[_name(history[place], found.skipped[place]) for place in found.suspects],
        skipped=[_name(history[place], found.skipped[place]) for place in sorted(found.skipped)],
        commits=len(history) - 1,
        commits_run=kept.commits_run,
        runs=kept.runs,
        minutes=round(kept.file.minutes, 2),
        stopped=found.stopped,
    )


def _name(commit: HistoryCommit, reason: str | None = None) -> BisectedCommit:
    return BisectedCommit(sha=commit.sha, subject=commit.subject, date=commit.date, reason=reason, merge=commit.merge)


def _invert(change: Estimate) -> ChangeRatio:
    """Return a change of log costs as how many times as fast the later commit is."""
    low, high = (None, None) if change.interval is None else (math.exp(-change.interval.high), math.exp(-change.interval.low))
    return ChangeRatio(ratio=math.exp(-change.centre), low=low, high=high)
