import re
import shlex
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from speedproof.cluster.folder_names import MISQUOTED, check_command_line_settings, check_folders, find_unsafe
from speedproof.util.errors import ConfigError


@pytest.mark.parametrize("name", ["a b", "a;b", "a$HOME", "a`id`", 'a"b', "a&b", "ä (1)", "a#b"])
def test_unusual_names_are_taken(name):
    check_folders({"the working folder": Path("/data", name)})


@pytest.mark.parametrize("name", ["it's", "a\nb", "a\\b", "a{b}", "a:b", "a,b", "100%j"])
def test_names_that_would_be_changed_or_executed_are_refused_in_one_line(name):
    with pytest.raises(ConfigError, match="the working folder") as error:
        check_folders({"the checkout": Path("/ok"), "the working folder": Path("/data", name)})
    assert "\n" not in str(error.value)


def test_an_apostrophe_is_refused_for_the_workflow_alone():
    check_folders({"$TMPDIR": Path("/data/it's")}, workflow=False)
    with pytest.raises(ConfigError, match=r"\$TMPDIR .* search paths, Apptainer or profilers cannot take ':' in a path"):
        check_folders({"$TMPDIR": Path("/data/it's:b")}, workflow=False)


# Most of Unicode is unassigned, and what cannot be printed is refused.
@given(st.text(st.characters(exclude_categories=["C", "Z"], include_characters=" "), min_size=1))
def test_what_is_taken_survives_pythons_quotes_in_a_shell(text):
    assume(find_unsafe(text, MISQUOTED) is None)
    assert shlex.split(repr(text)) == [text]


def test_values_of_the_command_line_that_a_job_would_get_changed_are_refused():
    check_command_line_settings({"data": {"local_folder": "/a $HOME `id` ;"}, "measurement": {"variants": ["fast"]}})
    with pytest.raises(ConfigError, match=re.escape("--config variants: Snakemake cannot hand")):
        check_command_line_settings({"variants": {"fast": {"title": "the author's"}}})
