"""Secrets in commands: left out; what only looks alike stays."""

import time

import pytest

from speedproof.util.secrets import scrub_secrets


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("python a.py --api-key abc --lr 0.1", "python a.py --api-key <secret> --lr 0.1"),
        ("HF_TOKEN=abc python a.py", "HF_TOKEN=<secret> python a.py"),
        ("a --password='two words' b", "a --password=<secret> b"),
        ("a --data https://me:mine@example.org/x", "a --data https://<secret>@example.org/x"),
        ("a --max-tokens 128 --tokenizer gpt2", "a --max-tokens 128 --tokenizer gpt2"),
        ("a --token --verbose", "a --token --verbose"),
    ],
)
def test_secrets_of_a_command_are_left_out(text, kept):
    assert scrub_secrets(text) == kept


@pytest.mark.parametrize("text", ["a" * 130_000, "ab." * 40_000, "a-" * 60_000])
def test_the_longest_variable_that_a_system_takes_is_read_at_once(text):
    """Each of them took minutes, since every letter was taken for the beginning of a name."""
    begun_s = time.process_time()
    assert scrub_secrets(text) == text
    assert time.process_time() - begun_s < 5
