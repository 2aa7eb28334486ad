"""The first screen: what was found, how sure, on what, with which data, at what quality, and why."""

from collections import Counter

from speedproof.common.numbers import format_count, format_ratio, format_value
from speedproof.records.comparison import Comparison, ContainerCost, NoiseFloor, Ratio, Scaling
from speedproof.report.accounts import explain, read_accounts
from speedproof.report.document import Badge, Fact, FirstScreen, SideName
from speedproof.report.explanation import describe_gpu_use
from speedproof.report.figures.evidence import Evidence
from speedproof.report.forest import VERDICT_TONES, describe_state, draw_forest
from speedproof.report.headlines import describe_needed
from speedproof.verdicts.main_ratios import MainRatio, find_main_ratios, orient
from speedproof.verdicts.statistics import LEAST_PAIRS

_DOES = {
    "training_epoch_s": "trains an epoch",
    "epoch_s": "gets through an epoch",
    "validation_epoch_s": "trains and validates an epoch",
    "process_s": "runs",
}


def compose_first_screen(evidence: Evidence) -> FirstScreen:
    """Return the first screen of a report on a results folder."""
    comparison = evidence.comparison
    mains = find_main_ratios(comparison)
    if not mains:
        return FirstScreen(
            [Badge("nothing to compare", "open")],
            ["No two sides could be compared."],
            [_describe_machine(evidence, None), _describe_data(comparison)],
        )
    main = mains[0]
    return FirstScreen(
        badges=_list_badges(main),
        sentence=describe_main(main, comparison),
        facts=[
            Fact("How sure", describe_sureness(main, comparison)),
            *_describe_documented(main),
            *_describe_others(main),
            _describe_machine(evidence, main),
            _describe_data(comparison),
            _describe_quality(main, comparison),
            *_describe_work(main),
        ],
        forest=draw_forest(mains, comparison),
        why=_explain(main, evidence),
    )


def describe_main(main: MainRatio, comparison: Comparison) -> list[str]:
    """Return in one sentence what the main ratio says; never more than its interval and its quality allow."""
    row, value = main.row, format_ratio(*main.interval)[0]
    match row:
        case Scaling():
            open_yet = ["No verdict yet: "] if main.state in ("no verdict", "one pair") else []
            others = "one" if row.smaller_ranks == 1 else f"each of {row.smaller_ranks}"
            done = f": each of {row.larger_ranks} GPUs gets {value} as much done as {others} of "
            return [*open_yet, SideName(row.larger_title), done, SideName(row.smaller_title), "."]
        case ContainerCost():
            if main.state in ("same", "no difference shown"):
                return ["No difference shown between ", SideName(row.title), f" inside and outside of the container ({value})."]
            return [SideName(row.title), f" takes {value} as long inside the container as outside."]
        case NoiseFloor():
            raise TypeError("a noise floor is no finding")
    centre = main.interval[0]
    names = main.sides if centre >= 1 else (main.sides[1], main.sides[0])
    fast, slow = (SideName(comparison.variants[name]) for name in names)
    value = value if centre >= 1 else format_ratio(*orient(row, not main.turned))[0]
    does = _describe_doing(row, comparison)
    match main.state:
        case "shown":
            return [fast, f" {does} {value} as fast as ", slow, "."]
        case "same":
            return [fast, f" {does} as fast as ", slow, f", within {format_value(comparison.same_margin, '%')}."]
        case "no difference shown":
            return ["No difference shown: whether ", fast, f" {does} faster or slower than ", slow, f" is open ({value})."]
        case "withheld":
            return ["Withheld: ", fast, f" {does} {value} as fast as ", slow, ", but at a worse quality."]
        case "one pair":
            return [
                "No verdict: in a single pair of runs ",
                fast,
                " came out ",
                f"{value} as fast as ",
                slow,
                ", which proves nothing.",
            ]
        case "no verdict":
            pairs = format_count(row.pairs, "pair")
            return [
                "No verdict yet: in ",
                f"{pairs} of runs ",
                fast,
                f" came out {value} as fast as ",
                slow,
                f"; a verdict needs {LEAST_PAIRS}.",
            ]


def describe_sureness(main: MainRatio, comparison: Comparison) -> str:
    """Return the interval, of how many pairs on how many machines it is, and what would decide, where it does not."""
    row = main.row
    pairs = f"{format_count(row.pairs, 'pair')} of runs"
    where = f"{row.hosts} machines" if row.scope == "model" else "one machine"
    if row.low is None:
        return f"{pairs} on {where}: no interval, so nothing is shown."
    block = f", {row.block}" if row.block and len(comparison.blocks) > 1 else ""
    told = f"95 % interval {format_ratio(*main.interval)[1]}, {pairs} on {where}{block}."
    needed = row.needed if isinstance(row, Ratio) else None
    needed = needed or next((claim.needed for claim in main.claims if claim.needed), None)
    return f"{told} {_capitalize(describe_needed(needed, row.scope))}." if needed else told


def _list_badges(main: MainRatio) -> list[Badge]:
    badges = [describe_state(main)]
    for claim in main.claims[:1]:
        tone = VERDICT_TONES.get(claim.verdict, "open")
        badges.append(Badge(f"documented {claim.documented}: {claim.verdict}", tone))
    return badges


def _describe_documented(main: MainRatio) -> list[Fact]:
    if not main.claims:
        return []
    told = "; ".join(f"{claim.documented}: {claim.verdict}" for claim in main.claims)
    return [Fact("Documented", f"{told} (on {main.claims[0].hardware}).")]


def _describe_others(main: MainRatio) -> list[Fact]:
    """Return the same ratio as other blocks have it, so that no number stands unexplained beside another."""
    if not main.others:
        return []
    told = ", ".join(f"{format_ratio(*orient(one, main.turned))[0]} in {one.block}" for one in main.others)
    return [Fact("Other blocks", f"{told}. Each block is judged by itself until three machines speak together.")]


def _describe_machine(evidence: Evidence, main: MainRatio | None) -> Fact:
    hosts = f" ({main.row.hosts} machines)" if main and main.row.scope == "model" else ""
    dates = sorted({run.run.started[:10] for run in evidence.results.runs})
    days = f", {dates[0]}{f' to {dates[-1]}' if len(dates) > 1 else ''}" if dates else ""
    return Fact("Machine", f"{evidence.comparison.conditions.device_name()}{hosts}{days}.")


def _describe_data(comparison: Comparison) -> Fact:
    conditions = comparison.conditions
    if conditions.synthetic_data:
        return Fact("Data", f"Synthetic: {conditions.dataset_name}.", warns=True)
    return Fact("Data", f"{conditions.dataset_name or 'as the programs have it'}.")


def _describe_quality(main: MainRatio, comparison: Comparison) -> Fact:
    row, title = main.row, comparison.quality.title
    if not isinstance(row, Ratio):
        return Fact("Quality", "The same program on both sides.")
    if row.target is not None:
        return Fact("Quality", f"Equal: the time to a {title} of {comparison.quality.format(row.target)} of both.")
    if row.quality is None:
        return Fact("Quality", "Not measured: whether both sides learn as well is not known.", warns=True)
    return Fact(
        "Quality", f"{_capitalize(row.quality.outcome)}: {row.quality.reason}.", warns=row.quality.outcome != "no worse"
    )


def _describe_work(main: MainRatio) -> list[Fact]:
    if isinstance(main.row, Ratio) and main.row.work is not None and main.row.unequal:
        return [Fact("Work", f"{_capitalize(main.row.work.reason)}.", warns=True)]
    return []


def _describe_doing(row: Ratio, comparison: Comparison) -> str:
    if row.target is not None:
        return f"reaches a {comparison.quality.title} of {comparison.quality.format(row.target)}"
    does = _DOES.get(row.metric, f"is, by the {comparison.title_of(row.metric)},")
    return does if row.arm == "timed" else f"{does}, under the profiler,"


def _explain(main: MainRatio, evidence: Evidence) -> list[str]:
    """Return one sentence of why, of the traces of the main ratio's sides where both have one."""
    accounts, traces = read_accounts(evidence), evidence.traces
    if isinstance(main.row, Ratio):
        fast, slow = main.sides if main.interval[0] >= 1 else (main.sides[1], main.sides[0])
        if fast in accounts and slow in accounts:
            return [SideName(accounts[fast].title), " takes ", explain(accounts[slow], accounts[fast])]
        for name in (slow, fast):
            if name in traces and traces[name][1].has_gpu:
                return [describe_gpu_use(traces[name][0].title, traces[name][1]), " The other side has no trace here."]
    if not traces:
        return ["Not known: no run was profiled."]
    counts = Counter(summary.has_gpu for _, summary in traces.values())
    if counts[True]:
        run, summary = next(pair for pair in traces.values() if pair[1].has_gpu)
        return [describe_gpu_use(run.title, summary)]
    return ["The traces are of a processor alone: see below where its time goes."]


def _capitalize(text: str) -> str:
    return text[:1].upper() + text[1:]
