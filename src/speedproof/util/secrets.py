"""What reads like a secret in a command or a log: it is left out of what is kept.

Each kind is found in time that is linear in the text: a name is looked for from its first letter only, all else is bounded.
"""

import re
import shlex
from collections.abc import Sequence

SECRET = "<secret>"

# Parts of a secret's name: anywhere in it, or at its end. The last have other meanings, too, and count only in an option
# (`--key`), a variable (`GITHUB_PAT`) or an address (`?sig=`).
_ANYWHERE = r"secret|passw(?:or)?d|passphrase|credential|private[_-]?key|access[_-]?key|authorization|api[_-]?key|jwt|cookie"
_AT_END = r"token|bearer"
_AMBIGUOUS = r"key|auth|pass|pwd|pat|sig|signature|pw"
_STEM = rf"{_ANYWHERE}|token|{_AMBIGUOUS}"
_NAME = re.compile(rf"(?<![\w.-])(?=[\w.-]*(?:{_STEM}))(?P<dashes>-{{0,2}})(?P<name>\w[\w.-]*)", re.IGNORECASE)
_NAMES_SECRET = re.compile(rf"(?:{_ANYWHERE})|(?:^|[_.-]|(?<=[a-z])(?=T))(?:{_AT_END})$", re.IGNORECASE)
_MAY_NAME_SECRET = re.compile(rf"(?:^|[_.-])(?:{_AMBIGUOUS})$", re.IGNORECASE)
# Tokens of texts, keys of tables, and folders only read alike.
_HARMLESS = re.compile(
    r"(?:^|[_.-])(?:eos|bos|pad|unk|mask|sep|cls|stop|image|special|next|per|start|end|max|num|sort|group|metric)"
    r"[_.-](?:token|key)$|^(?:PWD|OLDPWD)$|cookiecutter",
)
_ASSIGNED = re.compile(r"\\?[\"']?\s{0,4}[=:]\s{0,4}")
_FOLLOWED = re.compile(r"\s{1,4}(?!-)")
_VALUE = re.compile(r"\\?'[^']*'|\\?\"[^\"]*\"|[^\s'\"]+")
_VALUE_IN_ADDRESS = re.compile(r"[^\s'\"&#]+")
_HEADER_VALUE = re.compile(r"[^'\"\r\n]+")
# The name of a variable says nothing of its value.
_NO_SECRET = re.compile(r"(?:\$.*|<secret>.*|true|false|none|null|[\"']{0,2})$", re.IGNORECASE | re.DOTALL)

# In an address what stands before the host, unless that is the user of SSH, who has a key.
_USER_IN_ADDRESS = re.compile(
    r"(?<![a-z0-9+.-])(?P<scheme>(?!(?:git\+)?(?:ssh|sftp|rsync)://[^\s/@:]*@)[a-z][a-z0-9+.-]{0,40}://)[^\s/@'\"]+@",
    re.IGNORECASE,
)
_BEARER = re.compile(r"(?P<kind>\bbearer\s{1,4})[^\s'\"]{6,}", re.IGNORECASE)
_LOGIN = re.compile(
    r"(?P<option>(?<![\w-])(?:-u|--user|--proxy-user)(?:\s{1,4}|=))['\"]?(?!\d+:\d+\b)[^\s'\":/]+:[^\s'\"/]+['\"]?"
)
# Secrets whose form is known: of Hugging Face, GitHub, GitLab, OpenAI, Slack, AWS, Google, npm, PyPI; JSON web tokens.
_KNOWN = re.compile(
    r"(?<![\w-])(?:hf_\w{20,}|gh[pousr]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|sk-(?=[\w-]*\d)[\w-]{20,}|xox[abeoprs]-[\w-]{10,}"
    r"|(?:AKIA|ASIA)[A-Z0-9]{16}(?!\w)|AIza[\w-]{35}|npm_\w{30,}|pypi-[\w-]{30,}|eyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]*)"
)


def scrub_secrets(text: str) -> str:
    """Return a text without what reads like a secret: an option's or variable's value, a header, an address' password."""
    kept, done = [], 0
    for found in _NAME.finditer(text):
        place = _find_value(text, found) if found.start() >= done else None
        if place is not None:
            kept += [text[done : place[0]], SECRET]
            done = place[1]
    text = "".join([*kept, text[done:]])
    text = _USER_IN_ADDRESS.sub(rf"\g<scheme>{SECRET}@", text)
    text = _LOGIN.sub(rf"\g<option>{SECRET}", text)
    return _KNOWN.sub(SECRET, _BEARER.sub(rf"\g<kind>{SECRET}", text))


def scrub_command(command: str) -> str:
    """Return a command without secrets, however they are quoted; as it was written if it has none."""
    try:
        words = shlex.split(command)
    except ValueError:  # a quote that does not end
        return scrub_secrets(command)
    scrubbed = scrub_words(words)
    return command if scrubbed == words else " ".join(_quote(word) for word in scrubbed)


def scrub_words(words: Sequence[str]) -> list[str]:
    """Return a command's words without secrets, each a word still."""
    return [_scrub_word(word, before) for before, word in zip(["", *words], words, strict=False)]


def _scrub_word(word: str, before: str) -> str:
    option = _NAME.fullmatch(before)
    is_option = word.startswith("--") or (len(word) == 2 and word.startswith("-"))
    if option is not None and option["dashes"] and _is_secret(option, "") and not is_option and not _is_harmless(word):
        return SECRET
    if before in ("-u", "--user", "--proxy-user") and _LOGIN.fullmatch(f"{before} {word}"):
        return SECRET
    name, equals, value = word.partition("=")
    assigned = _NAME.fullmatch(name) if before != "-c" else None  # a shell's script may begin with a variable
    if equals and assigned is not None and _is_secret(assigned, "=") and not _is_harmless(value):
        return f"{name}={SECRET}"
    return scrub_secrets(word)


def _find_value(text: str, name: re.Match[str]) -> tuple[int, int] | None:
    """Return where the value of a secret's name begins and ends; None if there is none."""
    between = _ASSIGNED.match(text, name.end())
    if between is None and name["dashes"]:
        between = _FOLLOWED.match(text, name.end())
    in_address = name.start() > 0 and text[name.start() - 1] in "?&"
    if between is None or not _is_secret(name, "?" if in_address else between[0].strip()):
        return None
    header = ":" in between[0] and re.search(r"authorization$|cookie$", name["name"], re.IGNORECASE)
    value = (_HEADER_VALUE if header else _VALUE_IN_ADDRESS if in_address else _VALUE).match(text, between.end())
    return None if value is None or _is_harmless(value[0]) else value.span()


def _is_secret(name: re.Match[str], sign: str) -> bool:
    """Return whether a name is a secret's, with the sign that follows it; `?` before it in an address."""
    said = name["name"]
    if _HARMLESS.search(said):
        return False
    if _NAMES_SECRET.search(said):
        return True
    sure = name["dashes"] or sign == "?" or (said.isupper() and sign == "=")
    return bool(sure and _MAY_NAME_SECRET.search(said))


def _is_harmless(value: str) -> bool:
    return _NO_SECRET.match(value) is not None


def _quote(word: str) -> str:
    """Return a word as a shell reads it, but for what stands for a secret, which nothing shall run."""
    other = word.replace(SECRET, "x")
    return word if other and shlex.quote(other) == other else shlex.quote(word)
