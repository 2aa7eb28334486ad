"""Secrets in commands: left out; what only looks alike stays."""

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
