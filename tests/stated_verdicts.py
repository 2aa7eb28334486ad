"""Verdicts of proofs, as a test states them."""

from speedproof.run.proof.verdict import Judged, JudgedObjection, MeasuredVariant, Verdict


def state(outcome="claim holds", low=0.98, high=1.02, blocks=False, **more):
    """Return a verdict of base and head."""
    objection = JudgedObjection(kind="clocks", command=None, blocks=blocks, values={}, names=[], sentence="its clocks disagree")
    judged = Judged(
        command="sh train.sh", against="sh train.sh", outcome=outcome, ratio=1.0, low=low, high=high, observed=None, pairs=6,
        quality=None, objections=[objection] if blocks else [], more=None, sentence="",
    )  # fmt: skip
    variants = [
        MeasuredVariant(name=name, label="", command="sh train.sh", value=value, low=None, high=None)
        for name, value in (("base", 2.0), ("head", 2.5))
    ]
    verdict = Verdict(
        outcome=outcome, exit_status=0, claim=None, metric="process_s", source="process", rounds=6, equivalence_margin=0.02,
        trust_reported=None, variants=variants, candidates=[judged], report="page.html",
    )  # fmt: skip
    return verdict.model_copy(update=more)
