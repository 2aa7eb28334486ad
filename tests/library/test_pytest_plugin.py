"""The fixture `speedproof`: a failed claim fails its test, an inconclusive one warns, and all are summarized."""

import pytest

pytest_plugins = ["pytester"]

TESTS = """
import itertools
from speedproof.library import comparing, function_timing

class Clock:
    now_s = 0.0
    def perf_counter(self):
        return self.now_s

def make(*seconds):
    left = itertools.cycle(seconds)
    def call():
        clock.now_s += next(left)
    return call

clock = Clock()
function_timing.time = clock
comparing.find_cuda = lambda: None

def test_holds(speedproof):
    result = speedproof.compare(make(0.02), make(0.01), ">= 1.5")
    assert result.holds

def test_fails(speedproof):
    speedproof.compare(make(0.02), make(0.02), ">= 1.5")

def test_unclear(speedproof):
    speedproof.compare(make(0.4), make(0.1, 0.8), ">= 1.1")

def test_strict(speedproof):
    speedproof.compare(make(0.4), make(0.1, 0.8), ">= 1.1", inconclusive="fail")

def test_without_it():
    pass
"""


@pytest.fixture
def run(pytester, monkeypatch):
    """Run the tests above with the plugin, which this environment may or may not have installed."""
    from speedproof.library import comparing, function_timing

    monkeypatch.setattr(function_timing, "time", function_timing.time)  # put back afterwards
    monkeypatch.setattr(comparing, "find_cuda", comparing.find_cuda)
    pytester.makepyfile(TESTS)
    return lambda *options: pytester.runpytest_inprocess("-p", "no:speedproof", "-p", "speedproof.pytest_plugin", *options)


def test_a_failed_claim_fails_its_test_with_one_sentence(run):
    result = run()
    result.assert_outcomes(passed=3, failed=2)
    said = "Claim fails, '>= 1.5': new is 1.00× as fast as old (95 % interval 1.00–1.00×, 4 pairs)."
    result.stdout.fnmatch_lines([f"E *AssertionError: {said}", "*InconclusiveWarning: Inconclusive, '>= 1.1': *"])
    summary = result.stdout.str().partition("= speedproof =")[2]
    assert f"::test_fails: {said}" in summary
    assert "::test_holds: Claim holds, '>= 1.5': new is 2.00× as fast as old" in summary


def test_inconclusive_fails_if_that_is_chosen(run):
    run("--speedproof-inconclusive", "fail", "-k", "unclear").assert_outcomes(failed=1, deselected=4)
    run("-o", "speedproof_inconclusive=fail", "-k", "unclear").assert_outcomes(failed=1, deselected=4)
    assert "speedproof_inconclusive: 'maybe': write warn or fail" in run("-o", "speedproof_inconclusive=maybe").stdout.str()


def test_nothing_is_printed_if_no_test_compares(run):
    assert "= speedproof =" not in run("-k", "without_it").stdout.str()
