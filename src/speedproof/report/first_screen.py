"""The first screen: what was found, how sure, on what, with which data, at what quality, and why."""

from collections.abc import Sequence

from speedproof.report.accounts import explain, read_accounts
from speedproof.report.answer import (
    capitalize,
    describe_alone,
    describe_documented,
    describe_main,
    describe_outcome,
    describe_sureness,
    find_alone,
    find_documented,
    name_mode,
)
from speedproof.report.claim_phrases import describe_verdict
from speedproof.report.document import Badge, Fact, FirstScreen, VariantName
from speedproof.report.explanation import describe_idleness
from speedproof.report.figures.figure_data import Evidence
from speedproof.report.forest import (
    CLAIM_TONES,
    VERDICT_TONES,
    describe_claimed,
    describe_state,
    draw_forest,
    judge_claimed,
    list_bounds,
)
from speedproof.report.objection_phrases import describe_objection
from speedproof.report.scope import describe_attempt, warn_of_machines
from speedproof.results.asked import Claim
from speedproof.results.claim_results import ClaimResult
from speedproof.results.comparison import Comparison, Ratio
from speedproof.results.objections import list_leading
from speedproof.stats.main_ratios import MainRatio, find_main_ratios, is_of_times, orient
from speedproof.stats.metrics import METRICS
from speedproof.stats.proof_claim import check_claimed, name_judged
from speedproof.util.numbers import format_digit, format_ratio

# Of a proof, whose commands bring their data, and may tell nothing but that they end.
_OWN_DATA = Fact("Data", "Whatever the commands read.")
_NO_QUALITY = Fact("Quality", "Not judged: the commands report no quality.")


def compose_first_screen(evidence: Evidence) -> FirstScreen:
    """Return the first screen of a report on a results folder."""
    comparison = evidence.comparison
    mains = find_main_ratios(comparison)
    if not mains:
        alone = find_alone(comparison)
        return FirstScreen(
            [Badge("nothing to compare", "open"), *([_badge_claim(alone)] if alone else [])],
            [describe_alone(comparison)],
            [
                *([Fact("Documented", describe_outcome(alone))] if alone else []),
                _describe_machine(evidence, None),
                _describe_data(comparison),
            ],
            why=next(
                (describe_idleness(run.title, summary) for run, summary in evidence.traces.values() if summary.has_gpu), ""
            ),
        )
    main = mains[0]
    claim, answered, claimed = _judge_claim(main, evidence)
    return FirstScreen(
        badges=[*(claimed or _list_doubts(main, evidence)), *_list_badges(mains)],
        sentence=[*answered, *describe_main(main, comparison)],
        facts=[
            Fact("How sure", describe_sureness(main, comparison, *list_bounds(claim))),
            *([Fact("Documented", documented)] if (documented := describe_documented(find_documented(mains))) else []),
            *_describe_others(main),
            _describe_machine(evidence, main),
            _OWN_DATA if evidence.proof else _describe_data(comparison),
            _NO_QUALITY if evidence.proof and not evidence.tells_quality else _describe_quality(main, comparison, claim),
            *_describe_work(main),
            *_list_conditions(main, comparison),
            *(
                [Fact("Trusted", f"Reported times: {comparison.trust_reported}", warns=True)]
                if comparison.trust_reported
                else []
            ),
            *_describe_digits(main),
            *(Fact("Repeated", said, warns=True) for said in describe_attempt(evidence.asked.attempt if evidence.asked else 1)),
        ],
        forest=draw_forest(mains, comparison, evidence.asked),
        why=_explain(main, evidence),
    )


def _list_badges(mains: Sequence[MainRatio]) -> list[Badge]:
    badges = [describe_state(mains[0])]
    if documented := find_documented(mains):
        badges.append(_badge_claim(documented.claims[0], name_mode(documented)))
    return badges


def _badge_claim(claim: ClaimResult, mode: str = "") -> Badge:
    return Badge(f"documented {claim.documented}{mode}: {describe_verdict(claim)}", VERDICT_TONES.get(claim.verdict, "open"))


def _judge_claim(main: MainRatio, evidence: Evidence) -> tuple[Claim | None, list[str], list[Badge]]:
    """Return the claim that a proof makes of its main ratio, and what became of it, in words and as a badge; else nothing."""
    found = judge_claimed(main.row, evidence.asked, evidence.comparison.quality)
    if found is None:
        return None, [], []
    claim, outcome = found
    row, centre = main.row, main.row.centre if isinstance(main.row, Ratio) else 1.0
    decided = outcome in ("claim holds", "claim fails") and not warn_of_machines(row, centre)  # else its own sentence warns
    near = warn_of_machines(row, centre, claim.value) if decided else ""
    words = describe_claimed(outcome)
    return claim, [f"Claim {claim.text}: {words}{near}. "], [Badge(f"claim {claim.text}: {words}", CLAIM_TONES[outcome])]


def _list_doubts(main: MainRatio, evidence: Evidence) -> list[Badge]:
    """Return what a proof without a claim leaves open of a speedup that is shown: the quality that it was to keep."""
    asked, quality = evidence.asked, main.row.quality if isinstance(main.row, Ratio) else None
    doubted = asked is not None and asked.margin is not None and quality is not None and quality.outcome == "not established"
    return [Badge("quality not established", "open")] if doubted and main.state == "shown" else []


def _list_conditions(main: MainRatio, comparison: Comparison) -> list[Fact]:
    """Return what else a reader must know of the main ratio."""
    objections = main.row.objections if isinstance(main.row, Ratio) else []
    leading = list_leading(objections, main.state == "inconclusive")
    conditions = [capitalize(describe_objection(one, comparison.variants)) for one in objections if one not in leading]
    return [Fact("But", f"{'. '.join(conditions)}.", warns=True)] if conditions else []


def _describe_others(main: MainRatio) -> list[Fact]:
    """Return the same ratio as other experiments have it, so that no number stands unexplained beside another."""
    if not main.others:
        return []
    others = ", ".join(f"{format_ratio(*orient(one, main.turned))[0]} in {one.experiment}" for one in main.others)
    return [Fact("Other experiments", f"{others}. Each experiment is judged by itself; three machines or more are merged.")]


def _describe_machine(evidence: Evidence, main: MainRatio | None) -> Fact:
    hosts = f" ({main.row.hosts} machines)" if main and main.row.scope == "model" else ""
    dates = sorted({run.run.started[:10] for run in evidence.results.runs})
    days = f", {dates[0]}{f' to {dates[-1]}' if len(dates) > 1 else ''}" if dates else ""
    shared = any(run.had_company for run in evidence.results.runs)
    company = ", shared with another experiment" if shared else ""
    return Fact("Machine", f"{evidence.comparison.conditions.device_name()}{hosts}{days}{company}.", warns=shared)


def _describe_data(comparison: Comparison) -> Fact:
    conditions = comparison.conditions
    if conditions.synthetic_data:
        return Fact("Data", f"Synthetic: {conditions.dataset_name}.", warns=True)
    return Fact("Data", f"{conditions.dataset_name or 'as the programs have it'}.")


def _describe_quality(main: MainRatio, comparison: Comparison, claim: Claim | None) -> Fact:
    row, rule = main.row, comparison.quality
    if not isinstance(row, Ratio):
        return Fact("Quality", "The same program on both variants.")
    if row.target is not None:
        return Fact("Quality", f"Equal: the time to a {rule.title} of {rule.format(row.target)} of both.")
    check = check_claimed(row, claim, rule)
    if check is None:
        return Fact("Quality", "Not measured: whether both variants learn as well is not known.", warns=True)
    if rule.margin is None and check.candidate_quality is not None:
        first, second = (rule.format(value) for value in (check.reference_quality, check.candidate_quality))
        names = [comparison.variants[name] for name in (row.reference, row.candidate)]
        said = (
            f"{capitalize(rule.title)} {first} of {names[0]}, {second} of {names[1]}; not judged, since no margin was declared."
        )
        return Fact("Quality", said, warns=True)
    outcome = check.outcome
    of = "" if claim is None else f", of {comparison.variants[name_judged(row, claim)]}"
    return Fact("Quality", f"{capitalize(outcome)}{of}: {check.reason}.", warns=outcome != "no worse")


def _describe_work(main: MainRatio) -> list[Fact]:
    if isinstance(main.row, Ratio) and main.row.work is not None and main.row.unequal:
        return [Fact("Work", f"{capitalize(main.row.work.reason)}.", warns=True)]
    return []


def _describe_digits(main: MainRatio) -> list[Fact]:
    """Return to which digit the epochs of a ratio are printed, and a warning if its outcome would be another in full."""
    row = main.row
    if not isinstance(row, Ratio) or row.printed is None or not is_of_times(row) or METRICS[row.metric].printed == "rate":
        return []
    text = f"Epoch times are printed to {format_digit(row.printed.digit_s)}; the interval includes this rounding."
    return [Fact("Digits", text, warns=row.printed.outcome != row.outcome)]


def _explain(main: MainRatio, evidence: Evidence) -> list[str]:
    """Return one sentence of why: of the traces of the main ratio's variants, of one of them, or of the first trace."""
    accounts, traces = read_accounts(evidence), evidence.traces
    if not traces and (untraced := evidence.results.untraced):
        return [f"Not here: the profiled runs ({', '.join(untraced)}) are left out of this record to keep it small."]
    if evidence.traced_in_vain:
        return ["Not known: the traces hold neither ranges nor a GPU's work."]
    if not traces:
        return [f"Not known: no run was profiled{' (--profiled 1)' if evidence.proof else ''}."]
    if isinstance(main.row, Ratio):
        fast, slow = main.variants if main.interval[0] >= 1 else (main.variants[1], main.variants[0])
        if fast in accounts and slow in accounts:
            return [VariantName(accounts[fast].title), " takes ", explain(accounts[slow], accounts[fast])]
        named, more = [slow, fast], " The other variant has no trace here."
    else:
        named, more = [getattr(main.row, "variant", "")], ""
    for name in (*named, *traces):
        if name in traces and traces[name][1].has_gpu:
            run, summary = traces[name]
            return [describe_idleness(run.title, summary), more if name in named else ""]
    return ["The traces are of a processor alone: see below where its time goes."]
