"""What `speedproof bisect` is asked: one command, and how its runs are read and isolated."""

from typing import Any, ClassVar

from pydantic import ConfigDict

from speedproof.results.experiment import Minutes
from speedproof.run.proof.command_lookup import join_command
from speedproof.run.proof.request import Command, ProofRequest, check_model, name_option, option

BISECT_BUDGET_MIN = 240.0
_PANEL = "Bisect"
_LEFT_OUT = {"commands", "names", "claim", "workdir", "control", "rounds", "sources", "wait_for_quiet_min", "trust_reported"}
_LEFT_OUT |= {"quality", "quality_command", "artifacts", "margin", "better", "blind", "container"}
_LEFT_OUT |= {"profiled", "profiler", "flops", "profile", "job"}


class BisectRequest(ProofRequest):
    """A command that runs at many commits."""

    model_config = ConfigDict(populate_by_name=True, defer_build=True)
    derived: ClassVar[frozenset[str]] = frozenset(_LEFT_OUT)

    build: Command | None = option(None, _PANEL, "Command that builds each commit in its own folder", metavar="COMMAND")
    budget_min: Minutes | None = option(
        None, "Rounds", "Time limit for everything. Default: 240", flag="--budget", metavar="MINUTES"
    )

    @property
    def budget(self) -> float:
        """Return the minutes that everything may take."""
        return self.budget_min or BISECT_BUDGET_MIN


def make_bisect_request(words: list[str], options: dict[str, Any]) -> BisectRequest:
    """Return a checked request of a command, as one word or as several, and of options by their keys.

    Raises :class:`ConfigError` with all that is wrong.
    """
    values = {**options, "commands": [join_command(words)] * 2, "names": ["good", "bad"], "workdir": "commit"}
    return check_model(BisectRequest, values, "bisect", name_option)
