"""The pytest plugin: a fixture `speedproof`, whose comparisons fail a test if their claim fails."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Literal

import pytest

if TYPE_CHECKING:
    from speedproof.library.function_comparison import FunctionComparison
    from speedproof.library.function_timing import Function

_PROPERTY = "speedproof"  # by which a test's report carries the sentences, also from pytest-xdist's workers
_INCONCLUSIVE = "speedproof_inconclusive"
_CHOICES = ("warn", "fail")
Inconclusive = Literal["warn", "fail"]


class InconclusiveWarning(UserWarning):
    """A comparison of a test that neither holds nor fails."""


class TestedComparisons:
    """What the fixture `speedproof` gives to a test."""

    def __init__(self, node: pytest.Item, inconclusive: str) -> None:
        self._node, self._inconclusive = node, inconclusive

    def compare(
        self,
        old: Function,
        new: Function,
        claim: str | None = None,
        *,
        inconclusive: Inconclusive | None = None,
        **options: Any,
    ) -> FunctionComparison:
        """Compare two functions as :func:`speedproof.compare` does, and fail the test if the claim fails."""
        __tracebackhide__ = True
        from speedproof.library.comparing import compare

        result = compare(old, new, claim, **options)
        self._node.user_properties.append((_PROPERTY, result.sentence))
        if claim is None or result.holds:
            return result
        if result.outcome == "inconclusive" and (inconclusive or self._inconclusive) == "warn":
            warnings.warn(InconclusiveWarning(result.sentence), stacklevel=2)
            return result
        raise AssertionError(result.sentence)


@pytest.fixture
def speedproof(request: pytest.FixtureRequest) -> TestedComparisons:
    """Compare the speed of functions: `speedproof.compare(old, new, claim='>= 1.1')`."""
    chosen = request.config.getoption(_INCONCLUSIVE) or request.config.getini(_INCONCLUSIVE)
    if chosen not in _CHOICES:
        raise pytest.UsageError(f"{_INCONCLUSIVE}: {chosen!r:.40}: write warn or fail")
    return TestedComparisons(request.node, chosen)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add an option, and a setting of the same name."""
    text = "what an inconclusive comparison does to its test: warn or fail. Default: warn"
    parser.addini(_INCONCLUSIVE, text, default="warn")
    group = parser.getgroup("speedproof")
    group.addoption("--speedproof-inconclusive", dest=_INCONCLUSIVE, choices=_CHOICES, default=None, help=text)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print a line for each comparison of the fixture."""
    reports = [report for reports in terminalreporter.stats.values() for report in reports]
    ended = [report for report in reports if getattr(report, "when", None) == "teardown"]
    lines = [
        f"{report.nodeid}: {sentence}" for report in ended for name, sentence in report.user_properties if name == _PROPERTY
    ]
    if lines:
        terminalreporter.section("speedproof")
        for line in lines:
            terminalreporter.line(line)
