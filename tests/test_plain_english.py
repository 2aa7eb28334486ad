"""Whatever people read is plain English: fewer and fewer places that they stumble over, and none where they begin."""

import pytest
from typer.main import get_command

from docs.reference import list_commands
from speedproof.cli.application import app
from tests.plain_english import find_all, find_places, list_files, look

MOST_PLACES = 13
FIRST_READ = ["README.md", "docs/your-script.md"]
GROUP = get_command(app)
COMMANDS = {"speedproof": GROUP, **dict(list_commands(GROUP))}


def found_in(path, text):
    return [(place.line, place.found) for place in find_places(path, text)]


def test_there_are_no_more_places_than_before():
    places = find_all(list_files())
    assert len(places) <= MOST_PLACES, "\n".join(map(str, places))


def test_what_is_read_first_has_none():
    assert find_all(FIRST_READ) == []


@pytest.mark.parametrize("name", COMMANDS)
def test_a_help_has_none(name):
    command = COMMANDS[name]
    texts = [command.help, command.epilog, *(getattr(parameter, "help", None) for parameter in command.params)]
    assert [found for text in texts if text for paragraph in text.split("\n\n") for found in look(paragraph)] == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("None where there is a GPU.", "where there is"),
        ("The left side, side by side, without side effects, of a side", "side"),
        ("It is no file, but no worse, and there is no more.", "is no file"),
        ("The program tells its version.", "tells its"),
        ("It takes 3.2 ms a step.", "3.2 ms a step"),
        ("UNDECIDED: read the cure", "UNDECIDED"),
    ],
)
def test_a_phrase_of_our_own_is_found(text, found):
    assert next(look(text))[0] == repr(found)


@pytest.mark.parametrize(
    "text", ["The result is no worse.", "Left side and side effect", "It takes 3.2 ms per step.", "a claim"]
)
def test_an_everyday_phrase_is_not(text):
    assert list(look(text)) == []


def test_a_sentence_of_33_words_is_long():
    assert list(look("word " * 31 + "end. " + "word " * 32)) == []
    assert [found for found, _ in look("word; " + "word " * 33)] == [f"33 words in {('word ' * 12)!r}"]


def test_of_python_comments_and_sentences_are_read_and_code_is_not():
    text = '''"""Returns None where there is none.

    side = 1

>>> side = 2
"""
side = "a side"  # the side
raise ValueError(f"{side}: not on this " "side of the bound")
'''
    assert found_in("a.py", text) == [(1, "'where there is'"), (8, "'side'"), (7, "'side'")]


def test_of_a_configuration_comments_are_read():
    assert found_in("a.yaml", "# the side\nside: 1\nkey: 1  # of a side\n") == [(1, "'side'"), (3, "'side'")]


def test_of_a_page_prose_is_read_and_code_is_not():
    text = "# A title\n\nThe left\nside of `side`\n[link](side.md).\n\n```\nside\n```\n\n    side\n\n| a | rung |\n- an arm\n"
    assert found_in("a.md", text) == [(13, "'rung'"), (14, "'arm'")]


def test_of_a_script_comments_and_strings_are_read():
    assert found_in("a.js", 'const side = 1;\nlog("what is no number at all");\n// a side\n') == [
        (2, "'is no number'"),
        (3, "'side'"),
    ]
