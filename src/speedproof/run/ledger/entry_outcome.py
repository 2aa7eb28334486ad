"""The outcome of an entry: its number judged by the interval of a proof, with the machine, the versions and what differs."""

import os
import shlex
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from speedproof.report.document import join_words
from speedproof.report.figures.figure_data import Evidence, read_evidence
from speedproof.report.first_screen import compose_first_screen
from speedproof.report.objection_phrases import describe_objection
from speedproof.results.comparison import Ratio
from speedproof.results.comparison_rows import MACHINE_KINDS, ClaimVerdict
from speedproof.results.run_record import Conditions
from speedproof.run.archive.rebuild import MARKDOWN_FILE
from speedproof.run.ledger.entry import LedgerEntry, WorkloadClaim, normalize_package
from speedproof.run.proof.find import VERDICT_FILE, check_finished, take_results
from speedproof.run.proof.variant_labels import name_variants
from speedproof.stats.claims import judge_sample
from speedproof.stats.claims_file import DocumentedClaim, Speedup, names_device
from speedproof.stats.finding import Reader
from speedproof.util.errors import RecordError
from speedproof.util.numbers import format_count, format_ratio, format_value
from speedproof.util.secrets import scrub_command

# Exit statuses of `ledger run` and `ledger show`. 3 is an error.
LEDGER_STATUS: dict[ClaimVerdict, int] = {
    "reproduced": 0,
    "exceeded": 0,
    "not reproduced here": 1,
    "inconclusive": 2,
    "not comparable": 2,
    "not measured": 2,
}


class EntryOutcome(BaseModel):
    """What was found of an entry in one place; without a ratio, why there is none."""

    model_config = ConfigDict(frozen=True)

    verdict: ClaimVerdict = "not measured"
    ratio: float | None = None
    low: float | None = None  # of its 95 % interval
    high: float | None = None
    pairs: int = 0
    machine: str = ""
    shared: bool = False  # whether another measurement ran on the machine meanwhile
    date: str = ""
    versions: dict[str, str] = {}
    quality: str = ""
    why: str = ""
    differences: list[str] = []  # conditions that differ from the source's
    reason: str = ""
    results: Path | None = None


def find_outcomes(name: str, entry: LedgerEntry, ledger: Path, own: Path | None) -> list[EntryOutcome]:
    """Return what was found in a folder of the user's own results, if there is one, then in kept records, the newest first.

    Own results that cannot be judged, as those of an entry that has changed since, are an outcome with the reason.
    """
    found = []
    if own and (own / name / VERDICT_FILE).is_file():
        try:
            found = [judge_entry(entry, own / name)]
        except RecordError as error:
            found = [EntryOutcome(reason=str(error))]
    return [*found, *(judge_entry(entry, locate_record(ledger, record)) for record in reversed(entry.records))]


def locate_record(ledger: Path, record: str) -> Path:
    """Return the folder of a kept record."""
    return Path(os.path.normpath(ledger / record))


def judge_entry(entry: LedgerEntry, folder: Path) -> EntryOutcome:
    """Return what a proof, or the record of one, says about an entry.

    Raises :class:`RecordError` if it cannot be read, or measured other commands.
    """
    check_finished(folder)
    evidence = read_evidence(take_results(folder))
    if entry.workload:
        return _take_claim(entry, entry.workload, evidence, folder)
    asked, comparison = evidence.asked, evidence.comparison
    commands = [scrub_command(command) for command in entry.request.commands]
    if asked is None or shlex.split(asked.command)[2:4] != commands:
        raise RecordError(f"{folder}: holds a proof of other commands than the entry's; remove it, and run the entry again")
    versions = _read_versions(entry, evidence)
    place = {
        "machine": comparison.conditions.device_name(),
        "shared": _had_company(evidence),
        "date": evidence.results.days,
        "versions": versions,
        "why": _explain(evidence, folder),
        "results": folder,
    }
    reference, candidate = name_variants(entry.request)
    ratio = Reader(comparison, asked).find_timed(reference, candidate, asked.metric)
    differences = _list_differences(entry, comparison.conditions, versions)
    if ratio is None:
        return EntryOutcome(**place, differences=differences, reason="no pair of runs that can be compared")
    disturbed = [one for one in ratio.objections if one.kind in MACHINE_KINDS and not one.blocks]
    differences += [describe_objection(one, comparison.variants) for one in disturbed]
    differences += ["another measurement ran on the machine"] if place["shared"] else []
    verdict, reasons = _judge(entry, ratio)
    reasons += [describe_objection(one, comparison.variants) for one in ratio.objections if one.blocks]
    return EntryOutcome(
        **place,
        differences=differences,
        verdict=verdict,
        ratio=ratio.centre,
        low=ratio.low,
        high=ratio.high,
        pairs=ratio.pairs,
        quality=ratio.quality.outcome if ratio.quality else "",
        reason="; ".join(reasons),
    )


def _take_claim(entry: LedgerEntry, workload: WorkloadClaim, evidence: Evidence, folder: Path) -> EntryOutcome:
    """Return what a workload's results say of one of its claims. Raises :class:`RecordError` if they judge none, or another."""
    result = next((one for one in evidence.comparison.claims if one.id == workload.claim), None)
    if result is None:
        raise RecordError(f"{folder}: does not judge {workload.claim}; name another record")
    if result.documented != entry.documented:
        raise RecordError(
            f"{folder}: judged {result.documented}, and {workload.claims} now states {entry.documented}; rebuild the record"
        )
    return EntryOutcome(
        verdict=result.verdict,
        ratio=result.measured,
        low=result.low,
        high=result.high,
        pairs=result.counted or 0,
        machine=evidence.comparison.conditions.device_name(),
        shared=_had_company(evidence),
        date=evidence.results.days,
        why=_explain(evidence, folder),
        differences=result.conditions,
        reason=result.reason,
        results=folder,
    )


def _judge(entry: LedgerEntry, ratio: Ratio) -> tuple[ClaimVerdict, list[str]]:
    """Return the outcome of a ratio by the rules of documented numbers; a contested one is inconclusive."""
    claim = DocumentedClaim(
        id="entry",
        text=entry.number.text,
        source="source",
        place=entry.source.place,
        unit="×",
        quantity=Speedup(metric=ratio.metric, reference=ratio.reference, candidate=ratio.candidate),
        stated=entry.number.stated,
    )
    judged = judge_sample(claim, ratio, entry.list_ratio_bounds())
    ends = [end for end in entry.list_ratio_bounds() if ratio.low is not None and ratio.high and ratio.low < end < ratio.high]
    crossed = [f"the interval holds {format_value(end, '×')}, an end of what reproduces it" for end in ends[:1]]
    return ("inconclusive" if ratio.contested else judged.verdict), [*judged.reasons, *crossed]


def _had_company(evidence: Evidence) -> bool:
    return any(run.had_company for run in evidence.results.runs)


def _explain(evidence: Evidence, folder: Path) -> str:
    """Return what the traces say; a record keeps no analysis of them, but its report says it."""
    if not any(run.run.mode == "profiled" for run in evidence.results.runs):
        return "no run was profiled"
    if not evidence.traces:
        return f"see {folder / MARKDOWN_FILE}"
    return join_words(compose_first_screen(evidence).why)


def _read_versions(entry: LedgerEntry, evidence: Evidence) -> dict[str, str]:
    """Return Python's version and those of the packages that the entry names, as the measured interpreter has them."""
    settings = [run.run.techniques for run in evidence.results.runs]
    first = next((one for one in settings if "packages" in one), {})
    found = dict(str(one).split("==", 1) for one in first.get("packages", []))
    known = {normalize_package(name): version for name, version in found.items()}
    versions = {name: known[normalize_package(name)] for name in entry.needs.packages if normalize_package(name) in known}
    return ({"Python": str(first["python"])} if "python" in first else {}) | versions


def _list_differences(entry: LedgerEntry, conditions: Conditions, versions: dict[str, str]) -> list[str]:
    source, machine = entry.source, conditions.device_name()
    ours = describe_versions(versions) or "no packages recorded"
    return [
        *([] if source.device and names_device(source.device, machine) else [f"{machine} instead of {source.machine}"]),
        *entry.conditions,
        f"{ours}; the source names {source.software or 'no versions'}",
    ]


def describe_versions(versions: dict[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions.items())


def describe_measured(outcome: EntryOutcome) -> str:
    """Return the ratio with its interval; nothing if there is none."""
    if outcome.ratio is None:
        return ""
    value, interval = format_ratio(outcome.ratio, outcome.low, outcome.high)
    return f"{value} ({interval})" if outcome.low is not None else value


def describe_entry_outcome(entry: LedgerEntry, outcome: EntryOutcome) -> str:
    """Return an outcome in one sentence that the author of the number could agree with."""
    documented = f"{entry.documented} documented on {entry.source.machine}"
    if outcome.ratio is None:
        return f"{outcome.verdict}: {documented}{f'; {outcome.reason}' if outcome.reason else ''}"
    measured = f"{describe_measured(outcome)} on {outcome.machine}, {format_count(outcome.pairs, 'pair')}, {outcome.date}"
    count = len(outcome.differences)
    differ = f"{format_count(count, 'condition')} {'differs' if count == 1 else 'differ'}"
    because = f"; {outcome.reason}" if outcome.reason else ""
    return f"{outcome.verdict}: {measured}; {documented}; {differ}{because}"
