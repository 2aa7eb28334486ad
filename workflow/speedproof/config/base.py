"""What all parts of the configuration's model are made of."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Positive = Annotated[int, Field(ge=1)]
Natural = Annotated[int, Field(ge=0)]
Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]
Three = tuple[Positive, Positive, Positive]


class Model(BaseModel):
    """A part of the configuration: unknown keys are errors, and nothing changes after it was read."""

    model_config = ConfigDict(extra="forbid", frozen=True)
