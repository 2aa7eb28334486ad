"""`speedproof.prove`: the command of that name as a function. Its options are those of :class:`ProofRequest`."""

import keyword
import shlex
from collections.abc import Callable
from inspect import Parameter, signature
from os import PathLike, fspath
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING, Any, TypeVar, get_origin

from speedproof.library.guest import as_guest
from speedproof.run.proof.request import ProofRequest, describe_key, make_request, name_option
from speedproof.util.errors import ConfigError
from speedproof.util.text import suggest

if TYPE_CHECKING:
    from speedproof.library.proof_result import ProofResult

_Function = TypeVar("_Function", bound=Callable[..., Any])


def name_argument(key: str) -> str:
    """Return what a key of a request is called in Python: as on the command line, with `_` for `-`, and `pass_` for `pass`."""
    name = name_option(key).removeprefix("--").replace("-", "_")
    return f"{name}_" if keyword.iskeyword(name) else name


_KEYS = {name_argument(key): key for key in ProofRequest.model_fields if key != "commands"}


def _showing_options(function: _Function) -> _Function:
    """Give a function of `**options` the signature and the documentation of the request's keys."""
    fields = {name: ProofRequest.model_fields[key] for name, key in _KEYS.items()}
    own = [one for one in signature(function).parameters.values() if one.kind is not Parameter.VAR_KEYWORD]
    options = [
        Parameter(
            name, Parameter.KEYWORD_ONLY, default=field.get_default(call_default_factory=True), annotation=field.annotation
        )
        for name, field in fields.items()
    ]
    function.__signature__ = signature(function).replace(parameters=[*own, *options])  # type: ignore[attr-defined]
    described = "\n".join(f"{name}: {describe_key(key, name_argument)}" for name, key in _KEYS.items())
    function.__doc__ = f"{function.__doc__}\n    Options:\n{indent(described, ' ' * 8)}\n"
    return function


@_showing_options
def prove(
    *commands: str | PathLike[str], out: str | PathLike[str] = "results/proof", verbose: bool = False, **options: Any
) -> "ProofResult":
    r"""Test whether the first command is slower than each other one, and return what was found.

    It runs in the working folder, and leaves all that it measured in the folder `out`, where the same call goes on. It prints
    nothing unless it is `verbose`. A single command that ends with `.yaml` names a file of `speedproof init`.

    >>> result = speedproof.prove("sh slow.sh", "sh fast.sh", epoch_s=r"took (\S+) s", rounds=6)
    >>> result.outcome, round(result.ratio)
    ('faster', 2)
    >>> low, high = result.interval
    >>> 1.9 < low < result.ratio < high < 2.1
    True

    Raises:
        SpeedproofError: an option is wrong, or the commands cannot be measured; its text is the line that `speedproof prove`
            prints
    """
    from speedproof.library.proof_result import describe_proof
    from speedproof.run.proof.live_status import Status
    from speedproof.run.proof.proof import prove_request
    from speedproof.run.proof.verdict_output import print_verdict

    with as_guest(), Status(quiet=not verbose) as status:
        status.go_on_with("starting")
        request = make_request({"commands": [*map(_read_command, commands)], **_read_options(options)})
        verdict = prove_request(request, Path(out), Path.cwd(), status)
        if verbose:
            print_verdict(verdict)
        return describe_proof(verdict, Path(out))


def _read_command(command: Any) -> str:
    """Return a command as the command line takes it; raise :class:`ConfigError` if it is neither a text nor a path."""
    if isinstance(command, str | PathLike):
        return fspath(command)
    is_words = isinstance(command, list | tuple) and command and all(isinstance(word, str) for word in command)
    passed = repr(shlex.join(command)) if is_words else "each command as one string, such as 'python train.py'"
    raise ConfigError(f"prove: a command must be a string (given: {command!r:.80}); pass {passed}")


def _read_options(options: dict[str, Any]) -> dict[str, Any]:
    """Return options by the request's keys: one that may be repeated may be a single value; None means the default.

    Raises :class:`ConfigError` if there is no such option.
    """
    for name in options.keys() - _KEYS.keys():
        raise ConfigError(f"prove: {name}: no such option{suggest(name, _KEYS)}")
    given = {_KEYS[name]: value for name, value in options.items() if value is not None}
    return {key: _read_value(key, value) for key, value in given.items()}


def _read_value(key: str, value: Any) -> Any:
    text = fspath(value) if isinstance(value, PathLike) else value
    repeatable = get_origin(ProofRequest.model_fields[key].annotation) is list
    return [text] if repeatable and isinstance(text, str) else text
