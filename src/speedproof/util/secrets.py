"""What reads like a secret in a command or a log: it is left out of what is kept."""

import re

# `--api-key VALUE`, `HF_TOKEN=value`, `password: value`; and `https://user:password@host`.
_SECRET_VALUE = re.compile(
    r"(?P<name>(?<![\w-])[\w-]*(?:secret|token|api[_-]?key|password|passwd|credentials?|private[_-]?key)(?:\s*[=:]\s*|\s+))"
    r"(?!-)(?P<value>'[^']*'|\"[^\"]*\"|[^\s'\"]+)",
    re.IGNORECASE,
)
_PASSWORD_IN_ADDRESS = re.compile(r"(?P<scheme>\b[a-z][a-z0-9+.-]{0,40}://)[^\s/@:]+:[^\s/@]+@", re.IGNORECASE)


def scrub_secrets(text: str) -> str:
    """Return a command or a log without what reads like a secret: an option's or variable's value, an address' password."""
    text = _SECRET_VALUE.sub(r"\g<name><secret>", text)
    return _PASSWORD_IN_ADDRESS.sub(r"\g<scheme><secret>@", text)
