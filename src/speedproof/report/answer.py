"""What the main ratio says in a sentence, how sure that is, and what was documented: of page, Markdown and terminal alike."""

from collections.abc import Sequence

from speedproof.report.claim_phrases import describe_verdict
from speedproof.report.document import VariantName
from speedproof.report.headlines import describe_needed, name_interval
from speedproof.report.objection_phrases import describe_objection, describe_unequal_epochs, describe_whole_process
from speedproof.report.scope import name_here, warn_of_machines
from speedproof.results.claim_results import ClaimResult
from speedproof.results.comparison import Comparison, ContainerCost, NoiseFloor, Ratio, Scaling
from speedproof.results.objections import list_leading
from speedproof.stats.estimates import LEAST_PAIRS
from speedproof.stats.main_ratios import MainRatio, State, find_main_ratios, is_of_times, orient
from speedproof.stats.metrics import METRICS
from speedproof.util.numbers import format_count, format_range, format_ratio, format_value

# What stands before a number that is no finding yet.
_OPENINGS: dict[State, list[str]] = {
    "no verdict": ["No verdict yet: "],
    "one pair": ["No verdict, of one pair: "],
    "inconclusive": ["Inconclusive: "],
    "contested": ["Inconclusive: "],
    "equivalent": ["No difference that matters: "],
}


def describe_answer(comparison: Comparison) -> list[str]:
    """Return the answer in a line, how sure it is in another, and what was documented in a third, where anything was."""
    mains = find_main_ratios(comparison)
    if not mains:
        alone = find_alone(comparison)
        return [describe_alone(comparison), *([f"Documented: {describe_outcome(alone)}"] if alone else [])]
    main = mains[0]
    documented = describe_documented(find_documented(mains))
    said = ["".join(describe_main(main, comparison)), describe_sureness(main, comparison)]
    return [*said, f"Documented: {documented}"] if documented else said


def describe_main(main: MainRatio, comparison: Comparison) -> list[str]:
    """Return in one sentence what the main ratio says; never more than its interval and its quality allow."""
    row, value, here = main.row, format_ratio(*main.interval)[0], name_here(main.row)
    match row:
        case Scaling():
            open_yet = _OPENINGS.get(main.state, [])
            others = "one" if row.smaller_ranks == 1 else f"each of {row.smaller_ranks}"
            each = f"{'each' if open_yet else 'Each'} of {row.larger_ranks} GPUs of "
            done = f" gets {value} as much done as {others} of "
            return [*open_yet, each, VariantName(row.larger_title), done, VariantName(row.smaller_title), f"{here}."]
        case ContainerCost():
            open_yet = _OPENINGS.get(main.state, [])
            return [*open_yet, VariantName(row.title), f" takes {value} as long inside the container as outside{here}."]
        case NoiseFloor():
            raise TypeError("a noise floor is no finding")
    centre = main.interval[0]
    names = main.variants if centre >= 1 else (main.variants[1], main.variants[0])
    fast, slow = (VariantName(comparison.variants[name]) for name in names)
    value = value if centre >= 1 else format_ratio(*orient(row, not main.turned))[0]
    if not is_of_times(row):
        open_yet = _OPENINGS.get(main.state, [])
        more, less = (slow, fast) if comparison.metrics[row.metric].better == "lower" else (fast, slow)
        return [*open_yet, more, f" has {value} the {comparison.title_of(row.metric)} of ", less, f"{here}."]
    does, work = _describe_doing(row, comparison), _describe_work(row, comparison, names[0], main.turned == (centre >= 1))
    match main.state:
        case "shown" if centre < 1:  # what is documented keeps its way round
            near = warn_of_machines(row, main.interval[0])
            return [
                slow,
                f" is slower: it {does} {format_ratio(*main.interval)[0]} as fast as ",
                fast,
                f"{here}{_describe_work(row, comparison, names[1], main.turned)}{near}.",
            ]
        case "shown":
            return [fast, f" {does} {value} as fast as ", slow, f"{here}{work}{warn_of_machines(row, main.interval[0])}."]
        case "equivalent":
            margin = format_value(comparison.equivalence_margin, "%")
            return [fast, f" {does} as fast as ", slow, f"{here}, within {margin}{work}."]
        case "inconclusive":
            return [
                f"Inconclusive: {_list_doubts(row, comparison)}whether ",
                fast,
                f" {does} faster or slower than ",
                slow,
                f"{here} is open (measured {value}).",
            ]
        case "withheld":
            return ["Withheld: ", fast, f" {does} {value} as fast as ", slow, f"{here}, but at a worse quality."]
        case "contested":
            doubts = _list_doubts(row, comparison)
            return [f"Inconclusive: {doubts}", fast, f" measured {value} as fast as ", slow, f"{here}{work}."]
        case "one pair":
            return [
                "No verdict: in a single pair of runs ",
                fast,
                " measured ",
                f"{value} as fast as ",
                slow,
                f"{here}, which proves nothing.",
            ]
        case "no verdict":
            pairs = format_count(row.pairs, "pair")
            return [
                "No verdict yet: in ",
                f"{pairs} of runs ",
                fast,
                f" measured {value} as fast as ",
                slow,
                f"{here}; a verdict needs {LEAST_PAIRS}.",
            ]


def describe_sureness(main: MainRatio, comparison: Comparison, *bounds: float) -> str:
    """Return the interval, of how many pairs on how many machines it is, and what would decide, where it does not.

    `bounds` are what the ratio is compared with besides 1.
    """
    row = main.row
    pairs = f"{format_count(row.pairs, 'pair')} of runs"
    where = f"{row.hosts} machines" if row.scope == "model" else "one machine"
    if row.low is None:
        return f"{pairs} on {where}: no interval, so nothing is shown."
    experiment = f", {row.experiment}" if row.experiment and len(comparison.experiments) > 1 else ""
    evidence = f"{name_interval(row)} {format_ratio(*main.interval, *bounds)[1]}, {pairs} on {where}{experiment}."
    if isinstance(row, Ratio) and row.needed:
        return f"{evidence} Which is faster, {describe_needed(row.needed, row.scope)}."
    claim = next((claim for claim in main.claims if claim.needed), None)
    if claim is None or claim.needed is None:
        return evidence
    return f"{evidence} Whether it is {claim.documented}, as documented, {describe_needed(claim.needed, row.scope)}."


def find_documented(mains: Sequence[MainRatio]) -> MainRatio | None:
    """Return the first main ratio of the main one's variants that has documented numbers, in any mode."""
    if not mains or not isinstance(mains[0].row, Ratio):
        return None
    variants = set(mains[0].variants)
    return next((one for one in mains if one.claims and set(one.variants) == variants), None)


def describe_documented(main: MainRatio | None) -> str:
    """Return the documented numbers of a ratio, with what became of each; nothing where there are none."""
    if main is None:
        return ""
    hardware = dict.fromkeys(claim.hardware for claim in main.claims)
    own = {claim.id: f" on {claim.hardware}" if len(hardware) > 1 else "" for claim in main.claims}
    verdicts = "; ".join(dict.fromkeys(f"{claim.documented}{own[claim.id]}: {_say_verdict(claim)}" for claim in main.claims))
    where = name_mode(main) if len(hardware) > 1 else f" (on {main.claims[0].hardware}{name_mode(main)})"
    return f"{verdicts}{where}."


def describe_alone(comparison: Comparison) -> str:
    """Return the answer where no two variants could be compared: what came of a documented number, or that there is nothing."""
    claim = find_alone(comparison)
    if claim is None or claim.verdict == "inconclusive":
        why = dict.fromkeys(what for one in comparison.incomparable if one.mode == "timed" for what in one.differences)
        return f"No two variants could be compared{': ' if why else ''}{'; '.join(why)}."
    return f"{claim.text}: {format_value(claim.measured, claim.unit)}, where {claim.documented} is documented."


def find_alone(comparison: Comparison) -> ClaimResult | None:
    """Return the documented number to show if no two variants could be compared: a decided one, if there is any."""
    judged = [claim for claim in list_judged(comparison) if claim.measured is not None]
    return min(judged, key=lambda claim: claim.verdict == "inconclusive", default=None)


def list_judged(comparison: Comparison) -> list[ClaimResult]:
    """Return the documented numbers with an outcome: most were measured; a quality may never have been reached."""
    return [claim for claim in comparison.claims if claim.verdict not in ("not measured", "not comparable")]


def describe_outcome(claim: ClaimResult) -> str:
    """Return a documented number beside the measured one, and the outcome."""
    spread = "" if claim.low is None else f", 95 % interval {format_range(claim.low, claim.high, claim.unit)}"
    needed = f", {describe_needed(claim.needed, claim.scope)}" if claim.needed else ""
    return (
        f"{claim.text}: {claim.documented} on {claim.hardware}; measured {format_value(claim.measured, claim.unit)}{spread} "
        f"({claim.reason}): {describe_verdict(claim)}{needed}."
    )


def _say_verdict(claim: ClaimResult) -> str:
    """Return the verdict, and each experiment's own if they disagree."""
    said: dict[str, list[str]] = {}
    for experiment, verdict in claim.by_experiment.items():
        said.setdefault(verdict, []).append(experiment)
    each = ", ".join(f"{verdict} in {' and '.join(experiments)}" for verdict, experiments in said.items())
    return f"{describe_verdict(claim)}: {each}" if each else describe_verdict(claim)


def name_mode(main: MainRatio) -> str:
    """Return how the runs of a ratio ran, where it was not as they do by themselves."""
    return ", under the profiler" if isinstance(main.row, Ratio) and main.row.mode != "timed" else ""


def _list_doubts(row: Ratio, comparison: Comparison) -> str:
    """Return the objections that a ratio's sentence begins with, each with a semicolon behind it."""
    leading = list_leading(row.objections, row.outcome == "inconclusive")
    return "".join(f"{describe_objection(one, comparison.variants)}; " for one in leading)


def _describe_work(row: Ratio, comparison: Comparison, subject: str, turned: bool) -> str:
    """Return the numbers of epochs if they differ, that of `subject` first, and the whole process if it says something else."""
    whole = describe_whole_process(row, comparison, turned)
    return f"{describe_unequal_epochs(row, subject)}{f'; {whole}' if whole else ''}"


def _describe_doing(row: Ratio, comparison: Comparison) -> str:
    if row.target is not None:
        return f"reaches a {comparison.quality.title} of {comparison.quality.format(row.target)}"
    does = METRICS[row.metric].verb or f"is, by the {comparison.title_of(row.metric)},"
    return does if row.mode == "timed" else f"{does}, under the profiler,"


def capitalize(text: str) -> str:
    """Return a sentence with its first letter large."""
    return text[:1].upper() + text[1:]
