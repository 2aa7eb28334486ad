"""What results say first, in sentences: the main ratio, how sure that is, and what was documented."""

from speedproof.report.claim_phrases import describe_outcome, describe_verdict
from speedproof.report.ratio_phrases import describe_main, describe_sureness, name_mode
from speedproof.results.claim_results import ClaimResult
from speedproof.stats.finding import RatioFinding
from speedproof.stats.main_ratios import Answer
from speedproof.util.numbers import format_value


def describe_answer(answer: Answer) -> list[str]:
    """Return the answer in a line, how sure it is in another, and what was documented in a third, where anything was."""
    documented = [f"Documented: {said}" for said in describe_documented(answer)]
    if not answer.mains:
        return [describe_alone(answer), *documented]
    main = answer.mains[0]
    return ["".join(describe_main(main)), describe_sureness(main), *documented]


def describe_documented(answer: Answer) -> list[str]:
    """Return, as one sentence, the documented numbers, with what became of each; nothing if there are none."""
    if answer.alone:
        return [describe_outcome(answer.alone)]
    return [_describe_claims(answer.documented)] if answer.documented else []


def _describe_claims(found: RatioFinding) -> str:
    hardware = dict.fromkeys(claim.hardware for claim in found.documented)
    own = {claim.id: f" on {claim.hardware}" if len(hardware) > 1 else "" for claim in found.documented}
    verdicts = "; ".join(
        dict.fromkeys(f"{claim.documented}{own[claim.id]}: {_say_verdict(claim)}" for claim in found.documented)
    )
    where = name_mode(found) if len(hardware) > 1 else f" (on {found.documented[0].hardware}{name_mode(found)})"
    return f"{verdicts}{where}."


def describe_alone(answer: Answer) -> str:
    """Return the answer where no two variants could be compared: what came of a documented number, or that there is nothing."""
    claim = answer.alone
    if claim is None or claim.verdict == "inconclusive":
        return f"No two variants could be compared{': ' if answer.differences else ''}{'; '.join(answer.differences)}."
    return f"{claim.text}: {format_value(claim.measured, claim.unit)}, where {claim.documented} is documented."


def _say_verdict(claim: ClaimResult) -> str:
    """Return the verdict, and each experiment's own if they disagree."""
    said: dict[str, list[str]] = {}
    for experiment, verdict in claim.by_experiment.items():
        said.setdefault(verdict, []).append(experiment)
    each = ", ".join(f"{verdict} in {' and '.join(experiments)}" for verdict, experiments in said.items())
    return f"{describe_verdict(claim)}: {each}" if each else describe_verdict(claim)
