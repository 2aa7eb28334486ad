"""What was found of a ratio, in words: each clause stands here once, for `prove`, the first screen, headlines and tables."""

from typing import Literal

from speedproof.report.document import Badge, Tone, VariantName
from speedproof.report.objection_phrases import describe_condition, describe_objection, describe_remedy
from speedproof.report.scope import describe_place, name_here, warn_of_machines
from speedproof.results.comparison import StoppedExperiment
from speedproof.results.comparison_rows import Needed, Scope
from speedproof.results.quality import Quality
from speedproof.stats.estimates import LEAST_PAIRS, MOST_NAMED
from speedproof.stats.finding import Learning, RatioEnds, RatioFinding, State, WholeProcess
from speedproof.stats.metrics import METRICS
from speedproof.stats.proof_claim import Proof
from speedproof.stats.sequential import MOST_PAIRS
from speedproof.util.numbers import format_count, format_digit, format_ratio, format_value
from speedproof.util.text import capitalize

# What stands before a number that is no finding yet.
_OPENINGS: dict[State, str] = {
    State.TOO_FEW: "No verdict yet: ",
    State.ONE_PAIR: "No verdict yet: ",
    State.INCONCLUSIVE: "Inconclusive: ",
    State.CONTESTED: "Inconclusive: ",
    State.EQUIVALENT: "No difference that matters: ",
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
_CLAIM_WORDS: dict[Proof, str] = {"claim holds": "holds", "claim fails": "fails"}  # after the claim itself
_CLAIM_TONES: dict[Proof, Tone] = {"claim holds": "good", "claim fails": "bad", "worse quality": "bad"}


def describe_state(found: RatioFinding) -> Badge:
    """Return what is known of a ratio, in a word or two."""
    return badge_state(found.state, found.kind, found.unequal)


def badge_state(state: State, kind: Literal["ratio", "scaling", "container", "noise"], unequal: bool = False) -> Badge:
    """Return a state in a word or two."""
    text, tone = _OTHER_BADGES.get((kind, state), _BADGES[state])
    shown = state in (State.FASTER, State.SLOWER)
    return Badge(f"{text}, of unequal work", "open") if unequal and shown else Badge(text, tone)


def describe_claimed(found: RatioFinding) -> str:
    """Return what became of a proof's claim, as it stands behind it."""
    return _CLAIM_WORDS.get(found.outcome, found.outcome)


def badge_claimed(found: RatioFinding, claim: str = "") -> Badge:
    """Return what became of a proof's claim, which may be written out."""
    text = f"claim {claim}: {describe_claimed(found)}" if claim else f"claim {describe_claimed(found)}"
    return Badge(text, _CLAIM_TONES.get(found.outcome, "open"))


def describe_main(found: RatioFinding) -> list[str]:
    """Return in one sentence what a ratio says; never more than its interval and its quality allow."""
    value, here = format_ratio(*found.ends, *found.bounds)[0], name_here(found.place)
    opening = _OPENINGS.get(found.state, "")
    if found.kind == "scaling" and found.ranks:
        larger, smaller = found.ranks
        others = "one" if smaller == 1 else f"each of {smaller}"
        each = f"{opening}{'each' if opening else 'Each'} of {larger} GPUs of "
        done = f" gets {value} as much done as {others} of "
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
    """Return in one sentence what a ratio of times says of two variants."""
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
            return ["Withheld: ", *_compare(found, does, here), f", but at a worse quality{_name_judged(found)}."]
        case State.INCONCLUSIVE | State.CONTESTED:
            opening = f"Inconclusive: {_list_doubts(found)}"
        case State.TOO_FEW | State.ONE_PAIR:
            opening = "No verdict yet: "
    return [opening, *_compare(found, "measured", here), f"{_name_metric(found)}{whole}."]


def describe_sureness(found: RatioFinding) -> str:
    """Return the interval, of how many pairs on how many machines it is, and what would decide if that does not."""
    machines = f"{found.place.hosts} machines" if found.place.scope == "model" else "one machine"
    experiment = f", {found.place.experiment}" if found.place.experiment else ""
    evidence = f"{_describe_evidence(found, f' on {machines}{experiment}')}."
    if found.needed:
        return f"{evidence} Which is faster, {describe_needed(found.needed, found.place.scope)}."
    for claim in found.documented:
        if claim.needed:
            decides = describe_needed(claim.needed, found.place.scope)
            return f"{evidence} Whether it is {claim.documented}, as documented, {decides}."
    return evidence


def write_proof_sentence(found: RatioFinding, claim: str | None, fixed_rounds: bool) -> str:
    """Return all that a proof found of a command in a paragraph; `claim` is what is claimed, as it was typed."""
    evidence = "; ".join([_describe_evidence(found), *describe_whole(found.whole), *_describe_observed(found)])
    verb = "measured" if found.is_open or found.is_undecided else "is"
    said = f"{''.join(_compare(found, verb, _describe_here(found)))}{_name_metric(found)} ({evidence})"
    if found.is_undecided:
        said = f"no verdict yet: {said}"
    more = describe_more(found, fixed_rounds)
    if found.hidden_by_digits:
        said = f"{more}; {said}"
    else:
        said = f"{said}{_describe_learning(found)}{_warn_of_bound(found)}{f'; {more}' if more else ''}"
    head = "Withheld" if found.outcome == "worse quality" else capitalize(found.outcome)
    claimed = f", '{claim}'" if claim else ""
    after = [f"{describe_condition(one.objection, found.titles)}." for one in found.caveats if not one.leads]
    if found.trust_reported:
        after.append(f"Reported times are trusted: {found.trust_reported}.")
    if found.outcome == "inconclusive" and (remedy := describe_remedy([one.objection for one in found.caveats])):
        after.append(remedy)
    return " ".join([f"{head}{claimed}: {_list_doubts(found)}{said}.", *after])


def describe_more(found: RatioFinding, fixed_rounds: bool) -> str | None:
    """Return what would decide, if anything is to be decided; of a claim, for which pairs are not counted, nothing."""
    if found.hidden_by_digits:
        return _describe_digits(found)
    if found.state == State.CONTESTED:
        return None
    if found.stopped and found.stopped.reason == "futile" and found.outcome in ("inconclusive", "quality not established"):
        return describe_futile(found.stopped)
    if found.claim is not None:
        return None
    if found.outcome == "inconclusive" and found.needed:
        if fixed_rounds:
            pairs = format_count(found.needed.pairs, "pair")
            return f"{pairs} would decide; --rounds {found.needed.pairs} measures all of them again"
        return describe_needed(found.needed, found.place.scope)
    most = MOST_NAMED if fixed_rounds else MOST_PAIRS
    if found.state == State.INCONCLUSIVE and found.pairs < most:
        return f"no number of pairs up to {most} would decide, if all vary as these do"
    return None


def describe_speedup(found: RatioFinding) -> str:
    """Return a headline: by which metric, which of two variants is how many times as fast, where, and how sure that is."""
    what = found.metric_title if found.target is None else f"{found.metric_title} ({found.target:g})"
    where = f" {describe_place(found.place)}"
    evidence = _describe_evidence(found)
    if found.needed:
        evidence += f"; {describe_needed(found.needed, found.place.scope)}"
    if found.state == State.WORSE_QUALITY and found.learning:
        first, second = found.subject.title, found.against.title
        return f"{what}: a speedup of {first} over {second}{where} is withheld: {found.learning.check.reason} ({evidence})."
    evidence += "".join(
        f"; {reason}" for reason in [*_doubt_quality(found), *([found.work.reason] if found.work and found.unequal else [])]
    )
    opening = "inconclusive: " if found.is_open else "no verdict yet: " if found.is_undecided else ""
    # A proof's may be a reported one; those of workloads have names of their own, which take no article.
    quality = found.rule.title if found.rule.name == Quality().name else "quality"
    keeps = found.state == State.FASTER and found.learning is not None and found.learning.check.outcome == "no worse"
    said = "".join(_compare(found, "measured" if opening else "is", where))
    return f"{what}: {opening}{said}{f', at a {quality} no worse' if keeps else ''} ({evidence})."


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
            text = f"no verdict of one pair ({value}){worse}"
        case State.TOO_FEW if found.has_interval:
            text = f"no verdict of fewer than {LEAST_PAIRS} pairs ({value}, {interval}){worse}"
        case State.TOO_FEW:
            text = f"no verdict of {format_count(found.pairs, 'pair')} ({value}){worse}"
        case _:
            text = f"{value} ({interval}){worse}"
    return text if found.target is None else f"{found.target:g}: {text}"


def _doubt_quality(found: RatioFinding) -> list[str]:
    """Return why the faster variant may learn less, if it may."""
    if found.learning is None:
        return []
    check = found.learning.check
    doubted = check.outcome == "worse" or (check.outcome == "not established" and found.is_shown)
    return [check.reason] if doubted else []


def name_mode(found: RatioFinding) -> str:
    """Return how the runs of a ratio ran, if it was not as they do by themselves."""
    return "" if found.mode == "timed" else ", under the profiler"


def describe_whole(whole: WholeProcess | None) -> list[str]:
    """Return the whole process' ratio, if it says something else."""
    if whole is None:
        return []
    value, interval = format_ratio(*whole.ends)
    return [f"by the {whole.title} {value}{'' if whole.ends[1] is None else f' ({interval})'}"]


def describe_interval(ends: RatioEnds, pairs: int, few: bool, where: str = "", *bounds: float, joint: bool = False) -> str:
    """Return a ratio's interval, and of how many pairs it is; joint, if it is one of several that hold together."""
    interval = "" if ends[1] is None else f"{'joint ' if joint else ''}95 % interval {format_ratio(*ends, *bounds)[1]}, "
    return f"{interval}{format_count(pairs, 'pair')} of runs{where}{f'; a verdict needs {LEAST_PAIRS}' if few else ''}"


def describe_needed(needed: Needed, scope: Scope | None) -> str:
    """Return how many pairs, or machines, would decide if they came out as those before, and what the missing ones take."""
    what = "machine" if scope == "model" else "pair"
    return f"{format_count(needed.pairs, what)} in all would decide, {_describe_minutes(needed.minutes)} more"


def describe_futile(stopped: StoppedExperiment) -> str:
    """Return why rounds ended that would hardly have decided, and how many would."""
    most = (
        f"{stopped.reachable} rounds" if stopped.reachable == stopped.most else f"the {stopped.reachable} rounds of the budget"
    )
    enough = (
        f"{stopped.needed} fixed beforehand would, if they vary as these do (--rounds {stopped.needed})"
        if stopped.needed
        else f"not even {MOST_NAMED} would, if they vary as these do"
    )
    return f"rounds ended after {stopped.rounds}, since {most} would hardly decide; {enough}"


def describe_undecided(found: RatioFinding) -> str:
    """Return what is said of a ratio by which no difference is shown."""
    return describe_unclaimed("no verdict" if found.is_undecided else found.state.value)


def describe_unclaimed(outcome: str) -> str:
    """Return what is said of a ratio by which no variant is shown to be faster."""
    return {"no verdict": "too few pairs for a verdict", "equivalent": "equivalent"}.get(outcome, "inconclusive")


def _compare(found: RatioFinding, does: str, where: str) -> list[str]:
    """Return the clause that one variant is so many times as fast as the other, there."""
    subject, against = VariantName(found.subject.title), VariantName(found.against.title)
    if found.state == State.EQUIVALENT:
        return [subject, f" {does} as fast as ", against, f"{where}, within {format_value(found.margin, '%')}"]
    return [subject, f" {does} {format_ratio(*found.ends, *found.bounds)[0]} as fast as ", against, where]


def _describe_here(found: RatioFinding) -> str:
    """Return that a ratio is of one machine, and of unequal work if the numbers of epochs differ."""
    here = name_here(found.place)
    if found.work is None or found.work.epochs is None:
        return here
    own, other = found.work.epochs
    return f"{here}, of unequal work ({format_count(own, 'epoch')} against {other:g})"


def _describe_doing(found: RatioFinding) -> str:
    if found.target is not None:
        return f"reaches a {found.rule.title} of {found.rule.format(found.target)}"
    does = METRICS[found.metric].verb or f"is, by the {found.metric_title},"
    return does if found.mode == "timed" else f"{does}, under the profiler,"


def _name_metric(found: RatioFinding) -> str:
    target = "" if found.target is None else f" ({found.target:g})"
    return f", by the {found.metric_title}{target}{name_mode(found)}"


def _describe_evidence(found: RatioFinding, where: str = "") -> str:
    return describe_interval(found.ends, found.pairs, found.is_undecided, where, *found.bounds, joint=found.joint)


def _describe_observed(found: RatioFinding) -> list[str]:
    return [] if found.observed is None else [f"{format_value(found.observed, '×')} by our clock"]


def _list_doubts(found: RatioFinding) -> str:
    """Return the reasons that a sentence begins with, each with a semicolon behind it."""
    return "".join(f"{describe_objection(one.objection, found.titles)}; " for one in found.caveats if one.leads)


def _warn_of_bound(found: RatioFinding) -> str:
    """Return that another machine may decide otherwise, if the ratio is near to what it is compared with."""
    if found.outcome not in ("faster", "slower", "claim holds", "claim fails"):
        return ""
    return warn_of_machines(found.place, found.centre, *found.bounds)


def _describe_digits(found: RatioFinding) -> str:
    """Return what to do about a ratio that is hidden by the digits of its times."""
    if METRICS[found.metric].printed == "rate":
        return "rates are printed with too few digits; print more"
    digit_s = found.printed.digit_s if found.printed else 0.0
    return f"epochs are printed to {format_digit(digit_s)}; print more digits, or drop --epoch-s"


def _describe_minutes(minutes: float) -> str:
    if minutes < 1:
        return "less than a minute"
    number, unit = (round(minutes), "minute") if minutes < 90 else (round(minutes / 60), "hour")
    return f"about {format_count(number, unit)}"


def _name_judged(found: RatioFinding) -> str:
    """Return whose quality is judged, unless it is that of the variant which a sentence is about."""
    learning = found.learning
    return "" if learning is None or learning.judged == found.subject else f" of {learning.judged.title}"


def _describe_learning(found: RatioFinding) -> str:
    """Return at what quality a ratio was found; both variants' values, whether or not they are judged."""
    learning, rule = found.learning, found.rule
    if learning is None:
        return ""
    if learning.own is None or learning.other is None:
        return "" if rule.margin is None else f", at a {rule.title} that is not judged: {learning.check.reason}"
    values = f"{rule.format(learning.own)} against {rule.format(learning.other)}"
    if rule.margin is None:
        return f", at a {rule.title} of {values}, which is not judged (--margin)"
    return _describe_judged(found, learning) or f", at a {rule.title} of {values}"


def _describe_judged(found: RatioFinding, learning: Learning) -> str:
    """Return what came of the judged variant's quality; nothing if nothing rests on it."""
    rule, of, reason = found.rule, _name_judged(found), learning.check.reason
    match found.outcome:
        case "worse quality":
            return f", but at a worse quality{of}: {reason}"
        case "quality not established":
            return f", but that the quality{of} is no worse is not established: {reason}"
        case "faster" | "slower" | "claim holds" if learning.check.outcome == "no worse":
            ends = (learning.other, learning.own) if of else (learning.own, learning.other)  # the judged variant's first
            return (
                f", and the {rule.title}{of} is no worse ({' against '.join(map(rule.format, ends))}, margin {rule.margin:g})"
            )
        case "faster" | "slower" | "claim holds" if learning.better:
            return f", and the {rule.title}{of} is better, though this is not established over seeds ({reason})"
    return ""
