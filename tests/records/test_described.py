"""Whoever reads `summary.json` or `difference.json` finds each key explained."""

from typing import get_args

import pytest
from pydantic import BaseModel

from speedproof.records.difference import Difference
from speedproof.records.summary import Summary


def models_in(annotation):
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
        for field in annotation.model_fields.values():
            yield from models_in(field.annotation)
    for inner in get_args(annotation):
        yield from models_in(inner)


@pytest.mark.parametrize("model", [*models_in(Summary), *models_in(Difference)], ids=lambda model: model.__name__)
def test_every_key_is_described(model):
    assert model.__doc__
    assert [name for name, field in model.model_fields.items() if not field.description] == []
