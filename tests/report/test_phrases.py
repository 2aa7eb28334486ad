"""Each code that a finding may have has its words."""

from typing import get_args

import pytest

from speedproof.report.prose import make_environment
from speedproof.results.comparison_rows import ObjectionKind
from speedproof.stats.limits import LimitKind


@pytest.mark.parametrize(("template", "kinds"), [("objections.md.j2", ObjectionKind), ("limits.md.j2", LimitKind)])
def test_each_kind_has_a_macro_of_its_name(template, kinds):
    environment = make_environment(autoescape=False)
    environment.filters.update(dict.fromkeys(("value", "count", "range", "duration", "mib", "large"), str))
    macros = {name for name in vars(environment.get_template(template).module) if not name.startswith("_")} - {"unseen"}
    assert macros == {kind.replace(" ", "_").replace("-", "_") for kind in get_args(kinds)}
