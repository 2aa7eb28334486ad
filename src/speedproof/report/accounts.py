"""Where each variant's epoch goes, and how the difference of two comes about: bars and a waterfall of the exact terms."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from speedproof.report.document import Bar, Bars, Piece
from speedproof.report.figures.figure_data import Evidence
from speedproof.results.summary import IterationUnit, Summary, name_several
from speedproof.results.trace_results import Difference, find_group
from speedproof.util.numbers import format_change, format_value
from speedproof.util.units import NS_PER_S

TermKey = tuple[str, str]  # kind and name

RESIDUAL: TermKey = ("residual", "not explained")
_KINDS = {"idle": "no kernel runs", "gpu": "kernels", "cpu": "processor", "residual": "not explained"}
_COLOURS = {"idle": 4, "gpu": 5, "cpu": 5}  # how many of a kind have a colour of their own
_STEPS = 7  # of a waterfall
_SHORTEST = 0.15  # percent: a thinner piece is invisible
_UNLIKE = 8.0  # if one variant's epoch is this many times another's, each bar has its own scale
NOTHING_S = 0.5e-9  # below the clock's resolution
_LEAST_TOLD = 0.05  # of a difference: a smaller reason beside the first one is not worth a word
_WHOLES = {"idle": "idle GPU", "gpu": "kernels"}
_MOST_OF_IT = 0.8  # of all idle GPU, or of all kernels: a smaller term is named as a part
_MUCH_AGAINST = 0.15  # of a difference: what goes against it has to be said


@dataclass(frozen=True)
class Account:
    """What an epoch of a variant is made of, in seconds; the terms add up to it. `unit` is the word for what is called so."""

    title: str
    unit: IterationUnit
    terms: Mapping[TermKey, float]

    @property
    def total_s(self) -> float:
        """Return the epoch's length."""
        return math.fsum(self.terms.values())


def read_accounts(evidence: Evidence) -> dict[str, Account]:
    """Return the account of each traced variant, by its name: of the differences' own columns, so that all numbers agree."""
    traces = evidence.traces
    if not traces:
        return {}
    reference, (run, _) = next(iter(traces.items()))
    differences = {b: difference for (a, b), difference in evidence.differences.items() if a == reference}
    if not differences:
        built = {name: build_account(run.title, summary) for name, (run, summary) in traces.items()}
        return built if len({account.unit for account in built.values()}) == 1 else {}
    accounts = {reference: split_difference(next(iter(differences.values())), run.title, "")[0]}
    for name, difference in differences.items():
        accounts[name] = split_difference(difference, "", traces[name][0].title)[1]
    return accounts


def split_difference(difference: Difference, a: str, b: str) -> tuple[Account, Account]:
    """Return what an epoch of either variant is made of, by the columns of their difference."""
    variants = []
    for title, column, total_s in ((a, "a_s", difference.epoch_a_s), (b, "b_s", difference.epoch_b_s)):
        terms: dict[TermKey, float] = defaultdict(float)
        for term in difference.terms:
            terms[term.kind, term.name] += getattr(term, column)
        terms[RESIDUAL] = total_s - math.fsum(terms.values())
        variants.append(Account(title, difference.unit, dict(terms)))
    return variants[0], variants[1]


def build_account(title: str, summary: Summary) -> Account:
    """Return what a mean epoch of one trace is made of, of the epochs that count, with validation at its share."""
    counted = {epoch.index for epoch in summary.steady_epochs}
    terms: dict[TermKey, float] = defaultdict(float)
    for share in summary.account:
        if share.epoch in counted:
            term = RESIDUAL if share.kind == "residual" else (share.kind, share.name)
            terms[term] += share.total_ns / summary.count_epochs_behind(share.part) / NS_PER_S
    return Account(title, summary.found.unit, dict(terms))


def subtract_accounts(before: Account, after: Account) -> dict[TermKey, float]:
    """Return by how much each term changes, in seconds."""
    return {term: after.terms.get(term, 0.0) - before.terms.get(term, 0.0) for term in list_terms([before, after])}


def draw_bars(accounts: Sequence[Account]) -> Bars:
    """Return a bar for each variant: what the GPU does, and why it is idle; the largest terms have colours of their own."""
    colours = _choose_colours(accounts)
    lengths = [account.total_s for account in accounts]
    unlike = max(lengths) > _UNLIKE * min(lengths)
    bars = []
    for account in accounts:
        merged: dict[tuple[str, str, str], float] = defaultdict(float)
        for term, seconds in account.terms.items():
            colour, name = colours.get(term, _rest(term))
            merged[colour, term[0], name] += seconds
        pieces, left, room = [], 0.0, account.total_s if unlike else max(lengths)
        for (colour, kind, name), seconds in sorted(merged.items()):
            width = 100 * max(seconds, 0.0) / room
            if width >= _SHORTEST:
                share = format_value(seconds / account.total_s, "%")
                text = f"{format_value(seconds, 's')}, {share}"
                pieces.append(Piece(name, _KINDS[kind], text, round(left, 3), round(width, 3), colour))
            left += width
        bars.append(Bar(account.title, format_value(account.total_s, "s"), pieces))
    used = {piece.colour for bar in bars for piece in bar.pieces}
    key = sorted({(colour, name) for colour, name in [*colours.values(), *map(_rest, list_terms(accounts))] if colour in used})
    unit = accounts[0].unit
    notes = [f"Each bar is a mean {unit} of the profiled run{_note_validation(accounts[0])}."]
    if unlike:
        notes.append(f"The variants' {name_several(unit)} differ so much in length that each bar has its own scale.")
    return Bars(f"Where {name_several(unit)} go", bars, [(name, colour) for colour, name in key], notes)


def _note_validation(account: Account) -> str:
    return " with its share of validation" if account.unit == "epoch" else ""


def draw_waterfall(slow: Account, fast: Account) -> Bars:
    """Return the steps from one variant's epoch to the other's: the largest changes, the sum of the others; they add up."""
    changes = subtract_accounts(slow, fast)
    residual = changes.pop(RESIDUAL, 0.0)
    ordered = sorted(changes.items(), key=lambda change: -abs(change[1]))
    steps = [(name_term(term), seconds) for term, seconds in ordered[:_STEPS] if abs(seconds) > NOTHING_S]
    others = [change for change in ordered[_STEPS:] if abs(change[1]) > NOTHING_S]
    if others:
        steps.append((f"{len(others)} smaller terms", math.fsum(seconds for _, seconds in others)))
    if abs(residual) > NOTHING_S:
        steps.append((name_term(RESIDUAL), residual))
    ends = [slow.total_s]
    for _, seconds in steps:
        ends.append(ends[-1] + seconds)
    low, high = min(0.0, *ends), max(*ends, slow.total_s, fast.total_s)
    scale = 100 / (high - low)

    def bar(title: str, start: float, end: float, text: str, colour: str) -> Bar:
        left, width = scale * (min(start, end) - low), scale * abs(end - start)
        return Bar(title, text, [Piece(title, "", text, round(left, 3), round(max(width, 0.2), 3), colour)])

    bars = [bar(slow.title, 0.0, slow.total_s, format_value(slow.total_s, "s"), "whole")]
    for (name, seconds), start in zip(steps, ends, strict=False):
        bars.append(bar(name, start, start + seconds, format_change(seconds), "less" if seconds < 0 else "more"))
    bars.append(bar(fast.title, 0.0, fast.total_s, format_value(fast.total_s, "s"), "whole"))
    ratio = f" with a ratio of {format_value(slow.total_s / fast.total_s, '×')}" if fast.total_s > 0 else ""
    note = (
        f"Steps from {slow.title} to {fast.title}, per {slow.unit}{_note_validation(slow)}; they add up. From two runs under "
        f"the profiler{ratio}, without an interval."
    )
    return Bars("How the difference comes about", bars, notes=[note])


def explain(slow: Account, fast: Account) -> str:
    """Return the one or two largest reasons for a difference in a sentence, and what goes against it, if that is much."""
    total_s = fast.total_s - slow.total_s
    changes = subtract_accounts(slow, fast)
    said = _list_reasons(changes)
    helping = sorted((one for one in said if one[1] * total_s > 0), key=lambda one: -abs(one[1]))
    told = [one for one in helping[:2] if one is helping[0] or abs(one[1]) >= _LEAST_TOLD * abs(total_s)]
    reasons = " and ".join(f"{format_value(abs(seconds), 's')} of {name}" for name, seconds in told)
    against = min(said, key=lambda one: one[1] * total_s, default=("", 0.0))
    if reasons and against[1] * total_s < 0 and abs(against[1]) >= _MUCH_AGAINST * abs(total_s):
        reasons += f", but {'adds' if total_s < 0 else 'saves'} {format_value(abs(against[1]), 's')} of {against[0]}"
    word = "less" if total_s < 0 else "more"
    verb = "saves" if total_s < 0 else "adds"
    why = f"; it {verb} {reasons}" if reasons else ""
    return f"{format_value(abs(total_s), 's')} {word} per {slow.unit} under the profiler{why}."


def _list_reasons(changes: Mapping[TermKey, float]) -> list[tuple[str, float]]:
    """Return what changes, in seconds: kernels and idle GPU as a whole each, if they are of several terms and of one sign.

    Of a whole that is mostly one term, or that hides one against it, each term is listed.
    """
    kinds: dict[str, list[tuple[TermKey, float]]] = defaultdict(list)
    for term, seconds in changes.items():
        kinds[term[0]].append((term, seconds))
    reasons: list[tuple[str, float]] = []
    for kind, terms in kinds.items():
        whole, (largest, most) = math.fsum(seconds for _, seconds in terms), max(terms, key=lambda one: abs(one[1]))
        against = max((-seconds * math.copysign(1.0, whole) for _, seconds in terms), default=0.0)
        if kind not in _WHOLES or abs(most) >= _MOST_OF_IT * abs(whole) or against >= _LEAST_TOLD * abs(whole):
            reasons += [(_say_change(term), seconds) for term, seconds in terms]
        else:
            part = f"{format_value(abs(most), 's')} of it {find_group(largest[1]) or largest[1]}"
            reasons.append((f"{_WHOLES[kind]} ({part})", whole))
    return reasons


def _say_change(term: TermKey) -> str:
    """Return what changes as part of a sentence, which a comma would break."""
    kind, name = term
    if kind == "idle":
        return f"idle GPU ({name})"
    return f"{group} kernels" if kind == "gpu" and (group := find_group(name)) else name_term(term)


def name_term(term: TermKey) -> str:
    kind, name = term
    return {"idle": f"idle GPU, {name}", "gpu": f"{name} kernels" if "kernel" not in name else name}.get(kind, name)


def list_terms(accounts: Sequence[Account]) -> list[TermKey]:
    return list(dict.fromkeys(term for account in accounts for term in account.terms))


def _choose_colours(accounts: Sequence[Account]) -> dict[TermKey, tuple[str, str]]:
    """Return colour and name of the largest terms of each kind, by their largest share of any variant's epoch."""
    shares: dict[TermKey, float] = defaultdict(float)
    for account in accounts:
        for term, seconds in account.terms.items():
            shares[term] = max(shares[term], seconds / account.total_s if account.total_s else 0.0)
    chosen = {RESIDUAL: ("z", "not explained")}
    for kind, most in _COLOURS.items():
        largest = sorted((term for term in shares if term[0] == kind), key=lambda term: -shares[term])[:most]
        letter = {"idle": "a", "gpu": "b", "cpu": "b"}[kind]
        chosen |= {term: (f"{letter}{number}", name_term(term)) for number, term in enumerate(largest)}
    return chosen


def _rest(term: TermKey) -> tuple[str, str]:
    return {"idle": ("a9", "idle GPU, other causes"), "residual": ("z", "not explained")}.get(term[0], ("b9", "other"))
