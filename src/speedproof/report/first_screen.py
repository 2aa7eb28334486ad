"""The first screen: what was found, how sure, on what, with which data, at what quality, and why."""

from collections.abc import Sequence

from speedproof.report.accounts import draw_waterfall, explain, read_accounts
from speedproof.report.document import Badge, Bars, Fact, FirstScreen, VariantName, Words
from speedproof.report.explanation import describe_idleness
from speedproof.report.figures.figure_data import Evidence
from speedproof.report.forest import draw_forest
from speedproof.report.headlines import badge_verdict, describe_alone, describe_documented, describe_verdict
from speedproof.report.objection_phrases import describe_condition
from speedproof.report.ratio_phrases import (
    badge_claimed,
    describe_claimed,
    describe_main,
    describe_spread,
    describe_state,
    describe_sureness,
    name_mode,
)
from speedproof.report.scope import describe_attempt, warn_of_machines
from speedproof.results.comparison import Comparison
from speedproof.results.comparison_rows import MACHINE_KINDS, ClaimResult
from speedproof.results.experiment import LOST_TRACE
from speedproof.stats.finding import RatioFinding, State
from speedproof.stats.main_ratios import Answer
from speedproof.stats.measure_names import name_measure
from speedproof.stats.metrics import METRICS, PROCESS_TO_QUALITY
from speedproof.util.numbers import format_count, format_digit, format_ratio
from speedproof.util.text import capitalize

_NO_ROUNDING = 0.001  # of an end of the interval: rounding that changes it less needs no words
# For a proof: its commands bring their own data, and may report nothing.
_OWN_DATA = Fact("Data", "Read by the commands themselves.")
_NO_QUALITY = Fact("Quality", "Not judged: the commands report no quality.")


def compose_first_screen(evidence: Evidence) -> FirstScreen:
    """Return the first screen of a report on a results folder."""
    answer = evidence.answer
    machine = _describe_machine(evidence, answer)
    documented = [Fact("Documented", said) for said in describe_documented(answer)]
    if not answer.mains:
        badges = [Badge("nothing to compare", "open"), *([_badge_documented(answer.alone)] if answer.alone else [])]
        facts = [*documented, machine, _describe_data(evidence.comparison)]
        return FirstScreen(badges, [describe_alone(answer)], facts, why=_describe_first_trace(evidence))
    main = answer.mains[0]
    return FirstScreen(
        badges=_list_badges(main, answer.documented),
        sentence=[*_answer_claim(main), *describe_main(main)],
        note=_qualify(main, evidence),
        facts=[
            Fact("How sure", describe_sureness(main)),
            *documented,
            *_describe_others(main),
            machine,
            _OWN_DATA if evidence.proof else _describe_data(evidence.comparison),
            _NO_QUALITY if evidence.proof and not evidence.tells_quality else _describe_quality(main, evidence),
        ],
        spread=describe_spread(main),
        forest=draw_forest(answer, evidence.results),
        why=_explain(main, evidence),
        caveats=_list_caveats(main, evidence.asked.attempt if evidence.asked else 1),
        waterfall=_draw_waterfall(evidence),
    )


def _list_caveats(main: RatioFinding, attempt: int) -> list[Fact]:
    """Return what speaks against the main ratio and its sentence does not say, the gravest first."""
    return [
        *([Fact("Work", f"{capitalize(main.work.reason)}.", warns=True)] if main.work and main.unequal else []),
        *([Fact("Trusted", f"Reported times: {main.trust_reported}", warns=True)] if main.trust_reported else []),
        *_list_conditions(main),
        *(Fact("Repeated", said, warns=True) for said in describe_attempt(attempt)),
        *_describe_digits(main),
    ]


def _draw_waterfall(evidence: Evidence) -> Bars | None:
    """Return the steps between the epochs of the first compared variants that both have a trace."""
    accounts = read_accounts(evidence)
    pairs = ([variant.name for variant in one.faster_first] for one in evidence.answer.mains if one.kind == "ratio")
    compared = next((pair for pair in pairs if all(name in accounts for name in pair)), None)
    return draw_waterfall(accounts[compared[1]], accounts[compared[0]]) if compared else None


def _list_badges(main: RatioFinding, documented: RatioFinding | None) -> list[Badge]:
    badges = [badge_claimed(main, main.claim.text)] if main.claim else []
    if not main.claim and main.outcome == "quality not established":
        badges.append(Badge(main.outcome, "open"))
    badges.append(describe_state(main))
    return [*badges, *([_badge_documented(documented.documented[0], name_mode(documented))] if documented else [])]


def _badge_documented(claim: ClaimResult, mode: str = "") -> Badge:
    return badge_verdict(claim.verdict, f"documented {claim.documented}{mode}: {describe_verdict(claim)}")


def _qualify(main: RatioFinding, evidence: Evidence) -> str:
    """Return a sentence on what a speedup of a workload leaves open: real data, and the quality."""
    if evidence.proof or not main.is_shown:
        return ""
    said = ["the data are synthetic"] if evidence.comparison.conditions.synthetic_data else []
    said += ["quality was not judged"] if _is_not_judged(main) and not _find_way(main, evidence.answer) else []
    return f"{capitalize(' and '.join(said))}." if said else ""


def _answer_claim(main: RatioFinding) -> list[str]:
    """Return, as one sentence, the outcome of the claim about a proof's main ratio."""
    if main.claim is None:
        return []
    # If the ratio is this close to 1, its own sentence has the warning.
    decided = main.outcome in ("claim holds", "claim fails") and not warn_of_machines(main.place, main.centre)
    near = warn_of_machines(main.place, main.centre, main.claim.value) if decided else ""
    return [f"Claim {main.claim.text}: {describe_claimed(main)}{near}. "]


def _list_conditions(main: RatioFinding) -> list[Fact]:
    """Return the caveats of the main ratio, except those that its sentence begins with: of programs, then of the machine."""
    besides = [one.objection for one in main.caveats if not (one.leads and main.is_open)]
    besides.sort(key=lambda one: one.kind in MACHINE_KINDS)
    return [Fact("But", f"{describe_condition(one, main.titles)}.", warns=True) for one in besides]


def _describe_others(main: RatioFinding) -> list[Fact]:
    """Return the same ratio in other experiments, to explain numbers that differ."""
    if not main.others:
        return []
    others = ", ".join(f"{format_ratio(*ends)[0]} in {experiment}" for experiment, ends in main.others)
    return [
        Fact(
            "Other experiments", f"{others}. Each experiment is judged separately; those of three or more machines are merged."
        )
    ]


def _describe_machine(evidence: Evidence, answer: Answer) -> Fact:
    places = [main.place for main in answer.mains[:1]]
    hosts = "".join(f" ({place.hosts} machines)" for place in places if place.scope == "model")
    days = f", {days}" if (days := evidence.results.days) else ""
    shared = any(run.had_company for run in evidence.results.runs)
    company = ", shared with another experiment" if shared else ""
    return Fact("Machine", f"{evidence.comparison.conditions.device_name()}{hosts}{days}{company}.", warns=shared)


def _describe_data(comparison: Comparison) -> Fact:
    conditions = comparison.conditions
    if conditions.synthetic_data:
        return Fact("Data", f"Synthetic: {conditions.dataset_name}.", warns=True)
    return Fact("Data", f"{conditions.dataset_name or 'chosen by the programs'}.")


def _is_not_judged(main: RatioFinding) -> bool:
    return main.learning is not None and main.learning.check.outcome == "not judged"


def _find_way(main: RatioFinding, answer: Answer) -> RatioFinding | None:
    """Return how much sooner the main ratio's faster variant reaches a quality than another variant, if it is shown to."""
    faster = main.faster_first[0]
    ways = (one for one in answer.mains if one.metric == PROCESS_TO_QUALITY and one.state is State.FASTER)
    return next((one for one in ways if one.subject == faster), None)


def _describe_way(way: RatioFinding, qualities: Sequence[RatioFinding]) -> tuple[str, bool]:
    """Return whether the faster variant's quality is no worse, or how much sooner it reaches one; and whether that warns."""
    checks = (one.learning.check for one in qualities if one.learning and _is_of_same_runs(one, way))
    if check := next((one for one in checks if one.outcome != "not judged"), None):
        outcome = "not established to be no worse" if check.outcome == "not established" else check.outcome
        compared = f"{way.subject.title} is {outcome} than {way.against.title}: {check.reason}"
        return f"In {format_count(way.pairs, 'other pair')} of runs, {compared}.", check.outcome != "no worse"
    measured, interval = format_ratio(*way.ends)
    reached = f"a {way.rule.title} of {way.rule.format(way.target or 0.0)}"
    compared = f"{way.subject.title} is {measured} as fast as {way.against.title} ({interval})"
    return f"From the start of the process to {reached}, {compared}.", False


def _is_of_same_runs(one: RatioFinding, other: RatioFinding) -> bool:
    return {one.subject, one.against} == {other.subject, other.against} and one.place.experiment == other.place.experiment


def _describe_quality(main: RatioFinding, evidence: Evidence) -> Fact:
    rule, learning = main.rule, main.learning
    if main.kind != "ratio":
        return Fact("Quality", "The same program in both variants.")
    if main.target is not None:
        return Fact("Quality", f"Equal: both are timed until a {rule.title} of {rule.format(main.target)}.")
    if learning is None:
        return Fact("Quality", "Not measured: the variants may differ in quality.", warns=True)
    if rule.margin is None and learning.own is not None:
        values = f"{rule.format(learning.other)} for {main.against.title}, {rule.format(learning.own)} for {main.subject.title}"
        return Fact("Quality", f"{capitalize(rule.title)} {values}; not judged, because no margin was declared.", warns=True)
    outcome = learning.check.outcome
    if _is_not_judged(main) and (way := _find_way(main, evidence.answer)):
        said, warns = _describe_way(way, evidence.findings.qualities)
        measure = name_measure(main.metric, main.counted, main.metric_title)
        length = _describe_length(main, evidence)
        return Fact("Quality", f"Not judged for the ratio of {measure}{length}: {learning.check.reason}. {said}", warns)
    of = "" if main.claim is None else f", for {learning.judged.title}"
    return Fact("Quality", f"{capitalize(outcome)}{of}: {learning.check.reason}.", warns=outcome != "no worse")


def _describe_length(main: RatioFinding, evidence: Evidence) -> str:
    """Return after how many epochs the runs of a ratio end, which explains a low quality; nothing if they differ."""
    names, experiment = {main.subject.name, main.against.name}, main.place.experiment
    runs = [one for one in evidence.results.runs if experiment in (None, one.experiment) and one.run.variant in names]
    lengths = {one.run.epochs for one in runs if one.run.mode == main.mode}
    return f", whose runs end after {format_count(lengths.pop(), 'epoch')}" if len(lengths) == 1 else ""


def _describe_digits(main: RatioFinding) -> list[Fact]:
    """Return the last digit of the printed epochs, and a warning if more digits would change the outcome."""
    exact, (_, low, high) = main.printed, main.ends
    if exact is None or not main.is_of_times or METRICS[main.metric].printed == "rate":
        return []
    ends = [(exact.low, low), (exact.high, high)]
    if not main.digits_decide and all(one and other and abs(one / other - 1) < _NO_ROUNDING for one, other in ends):
        return []
    text = f"Epoch times are printed to {format_digit(exact.digit_s)}; the interval includes this rounding."
    return [Fact("Digits", text, warns=main.digits_decide)]


def _describe_first_trace(evidence: Evidence) -> str:
    traces = (one for one in evidence.traces.values() if one[1].has_gpu)
    return next((describe_idleness(run.title, summary) for run, summary in traces), "")


def _name_failed(evidence: Evidence) -> str:
    """Return a sentence on the profiled runs that failed; an empty one if none did."""
    lost = [name for one in evidence.results.experiments for name, end in one.undone.items() if end == LOST_TRACE]
    which = "this run" if len(lost) == 1 else "these runs"
    return f"{' and '.join(lost)} failed under the profiler; see log.txt of {which}." if lost else ""


def _explain(main: RatioFinding, evidence: Evidence) -> Words:
    """Return one sentence on the cause, from the traces of the main ratio's variants, of one of them, or the first trace."""
    accounts, traces = read_accounts(evidence), evidence.traces
    if not traces and (untraced := evidence.results.untraced):
        return [f"Not here: this record leaves out the profiled runs ({', '.join(untraced)}) to stay small."]
    if evidence.traced_in_vain:
        return ["Unknown: the traces hold neither ranges nor GPU work."]
    failed = _name_failed(evidence)
    if not traces and failed:
        return [f"Unknown: {failed}"]
    if not traces:
        return [f"Unknown: no run was profiled{' (--profiled 1)' if evidence.proof else ''}."]
    if main.state is State.EQUIVALENT:
        return ["Nothing to explain: the variants take the same time within the margin."]
    fast, slow = (one.name for one in main.faster_first)
    if main.kind == "ratio" and fast in accounts and slow in accounts:
        turned = main.is_shown and accounts[fast].total_s > accounts[slow].total_s
        doubt = ["Without the profiler it is the other way round, so the traces do not explain the ratio: "] if turned else []
        return [*doubt, VariantName(accounts[fast].title), " takes ", explain(accounts[slow], accounts[fast])]
    missing = f" No trace: {failed}" if failed else " The other variant has no trace here."
    lone = " The two traces cannot be compared." if {fast, slow} <= set(traces) else missing
    named, more = ([slow, fast], lone) if main.kind == "ratio" else ([main.subject.name], "")
    for name in (*named, *traces):
        if name in traces and traces[name][1].has_gpu:
            run, summary = traces[name]
            return [describe_idleness(run.title, summary), more if name in named else ""]
    cover = "trace covers" if len(traces) == 1 else "traces cover"
    return [f"The {cover} the CPU only; see below where its time goes.", more if len(traces) == 1 else ""]
