"""A gate from its two commits to its outcome; the measurement is a proof that claims how fast the head is at least."""

import time
from pathlib import Path

from speedproof.report.scope import describe_attempt
from speedproof.results.files import read_record, write_json
from speedproof.results.gate_result import GATE_FILE, GATE_STATUS, GatedCommit, GateReason, GateResult
from speedproof.run.commits import Commit, CommitTrees, describe_uncommitted, resolve_commit
from speedproof.run.gate.calibration import check_calibration
from speedproof.run.gate.continuing import add_budget
from speedproof.run.gate.gate_request import GateRequest
from speedproof.run.proof.live_status import Status
from speedproof.run.proof.proof import prove_request
from speedproof.run.proof.shared_code import describe_shared_code
from speedproof.run.proof.verdict import Judged, Verdict
from speedproof.stats.gating import decide_gate
from speedproof.util.errors import ConfigError, RecordError
from speedproof.util.secrets import scrub_command

PROOF = "proof"  # in the gate's folder, the folder of its proof


def gate_commits(request: GateRequest, out: Path, source: Path, status: Status) -> GateResult:
    """Measure base and head of the repository around `source`, and return whether the head passes.

    Nothing is measured if both have the same files. Raises :class:`SpeedproofError` in the class of what failed.
    """
    base, head = (find_commit(source, name, out) for name in (request.base, request.head))
    found = _begin_result(request, base, head)
    found.notes += describe_uncommitted(head)
    if base.tree == head.tree:
        outcome = "passed" if request.improvement is None else "no improvement"
        found = found.model_copy(update={"outcome": outcome, "reason": "nothing changed"})
    else:
        found.notes += describe_shared_code(request, source, (base, head))
        for note in [*check_calibration(request, out), *found.notes]:
            status.say(note)
        began_s = time.monotonic()
        trees = CommitTrees(dict(zip("ab", (base, head), strict=True)), request.build)
        request = add_budget(request, _read_same(out, found))
        verdict = prove_request(request, out / PROOF, source, status, trees)
        found = _add_verdict(found, verdict, request)
        found.minutes = round((time.monotonic() - began_s) / 60, 2)
    found.exit_status = GATE_STATUS[found.outcome]
    write_json(out / GATE_FILE, found)
    return found


def find_commit(source: Path, name: str, out: Path) -> Commit:
    """Return a commit to measure. Raises :class:`ConfigError` if there is none, or if results would lie among its files."""
    if out.resolve() == source.resolve():
        raise ConfigError(f"--out: {out} is the working folder itself; name a folder for the results")
    return resolve_commit(source, name)


def _begin_result(request: GateRequest, base: Commit, head: Commit) -> GateResult:
    limits = request.limits
    return GateResult(
        outcome="inconclusive",
        exit_status=GATE_STATUS["inconclusive"],
        reason="interval",
        command=scrub_command(request.command),
        base=GatedCommit(name=request.base, sha=base.sha),
        head=GatedCommit(name=request.head, sha=head.sha),
        regression=limits.regression,
        improvement=limits.improvement,
        limit=limits.claimed,
    )


def _read_same(out: Path, found: GateResult) -> GateResult | None:
    """Return what an earlier gate of the same command and commits found in its folder."""
    try:
        before = read_record(out / GATE_FILE, GateResult)
    except RecordError:
        return None
    same = [(one.command, one.base.sha, one.head.sha) for one in (before, found)]
    return before if same[0] == same[1] else None


def _add_verdict(found: GateResult, verdict: Verdict, request: GateRequest) -> GateResult:
    (judged,) = verdict.candidates
    outcome = decide_gate(judged.outcome, judged.high, request.limits)
    values = [one.value for one in verdict.variants]
    return found.model_copy(
        update={
            "outcome": outcome,
            "reason": _find_reason(judged),
            "base": found.base.model_copy(update={"value": values[0]}),
            "head": found.head.model_copy(update={"value": values[1]}),
            **judged.model_dump(include={"ratio", "low", "high", "pairs", "quality", "more"}),
            "terms": judged.terms,
            "metric": verdict.metric,
            "unit": verdict.unit,
            "notes": [*found.notes, *describe_attempt(verdict.attempt)],
            # Runs of an unchanged program always differ more than it changed; only what is open has to be explained.
            "checks": [one.sentence for one in judged.objections if outcome == "inconclusive" or one.kind != "noise"],
            "stopped": verdict.stopped,
            "budget_min": request.budget,
            "next_command": verdict.next_command,
            "why": verdict.why if request.profiled else None,
            "report": verdict.report,
        }
    )


def _find_reason(judged: Judged) -> GateReason:
    """Return what the outcome rests on, or what leaves it open."""
    if any(one.blocks for one in judged.objections):
        return "check"
    if judged.outcome in ("quality not established", "worse quality"):
        return "quality"
    return "interval" if judged.outcome == "inconclusive" else "decided"
