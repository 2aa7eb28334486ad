"""A campaign from its start to the log of its tries; each try is a proof of two commits."""

import os
import time
from collections.abc import Mapping
from fnmatch import fnmatch
from pathlib import Path

from speedproof.results.campaign_log import CAMPAIGN_FILE, TRY_STATUS, Campaign, Try, TryOutcome, TryReason
from speedproof.results.experiment import StopReason
from speedproof.results.files import read_record, write_json
from speedproof.run.campaign.campaign_request import CampaignRequest
from speedproof.run.commits import Commit, CommitTrees, describe_uncommitted, list_commit_files, read_title
from speedproof.run.gate.continuing import add_budget
from speedproof.run.gate.gate import find_commit
from speedproof.run.locks import holding_folder
from speedproof.run.proof.command_lookup import resolve_command
from speedproof.run.proof.live_status import Status
from speedproof.run.proof.proof import prove_request
from speedproof.run.proof.shared_code import describe_shared_code
from speedproof.run.proof.verdict import Judged
from speedproof.stats.false_discoveries import count_comparisons
from speedproof.util.errors import ConfigError
from speedproof.util.secrets import scrub_command

_TRIES = "tries"  # in the campaign's folder, a folder for each


def start_campaign(request: CampaignRequest, out: Path, source: Path) -> Campaign:
    """Begin a campaign in the folder `out`. Raises :class:`ConfigError` if there is one, or if nothing can be protected."""
    if (out / CAMPAIGN_FILE).is_file():
        raise ConfigError(f"{out / CAMPAIGN_FILE}: already exists; go on with `campaign try`, or name another --out")
    first = find_commit(source, request.reference, out)
    _, mistakes = resolve_command(request.command, source, os.environ.get("PATH", os.defpath), request.container is not None)
    if mistakes:
        raise ConfigError("; ".join(mistakes))
    names = list_commit_files(first)
    for pattern in request.protect:
        if not any(_matches(name, pattern) for name in names):
            raise ConfigError(f"--protect {pattern}: no file of {first.title} has such a name; write a path or a pattern")
    begun = Campaign(
        command=scrub_command(request.command),
        start=first.sha,
        reference=first.sha,
        tries_planned=request.tries,
        protected=request.protect,
        request=request.model_dump(mode="json", by_alias=True, exclude_defaults=True),
    )
    write_json(out / CAMPAIGN_FILE, begun)
    return begun


def read_campaign(out: Path) -> Campaign:
    """Return the campaign in a folder. Raises :class:`ConfigError` if there is none."""
    if not (out / CAMPAIGN_FILE).is_file():
        raise ConfigError(f"{out / CAMPAIGN_FILE}: no such file; begin with `speedproof campaign start -- 'python train.py'`")
    return read_record(out / CAMPAIGN_FILE, Campaign)


def try_commit(name: str, out: Path, source: Path, status: Status) -> Try:
    """Compare a commit with the campaign's reference, log it, and make it the reference if it is kept.

    A commit that is to be continued goes on in its folder. Raises :class:`SpeedproofError` in the class of what failed; then
    nothing is logged, and no error is spent.
    """
    read_campaign(out)  # else a mistyped folder would be made
    with holding_folder(out):
        found = read_campaign(out)
        request = CampaignRequest.model_validate(found.request)
        reference, head = (find_commit(source, one, out) for one in (found.reference, name))
        for note in describe_uncommitted(head):
            status.say(note)
        earlier = next((one for one in found.tries if _is_open(one, found, head)), None)
        row = earlier or _begin_try(found, reference, head)
        changed = list_changed_files(reference, head, found.protected)
        if changed:
            row = _end_try(row, "refused", "protected", {"files": changed})
        elif reference.tree == head.tree:
            row = _end_try(row, "dropped", "nothing changed")
        else:
            row = _measure(row, request, (reference, head), out, source, status)
        tries = [one for one in found.tries if one is not earlier]
        kept = {"reference": head.sha} if row.outcome == "kept" else {}
        write_json(out / CAMPAIGN_FILE, found.model_copy(update={"tries": [*tries, row], **kept}))
    return row


def list_changed_files(reference: Commit, head: Commit, patterns: list[str]) -> list[str]:
    """Return the files with a name like one of `patterns` that two commits do not have alike."""
    before, after = (list_commit_files(one) for one in (reference, head))
    names = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    return [name for name in names if any(_matches(name, pattern) for pattern in patterns)]


def _matches(name: str, pattern: str) -> bool:
    """Return whether a file has such a name, or is in a folder of that name."""
    return fnmatch(name, pattern) or name.startswith(f"{pattern.rstrip('/')}/")


def _is_open(one: Try, campaign: Campaign, head: Commit) -> bool:
    return one.outcome == "continue" and (one.commit, one.reference) == (head.sha, campaign.reference)


def _begin_try(campaign: Campaign, reference: Commit, head: Commit) -> Try:
    """Return a try with its share of the error. Raises :class:`ConfigError` if all planned tries have spent theirs."""
    if len(campaign.measured) >= campaign.tries_planned:
        raise ConfigError(
            f"all {campaign.tries_planned} tries of this campaign are used, and their error is spent; start another one "
            "(`campaign start --tries`) from the commit that was kept last"
        )
    return Try(
        number=len(campaign.tries) + 1,
        commit=head.sha,
        title=read_title(head),
        reference=reference.sha,
        comparisons=count_comparisons(campaign.tries_planned, campaign.kept),
        outcome="dropped",
        reason="not shown",
        exit_status=TRY_STATUS["dropped"],
    )


def _measure(row: Try, request: CampaignRequest, both: tuple[Commit, Commit], out: Path, source: Path, status: Status) -> Try:
    asked = add_budget(request.model_copy(update={"head": row.commit, "joint_with": row.comparisons - 1}), row)
    for note in describe_shared_code(request, source, both):
        status.say(note)
    began_s = time.monotonic()
    trees = CommitTrees(dict(zip("ab", both, strict=True)), request.build)
    verdict = prove_request(asked, out / _TRIES / f"{row.number:03d}-{row.commit[:12]}", source, status, trees)
    (judged,) = verdict.candidates
    outcome, reason = decide_try(judged, verdict.stopped)
    measured = {
        "found": judged.outcome,
        **judged.model_dump(
            include={"ratio", "low", "high", "observed", "pairs", "quality", "reference_quality", "candidate_quality", "more"}
        ),
        "metric": verdict.metric,
        "checks": [one.sentence for one in judged.objections if one.blocks],
        "why": verdict.why if request.profiled else None,
        "terms": judged.terms,
        "stopped": verdict.stopped,
        "budget_min": asked.budget,
        "minutes": round(row.minutes + (time.monotonic() - began_s) / 60, 2),
        "report": verdict.report,
    }
    return _end_try(row, outcome, reason, measured)


def decide_try(judged: Judged, stopped: StopReason | None) -> tuple[TryOutcome, TryReason]:
    """Return what becomes of a try, and by which finding; `stopped` is why its rounds ended."""
    if any(one.blocks for one in judged.objections):
        return "dropped", "check"
    match judged.outcome:
        case "faster":
            return "kept", "faster"
        case "slower" | "equivalent":
            return "dropped", judged.outcome
        case "worse quality" | "quality not established":
            return "dropped", "slower" if judged.high is not None and judged.high < 1 else "quality"
    return ("continue", "budget") if stopped == "budget" else ("dropped", "not shown")


def _end_try(row: Try, outcome: TryOutcome, reason: TryReason, more: Mapping[str, object] | None = None) -> Try:
    ended = {"outcome": outcome, "reason": reason, "exit_status": TRY_STATUS[outcome]}
    return row.model_copy(update={**ended, **(more or {})})
