"""`index.html`: the main finding of each of several results as a row of one table, with a link to its report."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from speedproof.report.document import PAGE_FILE, Badge, VariantName, Words
from speedproof.report.headlines import badge_verdict, describe_verdict
from speedproof.report.html import show
from speedproof.report.prose import make_environment
from speedproof.report.ratio_phrases import badge_claimed, describe_state, name_mode
from speedproof.report.records_overview import Setup, read_setup
from speedproof.results.asked import read_asked
from speedproof.results.comparison_rows import ClaimResult
from speedproof.results.files import write_text
from speedproof.results.folder import read_current_comparison
from speedproof.stats.finding import RatioFinding
from speedproof.stats.main_ratios import Answer, find_answer
from speedproof.util.numbers import NO_NUMBER, format_count, format_range, format_ratio, format_value

INDEX_FILE = "index.html"


@dataclass(frozen=True)
class IndexRow:
    """The main finding of a result: what is compared, what was found, where, and the way to its report."""

    title: Words
    what: str  # is measured
    folder: str
    link: str  # relative; empty without a report
    outcome: Badge
    documented: Badge | None
    value: str
    interval: str
    ends: tuple[float, float] | None  # the number and the lower end of its interval, to sort by
    quality: str
    setup: Setup


def write_index(results: Mapping[Path, str], out: Path) -> Path:
    """Write the page on these results, each with what to call it, into a folder, the newest first, and return its path.

    Raises:
        RecordError: a result cannot be read.
    """
    rows = sorted(
        (_read_row(folder, name, out) for folder, name in results.items()), key=lambda row: row.setup.date, reverse=True
    )
    environment = make_environment(autoescape=True)
    environment.filters.update(show=show, count=format_count)
    page = out / INDEX_FILE
    write_text(page, environment.get_template("index.html.j2").render(rows=rows))
    return page


def _read_row(folder: Path, name: str, out: Path) -> IndexRow:
    comparison = read_current_comparison(folder)
    answer = find_answer(comparison, read_asked(folder))
    report = next((path for path in (folder / PAGE_FILE, folder / "report.md") if path.is_file()), None)
    link = quote(os.path.relpath(report.absolute(), out.absolute())) if report else ""
    setup = read_setup(folder, comparison)
    if answer.mains:
        return _describe_main(answer, name, link, setup)
    return _describe_alone(answer.alone, comparison.variants.values(), name, link, setup)


def _describe_main(answer: Answer, name: str, link: str, setup: Setup) -> IndexRow:
    main = answer.mains[0]
    judged = answer.documented
    value, interval = format_ratio(*main.ends, *main.bounds)
    centre, low, _ = main.ends
    return IndexRow(
        title=_name_compared(main),
        what=f"{main.metric_title}{name_mode(main)}",
        folder=name,
        link=link,
        outcome=badge_claimed(main, main.claim.text) if main.claim else describe_state(main),
        documented=_badge_documented(judged.documented[0], name_mode(judged)) if judged else None,
        value=value,
        interval=interval,
        ends=(centre, centre if low is None else low),
        quality=_name_quality(main),
        setup=setup,
    )


def _describe_alone(claim: ClaimResult | None, titles: Iterable[str], name: str, link: str, setup: Setup) -> IndexRow:
    """Return the row of a result in which nothing is compared: by a documented number that it judged, or its variants."""
    measured = claim.measured if claim else None
    return IndexRow(
        title=claim.text if claim else ", ".join(titles),
        what="",
        folder=name,
        link=link,
        outcome=Badge("nothing to compare", "open"),
        documented=_badge_documented(claim) if claim else None,
        value=format_value(measured, claim.unit if claim else ""),
        interval=format_range(claim.low, claim.high, claim.unit) if claim else NO_NUMBER,
        ends=None,
        quality=NO_NUMBER,
        setup=setup,
    )


def _name_compared(main: RatioFinding) -> Words:
    if main.kind == "container":
        return [VariantName(main.subject.title), ": time inside the container against outside"]
    return [VariantName(main.subject.title), " against ", VariantName(main.against.title)]


def _badge_documented(claim: ClaimResult, mode: str = "") -> Badge:
    return badge_verdict(claim.verdict, f"{claim.documented}{mode}: {describe_verdict(claim)}")


def _name_quality(main: RatioFinding) -> str:
    if main.kind != "ratio":
        return "same program"
    if main.target is not None:
        return f"equal: {main.rule.title} {main.rule.format(main.target)}"
    return main.learning.check.outcome if main.learning else "not measured"
