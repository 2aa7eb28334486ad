"""Whoever reads `summary.json` or `difference.json` finds each key explained, in the model and in docs/analysis.md."""

from pathlib import Path
from typing import get_args

import pytest
from pydantic import BaseModel

from speedproof.results.difference import Difference
from speedproof.results.kernels import KernelsSummary
from speedproof.results.summary import Summary
from speedproof.trace.idle_gaps import CAUSES

GUIDE = Path(__file__).parents[2] / "docs/analysis.md"


def models_in(annotation):
    """List the models that a type is made of, outer ones first."""
    models = []
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        models.append(annotation)
        for field in annotation.model_fields.values():
            models += models_in(field.annotation)
    for inner in get_args(annotation):
        models += models_in(inner)
    return list(dict.fromkeys(models))


def describe_keys(model):
    """Return the guide's tables for a model and those that it is made of."""
    for part in models_in(model):
        yield f"**{part.__name__}**: {' '.join(part.__doc__.split())}\n\n| key | meaning |\n| --- | --- |\n" + "\n".join(
            f"| `{name}` | {field.description} |" for name, field in part.model_fields.items()
        )


def described_causes():
    return "| cause | evidence |\n| --- | --- |\n" + "\n".join(f"| {cause} | {meaning} |" for cause, meaning in CAUSES.items())


@pytest.mark.parametrize(
    "model", [*models_in(Summary), *models_in(Difference), *models_in(KernelsSummary)], ids=lambda model: model.__name__
)
def test_every_key_is_described(model):
    assert model.__doc__
    assert [name for name, field in model.model_fields.items() if not field.description] == []


@pytest.mark.parametrize("model", [Summary, Difference, KernelsSummary], ids=lambda model: model.__name__)
def test_the_guide_describes_every_key(model):
    for table in describe_keys(model):
        assert table in GUIDE.read_text()


def test_the_guide_lists_every_cause():
    assert described_causes() in GUIDE.read_text()
