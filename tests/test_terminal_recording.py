"""The README's picture of a terminal shows its transcript, and the commands in it still print such lines."""

import re

import pytest

from benchmarks.terminal_recording import IDEAS, PICTURE, PROGRAM, ROOT, TRANSCRIPT, WIDTH, draw_terminal, record_terminal

NUMBER = re.compile(r"\d+(?:\.\d+)?")
# The sentence from its ratio to its clocks; before it stands the outcome, after it what else the machine did.
MEASURED = re.compile(r"\S+ as fast as .*? by our clock\)")
ROW = re.compile(r"^ ([AB]) +\d", re.MULTILINE)
LINES = ("$ ", "    --", "A: ", "B: ", "Why: ", "Report: ")


def test_the_picture_is_drawn_from_the_transcript():
    assert PICTURE.read_text(encoding="utf-8") == draw_terminal(TRANSCRIPT.read_text(encoding="utf-8"))


def test_the_picture_asks_no_server_for_anything():
    links = re.findall(r"[\w:-]+=\"\w+://[^\"]*\"|url\([^)]*\)|@import|@font-face", PICTURE.read_text(encoding="utf-8"))
    assert {link for link in links if not link.startswith("url(#")} == {'xmlns="http://www.w3.org/2000/svg"'}


def test_the_readme_tells_what_the_transcript_shows():
    transcript = TRANSCRIPT.read_text(encoding="utf-8")
    assert max(map(len, transcript.splitlines())) <= WIDTH
    outcomes = re.findall(r"^([A-Z][a-z]+): ", transcript, re.MULTILINE)
    shown = [outcome.lower() for outcome in outcomes if outcome not in ("Why", "Report")]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert all(f"{idea} is {outcome}" in readme for idea, outcome in zip(IDEAS, shown, strict=True))


def outline(transcript):
    """Return what does not depend on the machine: commands, sentences' cores, the tables' rows, the last lines; no number."""
    proofs = [" ".join(proof.split()) for proof in transcript.split("\n$ ")]
    # On a busy machine a second ratio may follow in the sentence, of the whole process.
    sentences = [found.group() for proof in proofs if (found := MEASURED.search(proof))]
    lines = [line for line in transcript.splitlines() if line.startswith(LINES)]
    found = [*sentences, *ROW.findall(transcript), *(" ".join(line.split()) for line in lines)]
    # A sentence says "measured by" only if which is faster is decided; on a busy machine it may not be.
    return [NUMBER.sub("N", text).replace(", measured by ", ", by ") for text in found]


@pytest.mark.dear
@pytest.mark.timed
def test_the_commands_still_print_such_a_transcript(tmp_path):
    recorded = outline(TRANSCRIPT.read_text(encoding="utf-8"))
    assert len(recorded) == len(IDEAS) * (1 + 2 + 6)  # each has a sentence, two rows, and six lines
    program = tmp_path / "smaller" / PROGRAM.name
    program.parent.mkdir()
    text = PROGRAM.read_text(encoding="utf-8")
    assert text.count("24_000") == 3
    program.write_text(text.replace("24_000", "6_000"), encoding="utf-8")  # epochs of a quarter of the time
    place = tmp_path / "place"
    place.mkdir()
    assert outline(record_terminal(4, place, program)) == recorded
