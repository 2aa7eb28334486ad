"""What was found of commands or variants, as an object: of a proof that just ended, of its folder, or of a record."""

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from speedproof.library.guest import as_guest
from speedproof.library.html_table import write_html
from speedproof.report.document import PAGE_FILE
from speedproof.report.figures.figure_data import read_evidence
from speedproof.report.headlines import describe_answer
from speedproof.report.ratio_phrases import describe_main, describe_state, describe_sureness
from speedproof.report.trace_listings import Listing
from speedproof.results.asked import read_asked
from speedproof.results.comparison import Comparison, Measured, Ratio
from speedproof.results.folder import read_current_comparison
from speedproof.results.run_record import Mode
from speedproof.run.archive.rebuild import rebuild_report
from speedproof.run.proof.find import RESULTS, check_finished, find_proof, read_verdict
from speedproof.run.proof.verdict import JudgedObjection, Verdict, list_objections
from speedproof.run.staleness import check_current
from speedproof.stats.finding import RatioFinding
from speedproof.stats.main_ratios import find_answer
from speedproof.util.errors import RecordError, SpeedproofError
from speedproof.util.numbers import Unit, format_ratio

_COLUMNS = (
    "variant", "metric", "unit", "target", "experiment", "runs", "centre", "low", "high",
    "ratio", "ratio_low", "ratio_high", "pairs", "outcome",
)  # fmt: skip


def tabulate_levels(comparison: Comparison, mode: Mode) -> pd.DataFrame:
    """Return what was measured of each variant in a mode, and its ratio to the first variant: above 1 it is better."""
    first = next(iter(comparison.variants), "")
    ratios = {_key(_find_subject(ratio, comparison, first), ratio): ratio for ratio in comparison.ratios}
    rows = [
        _write_level(level, _name_unit(comparison.metrics[level.metric].unit), ratios.get(_key(level.variant, level)))
        for level in comparison.measured
        if level.mode == mode
    ]
    return pd.DataFrame(rows, columns=list(_COLUMNS))


def _write_level(level: Measured, unit: str, ratio: Ratio | None) -> dict[str, object]:
    """Return a row; what a variant was not compared by is missing in it."""
    row: dict[str, object] = {
        "variant": level.title,
        "metric": level.metric,
        "unit": unit,
        "target": level.target,
        "experiment": level.experiment,
        "runs": len(level.values),
        "centre": level.centre,
        "low": level.low,
        "high": level.high,
    }
    if ratio is not None:
        outcome = "inconclusive" if ratio.contested else ratio.outcome
        row |= {
            "ratio": ratio.centre,
            "ratio_low": ratio.low,
            "ratio_high": ratio.high,
            "pairs": ratio.pairs,
            "outcome": outcome,
        }
    return row


def _name_unit(unit: Unit) -> str:
    """Return a unit as a number is held, not as it is shown: a share of 0.5 is shown as 50 %."""
    return "fraction" if unit == "%" else unit


def _find_subject(ratio: Ratio, comparison: Comparison, first: str) -> str | None:
    """Return the variant that is better where a ratio is above 1, if the other one is the first."""
    times = comparison.metrics[ratio.metric].better == "lower"
    subject, other = (ratio.candidate, ratio.reference) if times else (ratio.reference, ratio.candidate)
    return subject if other == first else None


def _key(variant: str | None, row: Ratio | Measured) -> tuple[object, ...]:
    return variant, row.metric, row.mode, row.target, row.experiment


_NOTHING = "nothing to compare"


@dataclass(frozen=True)
class CandidateResult:
    """What was found of one candidate against its reference."""

    name: str  # its command, or the variant's title
    reference: str
    metric: str
    ratio: float | None  # how many times as fast it is as the reference; in a container: as long; None: not measured
    interval: tuple[float, float] | None  # 95 %; None: too few pairs
    pairs: int
    outcome: str
    sentence: str
    objections: list[JudgedObjection]


@dataclass(frozen=True, repr=False)
class ProofResult:
    """What a proof or a record found. A notebook shows it as its sentence and a table.

    >>> result = speedproof.load("records/2026-11-28-h200-published-turbo")
    >>> result.outcome
    'faster'
    >>> round(result.ratio, 1)
    28.7
    >>> [one.metric for one in result.candidates if one.outcome == "faster"]
    ['training_epoch_s', 'validation_epoch_s', 'process_to_quality_s']
    """

    outcome: str  # of several commands the worst, as in the exit status of `speedproof prove`
    sentence: str
    candidates: list[CandidateResult]  # of a proof each command but the first; of a record its main ratios, in their order
    folder: Path  # the proof or the record
    _results: Path
    _comparison: Comparison
    _of_proof: bool

    @property
    def ratio(self) -> float | None:
        """Return how many times as fast the candidate is as the reference; None if that was not measured."""
        return self._main.ratio if self._main else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Return the ratio's 95 % interval; None if there are too few pairs for one."""
        return self._main.interval if self._main else None

    @property
    def objections(self) -> list[JudgedObjection]:
        """Return what speaks against the ratio: each has a `kind`, a `sentence`, and whether it `blocks` the outcome."""
        return self._main.objections if self._main else []

    def to_frame(self, mode: Mode = "timed") -> pd.DataFrame:
        """Return a row for each variant and metric, in the metric's `unit`, with the ratio to the first variant.

        >>> frame = speedproof.load("records/2026-11-28-h200-published-turbo").to_frame()
        >>> frame.query("metric == 'training_epoch_s'")[["unit", "centre"]].round(4).head(3)
          unit  centre
        0    s  1.0949
        1    s  1.1120
        2    s  0.0382
        """
        with as_guest():
            return tabulate_levels(self._comparison, mode)

    def report(self, path: str | Path) -> Path:
        """Write the report's page, one HTML file with its figures and timeline, and return its path.

        >>> speedproof.load("results/proof").report("mine.html").name
        'mine.html'
        """
        with as_guest():
            check_current(self._results)
            evidence = read_evidence(self._results)
            if evidence.comparison != self._comparison:
                raise RecordError(f"{self.folder}: holds other results now; load it again, or give each proof an `out`")
            page = Path(path)
            with tempfile.TemporaryDirectory() as scratch:
                rebuild_report(evidence, Path(scratch))
                shutil.copyfile(Path(scratch, PAGE_FILE), page)
        return page

    @property
    def _main(self) -> CandidateResult | None:
        """Return the candidate that the ratio is of; of several commands each has its own."""
        if self._of_proof and len(self.candidates) > 1:
            raise SpeedproofError(
                f"{len(self.candidates)} candidates have a ratio each; read the one of `.candidates` that you want"
            )
        return self.candidates[0] if self.candidates else None

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.sentence}>"

    def _repr_html_(self) -> str:
        rows = [
            [one.name, one.reference, one.metric, *_format_interval(one), str(one.pairs), one.outcome]
            for one in self.candidates
        ]
        columns = ["candidate", "reference", "metric", ">ratio", ">95 % interval", ">pairs", "outcome"]
        return write_html([self.sentence], Listing("", columns, rows))


def load(folder: str | Path) -> ProofResult:
    """Return what was found in a folder: that of a proof (`results/proof`), any results folder, or a record.

    >>> print(speedproof.load("records/2026-11-28-h200-published-turbo").sentence)  # doctest: +ELLIPSIS
    Turbo (ours) trains an epoch 28.7× as fast as ... 95 % interval 28.1–29.2×, ...

    Raises:
        SpeedproofError: there are no results, they are damaged, or they changed since they were compared
    """
    with as_guest():
        place = find_proof(Path(folder).absolute())
        check_finished(place)
        verdict = read_verdict(place)
        return _describe_record(place) if verdict is None else describe_proof(verdict, place)


def describe_proof(verdict: Verdict, folder: Path) -> ProofResult:
    """Return a proof's result, of its verdict and of the folder that holds it."""
    candidates = [
        CandidateResult(
            name=one.command,
            reference=one.against,
            metric=verdict.metric,
            ratio=one.ratio,
            interval=_pair(one.low, one.high),
            pairs=one.pairs,
            outcome=one.outcome,
            sentence=one.sentence,
            objections=one.objections,
        )
        for one in verdict.candidates
    ]
    results = folder.absolute() / RESULTS
    comparison = read_current_comparison(results)
    return ProofResult(verdict.outcome, " ".join(verdict.sentences), candidates, results.parent, results, comparison, True)


def _describe_record(folder: Path) -> ProofResult:
    """Return what a results folder or a record says: its main ratios, as its report has them."""
    comparison = read_current_comparison(folder)
    answer = find_answer(comparison, read_asked(folder))
    candidates = [_describe_finding(main) for main in answer.mains]
    outcome = candidates[0].outcome if candidates else _NOTHING
    return ProofResult(outcome, " ".join(describe_answer(answer)), candidates, folder, folder, comparison, False)


def _describe_finding(found: RatioFinding) -> CandidateResult:
    """Return a main finding; the outcome of what compares no two variants is in the words of the report."""
    centre, low, high = found.ends
    container = found.kind == "container"
    return CandidateResult(
        name=found.subject.title,
        reference=f"{found.subject.title}, outside the container" if container else found.against.title,
        metric=found.metric,
        ratio=centre,
        interval=_pair(low, high),
        pairs=found.pairs,
        outcome=found.outcome if found.kind == "ratio" else describe_state(found).text,
        sentence=f"{''.join(describe_main(found))} {describe_sureness(found)}",
        objections=list_objections(found),
    )


def _pair(low: float | None, high: float | None) -> tuple[float, float] | None:
    return None if low is None or high is None else (low, high)


def _format_interval(one: CandidateResult) -> list[str]:
    low, high = one.interval or (None, None)
    ratio, interval = format_ratio(one.ratio, low, high)
    return [ratio, "" if one.interval is None else interval]
