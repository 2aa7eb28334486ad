"""Sections of a report on what ran on what, and how its numbers are made."""

import re
from collections.abc import Sequence

from speedproof.profilers.formats import find_profiler
from speedproof.report.document import Element, Row, Table, Text, make_table
from speedproof.report.figures.figure_data import FIGURES, Evidence
from speedproof.report.findings import describe_images
from speedproof.report.report_tables import RESULT_PROSE
from speedproof.results.diagnosis import Finding, read_diagnosis
from speedproof.results.experiment import OLD_DESIGN
from speedproof.results.folder import Results
from speedproof.results.run_record import Run
from speedproof.stats.clocks import read_clocks
from speedproof.stats.metrics import METRICS, PROCESS, TRAINING_EPOCH, measure_run
from speedproof.util.numbers import NO_NUMBER, format_count, format_value
from speedproof.util.text import capitalize, write_setting

_BACKTICKS = re.compile("`([^`]*)`")  # around commands, in texts that no report reads as markup
_NO_TECHNIQUES = {"title", "epochs", "validate_every"}
_OBSERVED, _OTHERS = "Epoch by our clock", "Other programs"
_LEAST_SHARE = 0.0005  # of the cores: less is a rounding of two measured times
_NOTES = {
    _OBSERVED: "Epochs as reported and by our clock: means with their validation, without the first epoch if there are others.",
    _OTHERS: "Other programs: their share of the cores during the run.",
}
_OF_CUDA, _OF_A_GPU = {"CUDA"}, {"CUDA", "GPU", "GPU counters", "GPU clocks"}  # subjects of findings


def compose_conditions(evidence: Evidence) -> list[Element]:
    """Compose the machine, the data and how the variants differ."""
    conditions = evidence.comparison.conditions
    rows = [["Device", conditions.device_name()]]
    if gpu := conditions.gpu:
        watts, megahertz = format_value(gpu.power_limit_w), format_value(gpu.max_sm_clock_mhz)
        rows += [
            ["GPU memory", format_value(gpu.memory_mib, "MiB")],
            ["Driver, CUDA, cuDNN", f"{gpu.driver}, {conditions.cuda or NO_NUMBER}, {conditions.cudnn or NO_NUMBER}"],
            ["Power limit, highest SM clock", f"{watts} W, {megahertz} MHz"],
        ]
    rows.append(["Processor", f"{conditions.cpu}, {format_count(conditions.cores, 'core')}"])
    if not evidence.proof:
        synthetic = " (synthetic)" if conditions.synthetic_data else ""
        scratch = ", read from the node's own disk" if conditions.scratch else ""
        rows.append(["Dataset", f"{conditions.dataset_name}{synthetic}, digest {conditions.dataset}{scratch}"])
    rows += [
        ["Profiler", ", ".join(name_profilers(evidence)) or "none"],
        ["Experiments", ", ".join(evidence.comparison.experiments)],
    ]
    what = "command, setting" if evidence.proof else "technique"
    techniques = make_table([what, *evidence.results.variants.values()], _list_techniques(evidence.results))
    return [Table(["What", "Here"], rows), *([Text(["How the variants differ:"]), *techniques] if techniques else [])]


def _list_techniques(results: Results) -> list[Row]:
    """Return a row for each technique in which variants differ."""
    variants = {run.run.variant: run.run.techniques for run in reversed(results.runs)}
    techniques = [variants[variant] for variant in results.variants]
    rows = [(key, [variant.get(key) for variant in techniques]) for key in techniques[0] if key not in _NO_TECHNIQUES]
    return [[key, *map(write_setting, values)] for key, values in rows if any(value != values[0] for value in values)]


def compose_runs(evidence: Evidence) -> list[Element]:
    """Compose the table of runs, and the warnings about them; a column without values is left out."""
    columns = _list_columns(evidence)
    rows = list(zip(*columns.values(), strict=True))
    notes = [note for name, note in _NOTES.items() if name in columns]
    warnings = evidence.comparison.warnings
    return [Table(list(columns), rows, notes), *([Text(["Warnings:"]), Text(warnings, bullets=True)] if warnings else [])]


def _list_columns(evidence: Evidence) -> dict[str, Row]:
    """Return the columns of the table of runs by their headings."""
    runs, proof = evidence.results.runs, evidence.proof
    columns: dict[str, Row] = {
        "Experiment": [run.experiment for run in runs],
        "Run": [run.name for run in runs],
        "Profiler": [run.run.profiler for run in runs],
        "Seed": [str(run.run.seed) for run in runs],
        "Epochs": [f"{len(run.epochs)} of {run.run.epochs}" for run in runs],
        **_list_measured(evidence),
        "Process": [format_value(run.run.process_s, "s") for run in runs],
        f"Best {evidence.comparison.quality.title}": [run.quality.format(run.run.best_quality) for run in runs],
        "Ended": [_describe_end(run.run) for run in runs],
    }
    lacking = {
        "Profiler": proof and all(run.run.profiler == "none" for run in runs),
        "Epochs": proof and not any(run.run.epochs or len(run.epochs) for run in runs),
        f"Best {evidence.comparison.quality.title}": proof and not evidence.tells_quality,
    }
    return {name: cells for name, cells in columns.items() if not lacking.get(name)}


def _list_measured(evidence: Evidence) -> dict[str, Row]:
    """Return what was measured of each run: the headline's metric, an epoch by both clocks, and the load of the machine."""
    runs = evidence.results.runs
    main = next((one for one in evidence.answer.mains if one.metric in METRICS), None)
    metric, target = (main.metric, main.target) if main else (TRAINING_EPOCH, None)
    clocks = [read_clocks(run) for run in runs]
    loads = [run.observed.machine.others_share if run.observed.machine else None for run in runs]
    columns: dict[str, list[str]] = {
        evidence.comparison.title_of(metric): [
            format_value(measure_run(run, metric, target), METRICS[metric].unit) for run in runs
        ],
        "Epoch as reported": [format_value(one.reported_s if one else None, "s") for one in clocks],
        _OBSERVED: [format_value(one.observed_s if one else None, "s") for one in clocks],
        _OTHERS: [format_value(share if share is None or share >= _LEAST_SHARE else 0.0, "%") for share in loads],
    }
    if metric == PROCESS:
        del columns[evidence.comparison.title_of(metric)]
    if set(columns[_OBSERVED]) == {NO_NUMBER}:
        del columns["Epoch as reported"]
    return {capitalize(name): cells for name, cells in columns.items() if set(cells) != {NO_NUMBER}}


def _describe_end(run: Run) -> str:
    """Return how a run ended, and at which epochs it was resumed."""
    breaks = [f"continued at epoch {part.first_epoch} ({part.reason})" for part in run.continued]
    return ", ".join([f"{run.outcome}: {run.reason}" if run.reason else run.outcome, *breaks])


def compose_environment(evidence: Evidence) -> list[Element]:
    """Compose the versions of the software that ran."""
    conditions = evidence.comparison.conditions
    rows = [
        ["Python", conditions.python],
        *([name, version] for name, version in sorted(conditions.packages.items())),
        ["Image", describe_images(evidence.results)],
        ["speedproof itself", f"commit {conditions.git_commit or 'unknown'}, digest {conditions.sources}"],
    ]
    return [Table(["Software", "Version"], rows)]


def compose_unmeasured(evidence: Evidence) -> list[Element]:
    """Compose what could not be measured or used on this machine."""
    diagnosis = read_diagnosis(evidence.results.folder)
    findings = diagnosis.findings if diagnosis else []
    # A command need not bring a framework; the first screen shows that no GPU was used.
    unasked = (_OF_CUDA if evidence.comparison.conditions.gpu else _OF_A_GPU) if evidence.proof else set()
    lacking = [one for one in findings if one.state in ("absent", "problem") and one.subject not in unasked]
    doubtful = _list_findings([one for one in findings if one.state == "notice"])
    elements = make_table(["What", "Found", "To have it"], _list_findings(lacking), RESULT_PROSE["lacking"]())
    if doubtful:
        lead = "Available, with caveats" if lacking else "Caveats of this machine"
        elements += [Text([f"{lead} (read before you quote numbers):"]), Table(["What", "Found", "To change it"], doubtful)]
    if not evidence.proof and (absent := _list_absent_pictures(evidence)):
        elements.append(Text(absent, bullets=True))
    return elements


def _list_findings(findings: Sequence[Finding]) -> list[Row]:
    return [[one.subject, *(_BACKTICKS.sub(r"“\1”", text) for text in (one.found, one.hint or ""))] for one in findings]


def _list_absent_pictures(evidence: Evidence) -> list[str]:
    return [f"{kind.title}. Not drawn: {lacking}." for kind in FIGURES if (lacking := kind.lacks(evidence))]


def compose_numbers(evidence: Evidence) -> list[Element]:
    """Compose how each metric and its interval are computed, for the main metrics and the further ones that were measured."""
    comparison = evidence.comparison
    rules = [
        [note.title, note.expression, ", ".join(note.files)]
        for name, note in comparison.metrics.items()
        if name in evidence.findings.measured_metrics or not (note.further or evidence.proof)
    ]
    old_order = any(experiment.design == OLD_DESIGN for experiment in evidence.results.experiments)
    note = RESULT_PROSE["intervals"](bool(comparison.stopped), old_order, evidence.findings.most_comparisons)
    return [Table(["Metric", "How it is computed", "From each run's"], rules, [note])]


def name_profilers(evidence: Evidence) -> list[str]:
    """Return the profilers that recorded the traces, with their versions."""
    return sorted({f"{find_profiler(one.profiler).title} {one.profiler_version}" for _, one in evidence.traces.values()})
