"""What merged experiments say: ratios of equal settings, each with its machines, and documented ratios beside them."""

import json
from collections.abc import Iterator, Sequence

from speedproof.report.scope import SHARED_MACHINE
from speedproof.report.trace_listings import Listing
from speedproof.results.claim_results import ClaimResult
from speedproof.results.comparison import Ratio
from speedproof.results.folder import Results
from speedproof.stats.metrics import METRICS
from speedproof.util.numbers import format_count, format_range, format_ratio, format_value

_COLUMNS = ["variants", "metric", ">ratio", ">95 % interval", ">pairs", "measured on", "quality"]
_CLAIMS = ["documented ratio", "documented", ">measured", ">95 % interval", "outcome"]


def list_merged(results: Results, ratios: Sequence[Ratio], claims: Sequence[ClaimResult]) -> Iterator[Listing]:
    """Yield a table of the ratios and, if documented ratios were judged, one of these."""
    titles = results.variants
    yield Listing(
        "",
        _COLUMNS,
        [
            [
                f"{titles[ratio.reference]} / {titles[ratio.candidate]}",
                METRICS[ratio.metric].title,
                *format_ratio(ratio.centre, ratio.low, ratio.high),
                str(ratio.pairs),
                _name_machines(ratio),
                _describe_learning(ratio),
            ]
            for ratio in ratios
        ],
        most=len(ratios),
    )
    rows = [
        [
            claim.text,
            claim.documented,
            format_value(claim.measured, claim.unit),
            format_range(claim.low, claim.high, claim.unit),
            claim.verdict,
        ]
        for claim in claims
    ]
    if rows:
        yield Listing("", _CLAIMS, rows, most=len(rows))


def write_merged_json(ratios: Sequence[Ratio], claims: Sequence[ClaimResult]) -> str:
    """Return ratios and documented ratios as JSON, as `comparison.json` has them."""
    rows = {"ratios": ratios, "claims": claims}
    return json.dumps({name: [row.model_dump(mode="json") for row in own] for name, own in rows.items()}, indent=1)


def _name_machines(ratio: Ratio) -> str:
    where = format_count(ratio.hosts, "machine") if ratio.scope == "model" else str(ratio.experiment)
    return f"{where}, {SHARED_MACHINE}" if ratio.runs_beside else where


def _describe_learning(ratio: Ratio) -> str:
    if ratio.quality is None:
        return ""
    return f"{ratio.quality.outcome}: {ratio.quality.reason}"
