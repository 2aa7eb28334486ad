"""A finding about a ratio, in words: one place for the clauses of `prove`, the first screen, headlines and tables."""

import math

from speedproof.report.document import Badge, Tone, VariantName
from speedproof.report.objection_phrases import describe_condition, describe_objection, describe_remedy
from speedproof.report.scope import describe_place, name_here, warn_of_machines
from speedproof.results.comparison import StoppedExperiment
from speedproof.results.comparison_rows import Needed, Scope
from speedproof.results.quality import Quality
from speedproof.stats.estimates import LEAST_PAIRS, MOST_NAMED
from speedproof.stats.finding import FoundKind, Learning, RatioFinding, State, WholeProcess
from speedproof.stats.measure_names import name_doing, name_measure
from speedproof.stats.metrics import METRICS
from speedproof.stats.proof_claim import Proof
from speedproof.stats.sequential import MOST_PAIRS
from speedproof.util.numbers import Unit, format_count, format_digit, format_ratio, format_value
from speedproof.util.text import capitalize

# What precedes a number without a verdict.
_OPENINGS: dict[State, str] = {
    State.TOO_FEW: "No verdict yet: ",
    State.ONE_PAIR: "No verdict yet: ",
    State.INCONCLUSIVE: "Inconclusive: ",
    State.CONTESTED: "Inconclusive: ",
    State.EQUIVALENT: "Equivalent: ",
}
_UNDECIDED: dict[State, str] = {
    State.TOO_FEW: "too few pairs for a verdict",
    State.ONE_PAIR: "too few pairs for a verdict",
    State.EQUIVALENT: "equivalent",
}
_BADGES: dict[State, tuple[str, Tone]] = {
    State.FASTER: ("faster", "good"),
    State.SLOWER: ("slower", "bad"),
    State.EQUIVALENT: ("equivalent", "plain"),
    State.INCONCLUSIVE: ("inconclusive", "open"),
    State.CONTESTED: ("inconclusive", "open"),
    State.WORSE_QUALITY: ("withheld: worse quality", "bad"),
    State.TOO_FEW: ("no verdict", "open"),
    State.ONE_PAIR: ("no verdict: one pair", "open"),
}
_OTHER_BADGES: dict[tuple[str, State], tuple[str, Tone]] = {
    ("scaling", State.FASTER): ("no loss shown", "good"),
    ("scaling", State.SLOWER): ("loss shown", "open"),
    ("container", State.FASTER): ("cost shown", "open"),
    ("container", State.SLOWER): ("gain shown", "good"),
}
# Of metrics other than times: the words for a variant that needs less, and for one that needs more.
_AMOUNTS: dict[Unit, tuple[str, str]] = {
    "MiB": ("less memory", "more memory"),
    "J": ("less energy", "more energy"),
    "epochs": ("fewer epochs", "more epochs"),
}
_CLAIM_WORDS: dict[Proof, str] = {"claim holds": "holds", "claim fails": "fails"}  # after the claim
_CLAIM_TONES: dict[Proof, Tone] = {"claim holds": "good", "claim fails": "bad", "worse quality": "bad"}


def describe_state(found: RatioFinding) -> Badge:
    """Return the state of a ratio in a word or two; only of times is a variant faster."""
    badge = badge_state(found.state, found.kind, found.unequal)
    if found.is_of_times or not found.is_shown:
        return badge
    less, more = _AMOUNTS.get(METRICS[found.metric].unit, ("less", "more"))
    has_less = (found.state == State.FASTER) == (found.better == "lower")
    return Badge(less if has_less else more, badge.tone)


def badge_state(state: State, kind: FoundKind, unequal: bool = False) -> Badge:
    """Return a state in a word or two."""
    text, tone = _OTHER_BADGES.get((kind, state), _BADGES[state])
    shown = state in (State.FASTER, State.SLOWER)
    return Badge(f"{text}, unequal work", "open") if unequal and shown else Badge(text, tone)


def describe_claimed(found: RatioFinding) -> str:
    """Return the outcome of a proof's claim, in words that follow the claim."""
    return _CLAIM_WORDS.get(found.outcome, found.outcome)


def badge_claimed(found: RatioFinding, claim: str = "") -> Badge:
    """Return the outcome of a proof's claim, after the claim itself if it is given."""
    text = f"claim {claim}: {describe_claimed(found)}" if claim else f"claim {describe_claimed(found)}"
    return Badge(text, _CLAIM_TONES.get(found.outcome, "open"))


def describe_main(found: RatioFinding) -> list[str]:
    """Return a ratio as one sentence, which claims no more than its interval and its quality allow."""
    value, here = format_ratio(*found.ends, *found.bounds)[0], name_here(found.place)
    opening = _OPENINGS.get(found.state, "")
    if found.kind == "scaling" and found.ranks:
        larger, smaller = found.ranks
        others = "one" if smaller == 1 else f"each of {smaller}"
        each = f"{opening}{'each' if opening else 'Each'} of {larger} GPUs of "
        done = f" has {value} the throughput of {others} of "
        return [each, VariantName(found.subject.title), done, VariantName(found.against.title), f"{here}."]
    if found.kind == "container":
        return [opening, VariantName(found.subject.title), f" takes {value} as long inside the container as outside{here}."]
    if not found.is_of_times:
        fast, slow = (VariantName(one.title) for one in found.faster_first)
        more, less = (slow, fast) if found.better == "lower" else (fast, slow)
        value = value if found.centre >= 1 else format_ratio(1 / found.centre, None, None)[0]
        return [opening, more, f" has {value} the {found.metric_title} of ", less, f"{here}."]
    return _describe_speed(found, value)


def _describe_speed(found: RatioFinding, value: str) -> list[str]:
    """Return a ratio of times as one sentence."""
    does, here = _describe_doing(found), _describe_here(found)
    whole = "".join(f"; {one}" for one in describe_whole(found.whole))
    near = warn_of_machines(found.place, found.centre)
    match found.state:
        case State.FASTER:
            return [*_compare(found, does, here), f"{whole}{near}."]
        case State.SLOWER:
            said = f" is slower: it {does} {value} as fast as "
            return [VariantName(found.subject.title), said, VariantName(found.against.title), f"{here}{whole}{near}."]
        case State.EQUIVALENT:
            return [*_compare(found, does, here), f"{whole}."]
        case State.WORSE_QUALITY:
            return ["Withheld: ", *_compare(found, does, here), f", but the quality{_name_judged(found)} is worse."]
        case State.INCONCLUSIVE | State.CONTESTED:
            opening = f"Inconclusive: {_list_doubts(found)}"
        case State.TOO_FEW | State.ONE_PAIR:
            opening = "No verdict yet: "
    return [opening, *_compare(found, "measured", here), f"{_name_metric(found)}{whole}."]


def describe_sureness(found: RatioFinding) -> str:
    """Return the interval with its pairs and machines, and, if that does not decide, what would."""
    machines = f"{found.place.hosts} machines" if found.place.scope == "model" else "one machine"
    experiment = f", {found.place.experiment}" if found.others and found.place.experiment else ""
    evidence = f"{describe_evidence(found, f' on {machines}{experiment}')}."
    if found.needed:
        question = " whether the claim holds" if found.claim else " which is faster"
        return f"{evidence} {capitalize(describe_needed(found.needed, found.place.scope, question))}."
    for claim in found.documented:
        if claim.needed:
            question = f" whether it is {claim.documented}, as documented"
            return f"{evidence} {capitalize(describe_needed(claim.needed, found.place.scope, question))}."
    return evidence


def write_proof_headline(found: RatioFinding, claim: str | None, fixed_rounds: bool) -> str:
    """Return what a proof found about a command, without the evidence; `claim` is the claim as it was typed."""
    verb = "measured" if found.is_open or found.is_undecided else "is"
    where = f"{_name_inverse(found)}{_describe_here(found)}"
    said = f"{''.join(_compare(found, verb, where))}{_name_metric(found)}"
    if found.is_undecided:
        said = f"no verdict yet: {said}"
    if found.hidden_by_digits:
        said = f"{describe_more(found, fixed_rounds)}; {said}"
    head = "Withheld" if found.outcome == "worse quality" else capitalize(found.outcome)
    claimed = f", '{claim}'" if claim else ""
    return f"{head}{claimed}: {_list_doubts(found)}{said}"


def write_proof_sentence(found: RatioFinding, claim: str | None, fixed_rounds: bool) -> str:
    """Return a paragraph with all that a proof found about a command: its headline, and what this rests on."""
    evidence = "; ".join([describe_evidence(found), *describe_whole(found.whole), *_describe_observed(found)])
    said = f"{write_proof_headline(found, claim, fixed_rounds)} ({evidence})"
    if not found.hidden_by_digits:
        more = describe_more(found, fixed_rounds)
        said = f"{said}{_describe_learning(found)}{_warn_of_bound(found)}{f'; {more}' if more else ''}"
    after = [f"{describe_condition(one.objection, found.titles)}." for one in found.caveats if not one.leads]
    if found.trust_reported:
        after.append(f"Reported times are trusted: {found.trust_reported}.")
    if found.outcome == "inconclusive" and (remedy := describe_remedy([one.objection for one in found.caveats])):
        after.append(remedy)
    return " ".join([f"{said}.", *after])


def describe_more(found: RatioFinding, fixed_rounds: bool) -> str | None:
    """Return what would decide, if anything is open."""
    if found.hidden_by_digits:
        return _describe_digits(found)
    if found.state == State.CONTESTED:
        return None
    if found.stopped and found.stopped.reason == "futile" and found.outcome in ("inconclusive", "quality not established"):
        return _describe_futile(found, found.stopped)
    if found.outcome != "inconclusive" or (found.is_undecided and not found.needed):
        return None
    if found.needed:
        if fixed_rounds:
            pairs = format_count(found.needed.pairs, "pair")
            return f"about {pairs} would decide; --rounds {found.needed.pairs} measures all of them again, as another proof"
        return f"{_describe_spent(found.stopped)}{describe_needed(found.needed, found.place.scope)}"
    most = MOST_NAMED if fixed_rounds else MOST_PAIRS
    if found.pairs < most:
        enough = f"not even {most} pairs would" if fixed_rounds else f"{most} pairs may not"
        return f"{_describe_spent(found.stopped)}with this much variation, {enough} decide"
    return None


def _describe_spent(stopped: StoppedExperiment | None) -> str:
    """Return that the budget ended the rounds, if it did."""
    if stopped is None or stopped.reason != "budget":
        return ""
    return f"the budget of {stopped.budget_min:g} min was spent after {format_count(stopped.rounds, 'round')}; "


def describe_speedup(found: RatioFinding) -> str:
    """Return a headline: the metric, which variant is how many times as fast, where, and how sure that is."""
    what, where = found.full_title, f" {describe_place(found.place)}"
    evidence = describe_evidence(found)
    if found.needed:
        evidence += f"; {describe_needed(found.needed, found.place.scope)}"
    if found.state == State.WORSE_QUALITY and found.learning:
        first, second = found.subject.title, found.against.title
        return f"{what}: a speedup of {first} over {second}{where} is withheld: {found.learning.check.reason} ({evidence})."
    evidence += "".join(
        f"; {reason}" for reason in [*_doubt_quality(found), *([found.work.reason] if found.work and found.unequal else [])]
    )
    opening = "inconclusive: " if found.is_open else "no verdict yet: " if found.is_undecided else ""
    # The quality of a proof may be a reported one; the names that workloads give theirs take no article.
    quality = found.rule.title if found.rule.name == Quality().name else "quality"
    keeps = found.state == State.FASTER and found.learning is not None and found.learning.check.outcome == "no worse"
    said = "".join(_compare(found, "measured" if opening else "is", where))
    return f"{what}: {opening}{said}{f', and its {quality} is no worse' if keeps else ''} ({evidence})."


def describe_cell(found: RatioFinding) -> str:
    """Return a ratio for a table of speedups."""
    value, interval = format_ratio(*found.ends)
    worse = "".join(f"; {reason}" for reason in _doubt_quality(found))
    match found.state:
        case State.WORSE_QUALITY:
            text = f"withheld{worse}"
        case State.EQUIVALENT:
            text = f"equivalent ({interval})"
        case State.INCONCLUSIVE | State.CONTESTED:
            text = f"inconclusive ({interval}){worse}"
        case State.ONE_PAIR:
            text = f"no verdict: one pair ({value}){worse}"
        case State.TOO_FEW if found.has_interval:
            text = f"no verdict: fewer than {LEAST_PAIRS} pairs ({value}, {interval}){worse}"
        case State.TOO_FEW:
            text = f"no verdict: {format_count(found.pairs, 'pair')} ({value}){worse}"
        case _:
            text = f"{value} ({interval}){worse}"
    return text if found.target is None else f"{found.target:g}: {text}"


def _doubt_quality(found: RatioFinding) -> list[str]:
    """Return why the faster variant's quality is in doubt, if it is."""
    if found.learning is None:
        return []
    check = found.learning.check
    doubted = check.outcome == "worse" or (check.outcome == "not established" and found.is_shown)
    return [check.reason] if doubted else []


def name_mode(found: RatioFinding) -> str:
    """Return that the runs of a ratio were profiled, if they were."""
    return "" if found.mode == "timed" else ", under the profiler"


def describe_whole(whole: WholeProcess | None) -> list[str]:
    """Return the whole process' ratio, if there is one."""
    if whole is None:
        return []
    value, interval = format_ratio(*whole.ends)
    return [f"{value}{'' if whole.ends[1] is None else f' ({interval})'} for the {whole.title}"]


def describe_evidence(found: RatioFinding, where: str = "") -> str:
    """Return a ratio's interval, for how many comparisons it is adjusted, and its number of pairs."""
    interval = f"{spread}, " if (spread := describe_spread(found)) else ""
    few = f"; a verdict needs {LEAST_PAIRS}" if found.is_undecided else ""
    return f"{interval}{format_count(found.pairs, 'pair')} of runs{where}{few}"


def describe_spread(found: RatioFinding) -> str:
    """Return a ratio's interval and for how many comparisons it is adjusted; nothing without one."""
    adjusted = f", adjusted for {found.comparisons} comparisons" if found.comparisons > 1 else ""
    return f"95 % interval {format_ratio(*found.ends, *found.bounds)[1]}{adjusted}" if found.has_interval else ""


def describe_needed(needed: Needed, scope: Scope | None, question: str = "") -> str:
    """Return how many pairs, or machines, would decide if the next ones vary like these, and how long the missing ones take."""
    what = "machine" if scope == "model" else "pair"
    return f"about {format_count(needed.pairs, what)} in total would decide{question}, {_describe_minutes(needed.minutes)} more"


def _describe_futile(found: RatioFinding, stopped: StoppedExperiment) -> str:
    """Return why the rounds ended early without a decision, and what would decide."""
    if stopped.needed is None and _is_rounded(found):
        return f"stopped after {stopped.rounds} rounds, since more are unlikely to decide: {_describe_digits(found)}"
    most = (
        f"{stopped.reachable} rounds" if stopped.reachable == stopped.most else f"the {stopped.reachable} rounds of the budget"
    )
    lasting = "" if found.fixed_min is None else f" in {_describe_minutes(found.fixed_min)}"
    if stopped.needed is None:
        enough = f"not even {MOST_NAMED} would"
    elif found.is_beyond_budget:
        enough = f"{stopped.needed} fixed rounds would{lasting}, but longer runs (more epochs or data) need fewer"
    else:
        enough = f"{stopped.needed} fixed rounds would{lasting} (--rounds {stopped.needed})"
    return f"stopped after {stopped.rounds} rounds: with this much variation, {most} are unlikely to decide; {enough}"


def _is_rounded(found: RatioFinding) -> bool:
    """Return whether the digits of printed times make at least a third of the interval."""
    exact, (_, low, high) = found.printed, found.ends
    if not (exact and exact.low and exact.high and low and high):
        return False
    return math.log(exact.high / exact.low) <= 2 / 3 * math.log(high / low)


def describe_undecided(found: RatioFinding) -> str:
    """Return the words for a ratio without an established difference."""
    return _UNDECIDED.get(found.state, "inconclusive")


def describe_ratio_cells(found: RatioFinding) -> tuple[str, str]:
    """Return a ratio and its interval for a table, and the words for one that shows no difference, or does not count."""
    value, interval = format_ratio(*found.ends)
    if found.is_shown:
        doubt = "of unequal work" if found.unequal else ""
    else:
        doubt = "withheld" if found.state == State.WORSE_QUALITY else describe_undecided(found)
    return value, f"{interval}: {doubt}" if doubt and found.has_interval else interval


def _compare(found: RatioFinding, does: str, where: str) -> list[str]:
    """Return the clause that one variant is so many times as fast as the other."""
    subject, against = VariantName(found.subject.title), VariantName(found.against.title)
    if found.state == State.EQUIVALENT:
        return [subject, f" {does} as fast as ", against, f"{where}, within {format_value(found.margin, '%')}"]
    return [subject, f" {does} {format_ratio(*found.ends, *found.bounds)[0]} as fast as ", against, where]


def _name_inverse(found: RatioFinding) -> str:
    """Return how much longer a variant takes that is less than half as fast: few can read 0.0865×."""
    if found.state != State.SLOWER or found.centre >= 0.5:
        return ""
    return f" and takes {format_ratio(1 / found.centre, None, None)[0]} as long"


def _describe_here(found: RatioFinding) -> str:
    """Return where a ratio was measured, and whether the work is unequal."""
    here = name_here(found.place)
    if found.work is None or found.work.epochs is None:
        shown = found.state in (State.FASTER, State.SLOWER, State.EQUIVALENT)
        return f"{here}, with unequal work" if found.unequal and shown else here
    own, other = found.work.epochs
    return f"{here}, with unequal work ({format_count(own, 'epoch')} against {other:g})"


def _describe_doing(found: RatioFinding) -> str:
    if found.target is not None:
        return f"reaches a {found.rule.title} of {found.rule.format(found.target)}"
    does = name_doing(found.metric, found.counted, found.metric_title) or f"is, measured by {_name_measure(found)},"
    return does if found.mode == "timed" else f"{does}, under the profiler,"


def _name_metric(found: RatioFinding) -> str:
    verb = "" if found.is_open or found.is_undecided else "measured "  # else it is the clause's own verb
    return f", {verb}by {_name_measure(found)}{name_mode(found)}"


def _name_measure(found: RatioFinding) -> str:
    return name_measure(found.metric, found.counted, found.full_title)


def _describe_observed(found: RatioFinding) -> list[str]:
    return [] if found.observed is None else [f"{format_value(found.observed, '×')} by our clock"]


def _list_doubts(found: RatioFinding) -> str:
    """Return the objections that a sentence begins with, each followed by a semicolon."""
    return "".join(f"{describe_objection(one.objection, found.titles)}; " for one in found.caveats if one.leads)


def _warn_of_bound(found: RatioFinding) -> str:
    """Return that another machine may decide otherwise, if the ratio is close to its bound."""
    if found.outcome not in ("faster", "slower", "claim holds", "claim fails"):
        return ""
    return warn_of_machines(found.place, found.centre, *found.bounds)


def _describe_digits(found: RatioFinding) -> str:
    """Return what to do about a ratio that the rounding of its times hides."""
    if METRICS[found.metric].printed == "rate":
        return "the printed rates have too few digits; print more"
    digit_s = found.printed.digit_s if found.printed else 0.0
    return f"epoch times are printed to {format_digit(digit_s)}; print more digits, or drop --epoch-s"


def _describe_minutes(minutes: float) -> str:
    if minutes < 1:
        return "less than a minute"
    number, unit = (round(minutes), "minute") if minutes < 90 else (round(minutes / 60), "hour")
    return f"about {format_count(number, unit)}"


def _name_judged(found: RatioFinding) -> str:
    """Return whose quality is judged, unless it is the subject's."""
    learning = found.learning
    return "" if learning is None or learning.judged == found.subject else f" of {learning.judged.title}"


def _describe_learning(found: RatioFinding) -> str:
    """Return both variants' qualities, judged or not."""
    learning, rule = found.learning, found.rule
    if learning is None:
        return ""
    if learning.own is None or learning.other is None:
        return "" if rule.margin is None else f"; {rule.title} not judged: {learning.check.reason}"
    values = f"{rule.format(learning.own)} against {rule.format(learning.other)}"
    if rule.margin is None:
        return f"; {rule.title} {values}, not judged (no --margin)"
    return _describe_judged(found, learning) or f"; {rule.title} {values}"


def _describe_judged(found: RatioFinding, learning: Learning) -> str:
    """Return the outcome of the judged quality; nothing if the verdict does not depend on it."""
    rule, of, reason = found.rule, _name_judged(found), learning.check.reason
    match found.outcome:
        case "worse quality":
            return f", but the quality{of} is worse: {reason}"
        case "quality not established":
            return f", but it is not established that the quality{of} is no worse: {reason}"
        case "faster" | "slower" | "claim holds" if learning.check.outcome == "no worse":
            ends = (learning.other, learning.own) if of else (learning.own, learning.other)  # the judged variant's first
            return (
                f", and the {rule.title}{of} is no worse ({' against '.join(map(rule.format, ends))}, margin {rule.margin:g})"
            )
        case "faster" | "slower" | "claim holds" if learning.better:
            return f", and the {rule.title}{of} is better, though this is not established over seeds ({reason})"
    return ""
