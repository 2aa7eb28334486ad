"""The command of a user's own that says how good the result of a run is."""

from pydantic import Field

from speedproof.config.base import Model, Positive
from speedproof.config.reading import FilePattern, Pattern


class Evaluation(Model):
    """What judges the quality of a run: a command that reads what the run left, in a copy of the folder that no run saw."""

    command: str = Field(min_length=1, description="As a shell splits it; `{run}` is the folder where the run worked")
    tree: str = Field(description="Folder that it runs in a copy of; `{workload}` is the workload's folder")
    linked: dict[str, str] = Field({}, description="What is linked there instead: name → where it lies")
    files: dict[str, str] = Field({}, description="SHA-256 of each file that the command names, by its word")
    artifacts: list[FilePattern] = Field(
        min_length=1, description="What each run must have written, relative to where it worked; nothing else shows whose it is"
    )
    quality: Pattern | None = Field(
        None, description="Its group is the quality in the command's output; null: the last line that is a number"
    )
    limit_s: Positive = Field(600, description="How long it may take")
