"""Whoever reads `summary.json`, `difference.json` or `kernels.json` finds each key explained in the model and the reference."""

from pathlib import Path
from typing import get_args

import pytest
from pydantic import BaseModel

from speedproof.results.summary import Summary
from speedproof.results.trace_results import Difference, KernelsSummary
from speedproof.trace.causes import CAUSES

REFERENCE = Path(__file__).parents[2] / "docs/analysis-reference.md"


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
    """Return the reference's lists for a model and those that it is made of; a list names what its model adds to another's."""
    for part in models_in(model):
        of_base = part.__base__.model_fields
        keys = [f"- `{name}`: {field.description}" for name, field in part.model_fields.items() if name not in of_base]
        adds = f" It has the keys of {part.__base__.__name__}, and:" if of_base else ""
        yield f"**{part.__name__}**: {' '.join(part.__doc__.split())}{adds}\n\n" + "\n".join(keys)


def described_causes():
    return "\n".join(f"{number}. **{cause}**: {meaning}" for number, (cause, meaning) in enumerate(CAUSES.items(), start=1))


@pytest.mark.parametrize(
    "model", [*models_in(Summary), *models_in(Difference), *models_in(KernelsSummary)], ids=lambda model: model.__name__
)
def test_every_key_is_described(model):
    assert model.__doc__
    assert [name for name, field in model.model_fields.items() if not field.description] == []


@pytest.mark.parametrize("model", [Summary, Difference, KernelsSummary], ids=lambda model: model.__name__)
def test_the_reference_describes_every_key(model):
    for keys in describe_keys(model):
        assert keys in REFERENCE.read_text(encoding="utf-8")


def test_the_reference_lists_every_cause():
    assert described_causes() in REFERENCE.read_text(encoding="utf-8")
