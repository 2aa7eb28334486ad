"""From files to a checked configuration."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from speedproof.config.model import Config
from speedproof.config.validation_errors import describe_problem
from speedproof.config.workload import find_workload
from speedproof.results.older_versions import convert_older_config
from speedproof.util.errors import ConfigError
from speedproof.util.yaml_input import check_plain, overlay, read_yaml

AnyConfig = TypeVar("AnyConfig", bound=Config)
AnyModel = TypeVar("AnyModel", bound=BaseModel)


def check_config(values: Any, origin: str = "config") -> Config:
    """Return the typed configuration, completed by its workload, or raise a :class:`ConfigError` that names the key's path.

    One that was completed before, as `config.json` of a results folder is, is taken as it is.
    """
    check_mapping(values, origin)
    if not values.get("completed"):
        case = values.get("case")
        if not isinstance(case, str) or not case:
            raise ConfigError(f"{origin}: case: must be the name of a workload, or the path of its folder")
        values = {**find_workload(case).complete(values, origin), "case": case}
    return validate(Config, values, origin)


def check_own_config(model: type[AnyConfig], folder: Path, values: Any, origin: str) -> AnyConfig:
    """Return a configuration as the model of a workload that types its own part; `folder` holds its `workload.yaml`.

    Raises:
        ConfigError: the values do not fit the model; the text names `origin` and the key.
    """
    check_mapping(values, origin)
    return validate(model, find_workload(str(folder)).lay_over_quality(values), origin)


def load_config(*paths: Path) -> Config:
    """Read YAML (or JSON) files, each laid over the ones before it, and check the result."""
    return load_files(check_config, *paths)


def read_completed_config(path: Path) -> Config:
    """Read the `config.json` of a results folder, whoever made it: nothing of theirs is run for it.

    Raises:
        ConfigError: it is none, or was never completed by its workload, and that is none of ours.
    """
    values = read_yaml(path)
    check_mapping(values, str(path))
    values = convert_older_config(values)
    if not values.get("completed") and os.sep in str(values.get("case", "")):
        raise ConfigError(
            f"{path}: its workload never completed it, and is not one of ours; remove it, or run the workflow again"
        )
    return check_config(values, str(path))


def load_files(check: Callable[[Any, str], AnyConfig], *paths: Path) -> AnyConfig:
    """Return what `check` makes of files, each laid over the ones before it, and of their names."""
    merged: dict[str, Any] = {}
    for path in paths:
        values = read_yaml(path)
        if not isinstance(values, dict):
            raise ConfigError(f"{path}: must be a mapping of keys")
        merged = overlay(merged, values)
    return check(merged, " + ".join(str(path) for path in paths))


def check_mapping(values: Any, origin: str) -> None:
    """Check that values are a mapping of plain ones, whoever read them: Snakemake reads files itself."""
    if not isinstance(values, dict):
        raise ConfigError(f"{origin}: must be a mapping of keys, not {type(values).__name__}")
    check_plain(values, origin)


def validate(model: type[AnyModel], values: dict[str, Any], origin: str) -> AnyModel:
    """Return values as `model`, or raise a :class:`ConfigError` that names the key's path."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise ConfigError(f"{origin}: {describe_problem(error, model)}") from None
