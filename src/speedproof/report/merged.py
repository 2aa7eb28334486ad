"""What merged experiments say: ratios of equal settings, each with its machines, and documented ratios beside them."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from speedproof.report.document import Row
from speedproof.report.objection_phrases import describe_objection
from speedproof.report.ratio_phrases import badge_state
from speedproof.report.scope import SHARED_MACHINE
from speedproof.report.trace_listings import Listing
from speedproof.results.comparison_rows import ClaimResult, list_leading
from speedproof.stats.finding import judge_row
from speedproof.stats.merged_ratios import MergedRatio
from speedproof.stats.metrics import METRICS
from speedproof.util.numbers import format_count, format_range, format_ratio, format_value
from speedproof.util.text import capitalize

_COLUMNS = ["metric", ">ratio", ">95 % interval", ">pairs", "measured on", "outcome"]
_CLAIMS = ["documented ratio", "documented", ">measured", ">95 % interval", ">pairs", "outcome"]


@dataclass(frozen=True)
class MergedAnswer:
    """What was found in merged experiments."""

    ratios: Sequence[MergedRatio]
    repeated: Mapping[str, str]  # experiments that were given again, each with the one that counts
    claims: Sequence[ClaimResult] = ()
    not_judged: int = 0  # documented ratios


def list_merged(answer: MergedAnswer) -> Iterator[Listing | str]:
    """Yield a table of the ratios of each two variants, what is to be known of them, and documented ratios, if any."""
    yield from (f"{name}: the same experiment as {counted}; counted once" for name, counted in answer.repeated.items())
    sections: dict[tuple[str, tuple[str, ...]], list[MergedRatio]] = {}
    for merged in answer.ratios:
        sections.setdefault((_name_variants(merged), merged.experiments), []).append(merged)
    for (variants, experiments), own in sections.items():
        yield Listing(variants, _COLUMNS, [_list_cells(merged) for merged in own], most=len(own))
        yield f"Experiments: {', '.join(experiments)}"
        yield from _list_notes(own)
    if not answer.ratios:
        yield "No experiment has pairs of timed runs of two variants."
    if answer.claims:
        yield Listing("", _CLAIMS, [_list_claim(claim) for claim in answer.claims], most=len(answer.claims))
    if answer.not_judged:
        yield f"Not judged: {format_count(answer.not_judged, 'documented ratio')} that these experiments did not measure."


def _list_claim(claim: ClaimResult) -> Row:
    measured, interval = format_value(claim.measured, claim.unit), format_range(claim.low, claim.high, claim.unit)
    return [claim.text, claim.documented, measured, interval, str(claim.counted), claim.verdict]


def write_merged_json(answer: MergedAnswer) -> str:
    """Return ratios and documented ratios as `comparison.json` has them, with the notes below the tables."""
    plain = {
        "ratios": [_to_plain(merged) for merged in answer.ratios],
        "claims": [claim.model_dump(mode="json") for claim in answer.claims],
        "not_judged": answer.not_judged,
        "repeated": dict(answer.repeated),
    }
    return json.dumps(plain, indent=1)


def _to_plain(merged: MergedRatio) -> dict[str, Any]:
    return {
        **merged.ratio.model_dump(mode="json"),
        "titles": {name: merged.titles[name] for name in (merged.ratio.reference, merged.ratio.candidate)},
        "experiments": list(merged.experiments),
        "verdict": _describe_outcome(merged),
        "doubts": _list_doubts(merged),
        "trust_reported": list(merged.trust_reported),
    }


def _name_variants(merged: MergedRatio) -> str:
    """Return both variants as a ratio of times has them: that of a rate is turned."""
    names = [merged.ratio.reference, merged.ratio.candidate]
    names = names if METRICS[merged.ratio.metric].lower_is_better else names[::-1]
    return " / ".join(merged.titles[name] for name in names)


def _list_cells(merged: MergedRatio) -> Row:
    ratio = merged.ratio
    where = format_count(ratio.hosts, "machine") + (f", {SHARED_MACHINE}" if ratio.runs_beside else "")
    value, interval = format_ratio(ratio.centre, ratio.low, ratio.high)
    return [METRICS[ratio.metric].title, value, interval, str(ratio.pairs), where, _describe_outcome(merged)]


def _describe_outcome(merged: MergedRatio) -> str:
    """Return what is known of a ratio, in the words of a report, of the variant that a ratio above 1 favours."""
    return badge_state(judge_row(merged.ratio), "ratio", merged.ratio.unequal).text


def _list_doubts(merged: MergedRatio) -> list[str]:
    """Return why a ratio is inconclusive, as far as a check found it."""
    leading = list_leading(merged.ratio.objections, merged.ratio.outcome == "inconclusive")
    return [describe_objection(one, merged.titles) for one in leading]


def _list_notes(ratios: Sequence[MergedRatio]) -> Iterator[str]:
    """Yield why ratios of the same runs are inconclusive, each reason once, and the quality that they share."""
    doubts = dict.fromkeys(doubt for merged in ratios for doubt in _list_doubts(merged))
    yield from (f"Inconclusive: {doubt}." for doubt in doubts)
    yield from (f"Reported times are trusted: {reason}." for reason in ratios[0].trust_reported)
    checks = [merged.ratio.quality for merged in ratios if merged.ratio.quality is not None]
    yield from (f"Quality {check.outcome}: {capitalize(check.reason)}." for check in checks[:1])
