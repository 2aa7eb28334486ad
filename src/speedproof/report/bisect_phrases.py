"""A bisection in words."""

from speedproof.results.bisect_result import BisectedCommit, BisectResult, ChangeRatio
from speedproof.stats.metrics import METRICS
from speedproof.util.numbers import format_count, format_duration, format_ratio, format_value
from speedproof.util.text import shorten

_LONGEST = 60  # characters of a subject


def list_bisect_lines(found: BisectResult) -> list[str]:
    """Return the outcome and what it rests on, a line each."""
    lines = [_describe_outcome(found), f"From {name_commit(found.good)} to {name_commit(found.bad)}: {_write(found.ends)}."]
    if found.suspects:
        lines.append(f"It may also be a skipped commit right before it: {', '.join(map(name_commit, found.suspects))}.")
    lines += [f"Skipped: {one.subject} ({one.date}): {one.reason}" for one in found.skipped]
    if found.outcome == "found" and found.commit:
        lines += _propose(found.commit, found.suspects)
    metric = f", {METRICS[found.metric].title}" if found.metric in METRICS else ""
    took = format_duration(60 * found.minutes)
    runs, commits = format_count(found.runs, "run"), format_count(found.commits + 1, "commit")
    lines.append(f"{runs} of {found.commits_run} of {commits} in {took}{metric}.")
    return lines


def _propose(commit: BisectedCommit, suspects: list[BisectedCommit]) -> list[str]:
    """Return what to run next, a line each."""
    sha, first = commit.sha[:12], [*suspects, commit][0].sha[:12]
    lines = [f"To confirm it, with the same options: speedproof gate --base {first}^ --head {sha}"]
    if commit.merge:
        lines.append(f'To search its branch: speedproof bisect "$(git merge-base {sha}^1 {sha}^2)" {sha}^2')
    return lines


def name_commit(commit: BisectedCommit) -> str:
    return f"{commit.sha[:12]} ({shorten(commit.subject, _LONGEST)}, {commit.date})"


def _describe_outcome(found: BisectResult) -> str:
    if found.commit is None or found.step is None:
        if found.outcome == "no difference":
            return "No difference: both ends are equally fast within 2 %."
        return f"Inconclusive: whether the ends differ is open; {_advise(found)}."
    name = name_commit(found.commit)
    match found.outcome:
        case "found":
            return f"Found: {name} made it {'slower' if found.step.ratio < 1 else 'faster'}: {_write(found.step)}."
        case "spread":
            return f"No single commit: several changed the speed; the largest step is likely near {name}."
        case _:
            chance = format_value(found.chance, "%")
            return f"Inconclusive: most likely {name}, with a chance of {chance}; {_advise(found)}."


def _advise(found: BisectResult) -> str:
    if found.stopped == "budget":
        return "the budget was spent; run the same command to go on"
    return "the noise is too large, and more rounds would hardly help; reduce it, or let a run last longer"


def _write(change: ChangeRatio) -> str:
    value, interval = format_ratio(change.ratio, change.low, change.high)
    return f"{value} as fast" + (f" (95 % interval {interval})" if change.low is not None else "")
