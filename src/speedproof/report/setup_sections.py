"""Sections of a report on what ran on what, and how its numbers are made."""

from collections.abc import Iterator, Sequence

from speedproof.profilers.formats import find_profiler
from speedproof.report.document import Element, Table, Text
from speedproof.report.figures.figure_data import Evidence
from speedproof.report.findings import describe_images
from speedproof.report.report_tables import list_findings, list_rules, list_runs, list_techniques
from speedproof.results.diagnosis import read_diagnosis
from speedproof.results.experiment import OLD_DESIGN
from speedproof.util.numbers import NO_NUMBER, format_count, format_value


def compose_conditions(evidence: Evidence) -> list[Element]:
    """Compose what a reader must know of the machine, the data and how variants differ."""
    conditions = evidence.comparison.conditions
    rows: list[list[str]] = [["Device", conditions.device_name()]]
    if gpu := conditions.gpu:
        rows += [
            ["GPU memory", format_value(gpu.memory_mib, "MiB")],
            ["Driver, CUDA, cuDNN", f"{gpu.driver}, {conditions.cuda or NO_NUMBER}, {conditions.cudnn or NO_NUMBER}"],
            [
                "Power limit, highest SM clock",
                f"{format_value(gpu.power_limit_w)} W, {format_value(gpu.max_sm_clock_mhz)} MHz",
            ],
        ]
    synthetic = " (synthetic)" if conditions.synthetic_data else ""
    scratch = ", read from the node's own disk" if conditions.scratch else ""
    data = [["Dataset", f"{conditions.dataset_name}{synthetic}, digest {conditions.dataset}{scratch}"]]
    rows += [
        ["Processor", f"{conditions.cpu}, {format_count(conditions.cores, 'core')}"],
        *([] if evidence.proof else data),
        ["Profiler", ", ".join(name_profilers(evidence)) or "none"],
        ["Experiments", ", ".join(evidence.comparison.experiments)],
    ]
    elements: list[Element] = [Table(["What", "Here"], rows)]
    techniques = list_techniques(evidence.results)
    if len(techniques) > 1:
        what = "command, setting" if evidence.proof else "technique"
        elements += [Text(["How the variants differ:"]), Table([what, *techniques[0]], techniques[1:])]
    return elements


def compose_runs(evidence: Evidence) -> list[Element]:
    """Compose the table of runs, and the warnings about them."""
    best = f"Best {evidence.comparison.quality.title}"
    header = ["Experiment", "Run", "Profiler", "Seed", "Epochs", "Process", best, "Ended"]
    rows = list_runs(evidence.results)
    if evidence.proof:
        header, *rows = _leave_out_empty([header, *rows])
    elements: list[Element] = [Table(header, rows)]
    if evidence.comparison.warnings:
        elements += [Text(["Warnings:"]), Text(evidence.comparison.warnings, bullets=True)]
    return elements


def compose_environment(evidence: Evidence) -> list[Element]:
    """Compose the versions of the software that ran."""
    conditions = evidence.comparison.conditions
    rows = [["Python", conditions.python], *([name, version] for name, version in sorted(conditions.packages.items()))]
    rows += [
        ["Image", describe_images(evidence.results)],
        ["speedproof itself", f"commit {conditions.git_commit or 'unknown'}, digest {conditions.sources}"],
    ]
    return [Table(["Software", "Version"], rows)]


def compose_unmeasured(evidence: Evidence) -> list[Element]:
    """Compose what could not be measured or used on this machine."""
    diagnosis = read_diagnosis(evidence.results.folder)
    lacking, doubtful = list_findings(diagnosis, "absent", "problem"), list_findings(diagnosis, "notice")
    if evidence.proof:  # a command owes no build of a framework; the first page shows that no GPU was used
        unasked = "CUDA" if evidence.comparison.conditions.gpu else ("GPU", "CUDA")
        lacking = [row for row in lacking if not row[0].startswith(unasked)]
    elements: list[Element] = []
    if lacking:
        note = "No number stands for these: what is not measured is left out, and never shown as zero."
        elements.append(Table(["What", "Found", "To have it"], lacking, [note]))
    if doubtful:
        lead = "Works, but to know" if lacking else "What to know of this machine"
        elements += [Text([f"{lead} before numbers are quoted:"]), Table(["What", "Found", "To change it"], doubtful)]
    if not evidence.proof and (absent := list(_list_absent_pictures(evidence))):
        elements.append(Text(absent, bullets=True))
    return elements


def compose_numbers(evidence: Evidence) -> list[Element]:
    """Compose how each metric and its interval are made."""
    notes = list_rules(evidence.comparison, measured_alone=evidence.proof)
    rules = [[note.title, note.expression, ", ".join(note.files)] for note in notes]
    pairs = "the paired logarithms of two variants' values"
    stopped = f" and, of experiments that went on until decided, one on {pairs} that holds whenever one stops" * bool(
        evidence.comparison.stopped
    )
    together = max((ratio.comparisons for ratio in evidence.comparison.ratios), default=1)
    joint = f" The intervals of {together} compared ratios of a metric are joint: all hold in 95 of 100 experiments."
    note = (
        f"An interval is a t interval on {pairs}{stopped}, of a share on its runs' values; over several machines it is "
        f"that of the machines' means. {_describe_order(evidence)} comparison.json names, for each number, the files and the "
        "expression that it comes from." + joint * (together > 1)
    )
    return [Table(["Metric", "How it is made", "Of each run's"], rules, [note])]


def _describe_order(evidence: Evidence) -> str:
    """Return how runs were ordered, by the design of the experiments."""
    if any(experiment.design == OLD_DESIGN for experiment in evidence.results.experiments):
        return "The order is random; every second round reverses it."
    return "The order of the runs was drawn at random, and each of two variants comes first in two of four rounds."


def _list_absent_pictures(evidence: Evidence) -> Iterator[str]:
    from speedproof.report.figures.draw import FIGURES  # `results show` draws nothing, and waits for no matplotlib

    for kind in FIGURES:
        if lacking := kind.lacks(evidence):
            yield f"{kind.title}. Not drawn: {lacking}."


def name_profilers(evidence: Evidence) -> list[str]:
    """Return the profilers that recorded the traces, with their versions."""
    found = {f"{find_profiler(one.profiler).title} {one.profiler_version}" for _, one in evidence.traces.values()}
    return sorted(found)


def _leave_out_empty(rows: Sequence[list[str]]) -> list[list[str]]:
    """Return a header and rows without the columns of which no row says anything."""
    nothing = {NO_NUMBER, "0 of 0", "none", ""}
    filled = [number for number in range(len(rows[0])) if any(row[number] not in nothing for row in rows[1:])]
    return [[row[number] for number in filled] for row in rows]
