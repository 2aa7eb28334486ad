"""The command that would decide what a proof left open."""

import math
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from shlex import quote

from speedproof.run.proof.request import BUDGET_MIN, ProofRequest
from speedproof.run.proof.typed_call import write_call
from speedproof.stats.finding import RatioFinding

_SPARE = 1.25  # of the budget: later rounds may take longer
_QUIET_MIN = 10
_OPEN = ("inconclusive", "quality not established")


def write_next_call(request: ProofRequest, findings: Sequence[RatioFinding], out: Path) -> str | None:
    """Return the command that continues a proof in `out` until it decides, or measures it again; None if none would."""
    open_findings = [one for one in findings if one.outcome in _OPEN]
    afresh = any(_differs_from_warm_up(one) for one in open_findings)
    following = _repeat_quietly(request) if afresh else _plan(request, open_findings)
    if following is None:
        return None
    folder = _find_free(out) if afresh else request.name_folder(out)
    return f"{write_call(following)}{'' if folder is None else f' --out {quote(str(folder))}'}"


def _differs_from_warm_up(found: RatioFinding) -> bool:
    """Return whether nothing is concluded because a warm-up took another time: more rounds keep it, and would not help."""
    return any(one.leads and one.objection.kind == "warm-up differs" for one in found.caveats)


def _repeat_quietly(request: ProofRequest) -> ProofRequest:
    """Return the request with a wait for other programs, which most often disturb a warm-up."""
    waits = request.wait_for_quiet_min or request.profile
    return request if waits else request.model_copy(update={"wait_for_quiet_min": _QUIET_MIN})


def _find_free(out: Path) -> Path:
    """Return a folder beside a proof's that does not exist, for another proof of the same commands with a new warm-up."""
    return next(path for number in count(2) if not (path := out.with_name(f"{out.name}-{number}")).exists())


def _plan(request: ProofRequest, findings: Sequence[RatioFinding]) -> ProofRequest | None:
    if any(one.is_beyond_budget for one in findings):
        return None
    fixed = [one.stopped.needed for one in findings if one.stopped and one.stopped.reason == "futile"]
    if fixed:
        rounds = [count for count in fixed if count]
        return request.model_copy(update={"rounds": max(rounds), "budget_min": None}) if len(rounds) == len(fixed) else None
    needed = [one.needed.pairs for one in findings if one.needed]
    if not needed or len(needed) < len(findings):
        return None
    if request.fixed_rounds is not None:
        return request.model_copy(update={"rounds": max(needed)})
    return _extend(request, findings, max(needed))


def _extend(request: ProofRequest, findings: Sequence[RatioFinding], rounds: int) -> ProofRequest | None:
    """Return a request whose limits hold so many rounds; None if its own do."""
    runs, budget = len(request.commands) + request.control, request.budget or BUDGET_MIN
    missing = [(one.needed, one.needed.pairs - one.pairs) for one in findings if one.needed]
    round_min = max(needed.minutes / pairs for needed, pairs in missing if pairs > 0) * runs / 2  # a pair is two runs
    limits: dict[str, float] = {}
    if (budget_min := math.ceil(_SPARE * rounds * round_min)) > budget:
        limits["budget_min"] = budget_min
    if request.rounds and rounds > request.rounds:
        limits["rounds"] = rounds
    return request.model_copy(update=limits) if limits else None
