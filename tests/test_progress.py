"""A log gets at most ten lines of a step, on standard error; a terminal gets a bar."""

import pytest

from speedproof.util.progress_bar import report_progress


def test_a_log_gets_a_line_for_each_tenth(capsys):
    with report_progress("Phantom", 4000, "volumes") as advance:
        for _ in range(40):
            advance(100)
    said = capsys.readouterr()
    assert said.err.splitlines() == [f"Phantom: {done:,} of 4,000 volumes" for done in range(400, 4001, 400)]
    assert said.out == ""


def test_what_was_done_before_counts(capsys):
    with report_progress("Archive", 20, "bytes", done=15) as advance:
        for amount in (1, 4):
            advance(amount)
    assert capsys.readouterr().err.splitlines() == ["Archive: 16 of 20 bytes", "Archive: 20 of 20 bytes"]


def test_a_terminal_gets_a_bar(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")  # stands for a terminal
    with report_progress("Archive", 20, "bytes", done=15) as advance:
        advance(5)
    said = capsys.readouterr()
    assert "20/20 bytes" in said.err
    assert said.out == ""


@pytest.mark.parametrize("terminal", [False, True])
def test_what_ends_soon_says_nothing(capsys, monkeypatch, terminal):
    if terminal:
        monkeypatch.setenv("FORCE_COLOR", "1")
    with report_progress("Ranks", 2, "traces", after_s=600) as advance:
        advance(1)
        advance(1)
    assert capsys.readouterr() == ("", "")
