"""The options of `prove` and `init`, made of the request's model."""

from collections.abc import Callable
from functools import cache
from inspect import Parameter, Signature
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin

import typer

from speedproof.cli.exits import ProofCommand

if TYPE_CHECKING:
    from speedproof.run.proof.request import ProofRequest

OUTPUT = "Output"  # the panel of options that are not part of a request


def find_proof_model() -> type["ProofRequest"]:
    """Return the model of `prove`'s request."""
    from speedproof.run.proof.request import ProofRequest

    return ProofRequest


class RequestCommand(ProofCommand):
    """A command that takes a request. Its function finds the options in the context: see :func:`take_request`."""

    find_model: Callable[[], type["ProofRequest"]] = staticmethod(find_proof_model)
    _params: list[Any]
    _complete: bool

    @property
    def params(self) -> list[Any]:
        """Return all parameters. Those of a request are made on demand, so that other commands do not load its model."""
        if not self._complete:
            self._params, self._complete = [*list_request_options(self.find_model()), *self._params], True
        return self._params

    @params.setter
    def params(self, own: list[Any]) -> None:
        self._params, self._complete = own, False

    def get_help_option(self, ctx: Any) -> Any:
        """Return `--help`, which else would have a panel for itself."""
        found = super().get_help_option(ctx)
        found.rich_help_panel = OUTPUT  # type: ignore[union-attr]
        return found

    def invoke(self, ctx: Any) -> Any:
        """Call the function with its own parameters."""
        ctx.obj = {one.name: ctx.params.pop(one.name) for one in list_request_options(self.find_model())}
        return super().invoke(ctx)


def take_request(context: typer.Context, commands: list[str]) -> "ProofRequest":
    """Return what is asked: of the file that is named, with the options laid over it, or of them alone.

    Raises :class:`ConfigError` with all that is wrong.
    """
    from speedproof.run.proof.request import make_request

    return make_request({"commands": commands, **take_given(context)})


def take_given(context: typer.Context) -> dict[str, Any]:
    """Return the options of a request that were given."""
    options = {key: list(value) if isinstance(value, tuple) else value for key, value in context.obj.items()}
    return {key: value for key, value in options.items() if not (value is None or value is False or value == [])}


@cache
def list_request_options(model: type["ProofRequest"]) -> list[Any]:
    """Return an option for each key of a request that is one."""

    def take(**_: Any) -> None: ...

    parameters = [_make_parameter(key, model) for key in model.list_options()]
    take.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    alone = typer.Typer(add_completion=False)
    alone.command()(take)
    return typer.main.get_command(alone).params


def _make_parameter(key: str, model: type["ProofRequest"]) -> Parameter:
    """Return a key of a request as typer reads it from a function's signature."""
    from speedproof.run.proof.request import describe_key, name_option, read_option

    kind, shown = _find_kind(model.model_fields[key].annotation), read_option(key, model)
    text = describe_key(key, name_option, model) + (" (repeatable)" if get_origin(kind) is list else "")
    option = typer.Option(name_option(key), metavar=shown["metavar"] or None, help=text, rich_help_panel=shown["panel"])
    default, taken = (False, bool) if kind is bool else (None, kind | None)
    return Parameter(key, Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[taken, option])


def _find_kind(annotation: Any) -> Any:
    """Return how a value of a type is typed: as a switch, a number, a text, or several texts; the model checks the rest."""
    from pydantic import BaseModel

    origin, inner = get_origin(annotation), get_args(annotation)
    if origin in (Union, UnionType):
        return _find_kind(next(one for one in inner if one is not NoneType))
    if origin is Annotated:
        return _find_kind(inner[0])
    if origin is list or (isinstance(annotation, type) and issubclass(annotation, BaseModel)):  # a mapping as KEY=VALUE
        return list[str]
    return annotation if annotation in (bool, int, float) else str
