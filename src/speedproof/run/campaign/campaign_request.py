"""What a campaign is asked: one command, its first reference, and how many tries share the error."""

from typing import Any, ClassVar

from pydantic import ConfigDict, Field

from speedproof.config.base import Natural, Positive
from speedproof.config.reading import FilePattern
from speedproof.run.gate.gate_request import GateRequest, Percent, read_percent
from speedproof.run.proof.command_lookup import join_command
from speedproof.run.proof.request import check_model, name_option, option

_PANEL = "Campaign"
_NAMES = ["reference", "candidate"]


class CampaignRequest(GateRequest):
    """A series of comparisons of two commits of one command."""

    model_config = ConfigDict(populate_by_name=True, defer_build=True)
    derived: ClassVar[frozenset[str]] = GateRequest.derived | {"base", "head", "regression", "improvement", "joint_with"}

    reference: str = option("HEAD", _PANEL, "Commit that the first try is compared with. Default: HEAD", metavar="COMMIT")
    tries: Positive = option(50, _PANEL, "Tries that share the error of 5 %. Default: 50", le=1000)
    least: Percent = option("1%", _PANEL, "Drop a change once a larger gain is excluded. Default: 1%", metavar="PERCENT")
    protect: list[FilePattern] = option(
        [], _PANEL, "Files that no try may change, such as what evaluates it", metavar="PATTERN"
    )
    joint_with: Natural = Field(0, description="Other comparisons that share the error")

    def describe_comparison(self) -> dict[str, Any]:
        """Return the share of the error, and from which gain on two commits are not equivalent."""
        return {"joint_with": self.joint_with, "equivalence_margin": read_percent(self.least)}

    def place_words(self, options: list[str]) -> list[str]:
        """Return the words of the command line that goes on with a try."""
        return ["campaign", "try", self.head]


def make_campaign_request(words: list[str], options: dict[str, Any]) -> CampaignRequest:
    """Return a checked request of a command, as one word or as several, and of options by their keys.

    Raises :class:`ConfigError` with all that is wrong.
    """
    values = {**options, "commands": [join_command(words)] * 2, "names": _NAMES, "workdir": "commit"}
    return check_model(CampaignRequest, values, "campaign start", name_option)
