"""Which stage of an ablation changes which part of an epoch, by the exact accounts of the stages' traces."""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

from speedproof.report.accounts import NOTHING_S, Account, TermKey, build_account, list_terms, name_term, subtract_accounts
from speedproof.report.document import Element, Row, make_table, write_row
from speedproof.report.prose import Prose
from speedproof.results.folder import Results
from speedproof.results.summary import Summary
from speedproof.trace.similarity import find_obstacle
from speedproof.util.numbers import format_change

_PROSE = Prose("results.md.j2")
_FEWEST = 3  # stages: of two, the list of changes says it all
_ROWS = 8  # the terms of the largest changes; the others make one row
_NAMED = 3  # stages of a row
_NOTABLE_SHARE = 0.1  # of a row's largest change: a stage that changes less is not named


def compose_stage_terms(accounts: Sequence[Account]) -> list[Element]:
    """Compose a table of an epoch's terms, with the stages that change each; nothing unless several stages were traced."""
    if len(accounts) < _FEWEST or len({account.unit for account in accounts}) > 1:
        return []
    unit = accounts[0].unit
    header = [f"Part of the {unit}", accounts[0].title, accounts[-1].title, "Change", "Stages that change it most"]
    return make_table(header, _list_rows(accounts), _PROSE["stage_terms"](unit, unit == "epoch"))


def read_stage_accounts(results: Results) -> list[Account]:
    """Return the accounts of the ablation's traced stages that compare with the one before.

    A title also names the stages before it that were not traced, or do not compare.
    """
    of_ablation = results.of_ablation()
    titles = {run.run.variant: run.title for run in of_ablation.runs}
    accounts: list[Account] = []
    untraced: list[str] = []
    last: Summary | None = None
    for stage in of_ablation.ablation:
        run = of_ablation.trace_of(stage)
        if run and run.summary and run.summary.epochs and (last is None or find_obstacle(last, run.summary) is None):
            accounts.append(build_account(" and ".join([*untraced, run.title]), run.summary))
            untraced, last = [], run.summary
        else:
            untraced = [*untraced, titles.get(stage, stage)] if accounts else []
    return accounts


def _list_rows(accounts: Sequence[Account]) -> list[Row]:
    """Return a row for each of the largest terms, for the others together, and for the whole epoch."""
    first, last = accounts[0].terms, accounts[-1].terms
    changes = [(after.title, subtract_accounts(before, after)) for before, after in pairwise(accounts)]
    terms, whole = list_terms(accounts), subtract_accounts(accounts[0], accounts[-1])
    terms.sort(key=lambda term: -max(abs(change[term]) for _, change in changes if term in change))
    shown = terms[:_ROWS] if len(terms) > _ROWS + 1 else terms
    largest = sorted(shown, key=lambda term: -abs(whole.get(term, 0.0)))
    groups = [(name_term(term), [term]) for term in largest]
    if others := terms[len(shown) :]:
        groups.append((f"{len(others)} parts that change less", others))
    groups.append(("all", terms))
    rows = []
    for name, group in groups:
        before, after = _sum(first, group), _sum(last, group)
        stages = [(title, _sum(change, group)) for title, change in changes]
        rows.append(write_row(name, before, after, format_change(_settle(after - before)), _name_largest(stages)))
    return rows


def _sum(terms: Mapping[TermKey, float], group: Sequence[TermKey]) -> float:
    return _settle(math.fsum(terms.get(term, 0.0) for term in group))


def _settle(seconds: float) -> float:
    """Return a time, or 0 if it is nothing but rounding."""
    return seconds if abs(seconds) > NOTHING_S else 0.0


def _name_largest(stages: Sequence[tuple[str, float]]) -> str:
    """Return the stages of the largest changes, whatever their sign."""
    ordered = sorted(stages, key=lambda stage: -abs(stage[1]))
    least = max(abs(ordered[0][1]) * _NOTABLE_SHARE, NOTHING_S)
    return "; ".join(f"{title} {format_change(change)}" for title, change in ordered[:_NAMED] if abs(change) >= least)
