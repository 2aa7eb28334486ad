"""`report.md`: what was measured, what it says about the documented numbers, and what it can and cannot show."""

import os
import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from speedproof.common.errors import RecordError
from speedproof.common.numbers import format_range, format_value
from speedproof.common.shipped import BASE
from speedproof.common.text import printable
from speedproof.records.doctor import read_diagnosis
from speedproof.records.files import write_text
from speedproof.report.figures.draw import FIGURES
from speedproof.report.figures.evidence import Evidence, read_evidence
from speedproof.report.figures.index import FIGURES_FILE, read_figure_index
from speedproof.report.findings import (
    describe_container,
    describe_differences,
    describe_images,
    describe_ladder,
    describe_limits,
    describe_noise,
    describe_ratio_claims,
    describe_sides,
    describe_verdicts,
)
from speedproof.report.headlines import describe_headlines, tabulate_speedups
from speedproof.report.tables import (
    group_unmeasured,
    list_bounds,
    list_claims,
    list_container_costs,
    list_findings,
    list_further,
    list_incomparable,
    list_ladder,
    list_levels,
    list_overheads,
    list_phases,
    list_qualities,
    list_ratios,
    list_rules,
    list_runs,
    list_techniques,
    list_ways_to_quality,
)
from speedproof.report.waiting import describe_rank_sides, list_rank_notes, list_rank_times, list_scalings

# Captions belong to the workflow, which shows them in Snakemake's own report, too.
CAPTIONS_FOLDER = BASE / "workflow/report"

# An underscore inside a word is none.
_MARKDOWN_MARKS = re.compile(r"([\\`*\[\]<>|#~&]|(?<!\w)_|_(?!\w))")
# What may stand in a link as it is; a bracket would end it.
_OF_LINKS = "/:?#@!$&'*+,;=%~"
_PROFILERS = {"nsys": "Nsight Systems", "kineto": "kineto (torch.profiler)"}


def write_report(results: Path, out: Path) -> None:
    """Write the report on a results folder, with its `comparison.json`, as the Markdown file `out`: words and tables.

    The same results give the same bytes. Raises :class:`RecordError` where something that the report needs is missing.
    """
    write_text(out, compose_report(read_evidence(results), out))


def compose_report(evidence: Evidence, out: Path, figures: Path | None = None) -> str:
    """Return the report as Markdown whose links are relative to the file `out`; with the figures of a folder, if one is given.

    What `doctor.json` finds missing is told, where there is one. Raises :class:`RecordError` where figures are missing.
    """
    results = evidence.results.folder
    diagnosis = read_diagnosis(results)
    speedups, unequal = (tabulate_speedups(evidence.comparison, unequal=apart) for apart in (False, True))
    return _environment().get_template("report.md.j2").render(
        case=evidence.results.runs[0].run.case,
        comparison=evidence.comparison,
        conditions=evidence.comparison.conditions,
        speedups=speedups,
        unequal_speedups=unequal,
        headlines=describe_headlines(evidence.comparison, tabulated=bool(speedups or unequal)),
        ratio_claims=describe_ratio_claims(evidence.comparison),
        verdicts=describe_verdicts(evidence.comparison),
        noise=[*describe_noise(evidence.comparison), *describe_container(evidence.comparison)],
        images=describe_images(evidence.results),
        limits=describe_limits(evidence),
        sides=[*describe_sides(evidence), *describe_rank_sides(evidence)],
        differences=describe_differences(evidence),
        levels=list_levels(evidence.comparison),
        ratios=list_ratios(evidence.comparison),
        qualities=list_qualities(evidence.comparison),
        ways_to_quality=list_ways_to_quality(evidence.comparison),
        ladder=list_ladder(evidence.comparison),
        ladder_whole=describe_ladder(evidence.comparison),
        incomparable=list_incomparable(evidence.comparison),
        claims=list_claims(evidence.comparison),
        unmeasured=group_unmeasured(evidence.comparison),
        techniques=list_techniques(evidence.results),
        overheads=list_overheads(evidence.comparison),
        container_costs=list_container_costs(evidence.comparison),
        scalings=list_scalings(evidence.comparison),
        rank_times=list_rank_times(evidence),
        rank_notes=list_rank_notes(evidence),
        bounds=list_bounds(evidence.comparison),
        phases=list_phases(evidence),
        runs=list_runs(evidence.results),
        lacking=list_findings(diagnosis, "absent", "problem"),
        doubtful=list_findings(diagnosis, "notice"),
        figures=_list_figures(figures, out) if figures else [],
        drawable={kind.title: kind.lacks(evidence) for kind in FIGURES},
        further=list_further(evidence.comparison),
        metrics=list_rules(evidence.comparison),
        profilers=_list_profilers(evidence),
        results=_relative(results, out),
    )  # fmt: skip


def escape_markdown(value: Any) -> Markup:
    """Return text that Markdown shows as it is, on one line: nothing that comes from a file can become markup."""
    if isinstance(value, Markup):
        return value
    return Markup(_MARKDOWN_MARKS.sub(r"\\\1", printable(" ".join(str(value).split()))))


def escape_link(value: Any) -> Markup:
    """Return the target of a Markdown link: of a page on the web, or of a file by its relative path; of nothing else."""
    link = quote(str(value), safe=_OF_LINKS)
    scheme = link.split("/")[0]
    return Markup(link if ":" not in scheme or scheme in ("https:", "http:") else "")


def _environment() -> Environment:
    """Return the environment in which whatever a template prints is escaped, unless a template says that it is Markdown."""
    environment = Environment(
        loader=PackageLoader("speedproof.report"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=True,  # so that macros give Markup; what to escape, and how, is Markdown's affair:
        finalize=escape_markdown,
    )
    environment.filters.update(escape=escape_markdown, link=escape_link, number=_format_number)
    environment.globals.update(number_range=format_range)
    return environment


def _format_number(*number: Any) -> Markup:
    return Markup(format_value(*number))


def _list_figures(folder: Path, out: Path) -> list[dict[str, str | None]]:
    """Return title, link, caption and, where there is no figure, the reason of every figure."""
    if not (folder / FIGURES_FILE).exists():
        raise RecordError(f"{folder / FIGURES_FILE}: no such file; draw the figures first")
    return [
        {
            "title": entry.title,
            "link": f"{_relative(folder, out)}/{entry.name}",
            "caption": (CAPTIONS_FOLDER / f"{entry.name}.rst").read_text(encoding="utf-8").strip(),
            "missing": entry.missing,
            "profilers": " and ".join(_PROFILERS[name] for name in entry.profilers),
        }
        for entry in read_figure_index(folder).figures
    ]


def _list_profilers(evidence: Evidence) -> list[str]:
    found = {f"{_PROFILERS[summary.profiler]} {summary.profiler_version}" for _, summary in evidence.traces.values()}
    return sorted(found)


def _relative(path: Path, out: Path) -> str:
    return Path(os.path.relpath(path, out.parent)).as_posix()
