"""Types that all parts of the configuration's model share."""

import typing
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from speedproof.results.older_versions import refuse_renamed_keys

# What else would be taken for null: Snakemake hands on what stands inside of `--config key={…}` as text.
NULLS = ("null", "Null", "NULL", "~")


def _refuse_truth(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError(f"must be a number, not {str(value).lower()}")
    return value


def expand_home(value: Any) -> Any:
    """Return a path with the home folder in place of a `~` in front, as a shell gives it."""
    if not isinstance(value, str) or not value.startswith("~"):
        return value
    try:
        return str(Path(value).expanduser())
    except RuntimeError:
        raise ValueError(f"there is no home folder `{value.split('/')[0]}`; use the full path") from None


def _check_folder(value: str) -> str:
    if not value:
        raise ValueError("must be a folder's path, not an empty text")
    return str(expand_home(value))


Whole = Annotated[int, BeforeValidator(_refuse_truth)]
Number = Annotated[float, BeforeValidator(_refuse_truth)]
# Upper bounds, here and at single keys, are far beyond what anyone wants: a slip of the keyboard ends there.
Positive = Annotated[Whole, Field(ge=1, le=10**9)]
Natural = Annotated[Whole, Field(ge=0, le=10**9)]
Seed = Annotated[Whole, Field(ge=0, lt=2**31)]
Epochs = Annotated[Whole, Field(ge=1, le=100_000)]
Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$", max_length=64)]
Folder = Annotated[str, AfterValidator(_check_folder)]


class Model(BaseModel):
    """A part of the configuration: unknown keys are errors, numbers are finite, and nothing changes after it was read."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
    renamed: ClassVar[dict[str, str]] = {}  # keys of earlier versions, and what to write now

    @model_validator(mode="before")
    @classmethod
    def _text_that_means_null(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        refuse_renamed_keys(values, cls.renamed)
        nulls = [key for key, value in values.items() if isinstance(value, str) and value in NULLS and key in cls.model_fields]
        for key in nulls:
            if type(None) not in typing.get_args(cls.model_fields[key].annotation):
                raise ValueError(f"`{key}` cannot be null")
        return {**values, **dict.fromkeys(nulls)}
