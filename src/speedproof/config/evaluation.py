"""A user's command that measures the quality of a run's result."""

from pydantic import Field

from speedproof.config.base import Model, Positive
from speedproof.config.reading import FilePattern, Pattern


class Evaluation(Model):
    """A command that measures a run's quality from its output, in a fresh copy of the folder that no run used."""

    command: str = Field(min_length=1, description="Command line; `{run}` is the folder where the run worked")
    tree: str = Field(description="Folder that is copied for it to run in; `{workload}` is the workload's folder")
    linked: dict[str, str] = Field({}, description="Entries to link there instead of copying: name → path")
    files: dict[str, str] = Field({}, description="SHA-256 of each file that the command names, by argument")
    artifacts: list[FilePattern] = Field(
        min_length=1, description="Files that each run must write, relative to where it worked; they tie the quality to the run"
    )
    quality: Pattern | None = Field(
        None, description="Pattern whose group is the quality in the command's output; null: the last line that is a number"
    )
    limit_s: Positive = Field(600, description="Time limit in seconds")
