"""What `speedproof gate` is asked: one command, two commits, and the limits."""

import re
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, ConfigDict

from speedproof.run.proof.command_lookup import join_command
from speedproof.run.proof.request import Command, ProofRequest, check_model, name_option, option
from speedproof.stats.gating import GateLimits

DEFAULT_FOLDER = Path("results/gate")
_PANEL = "Gate"
_PERCENT = re.compile(r"(\d+(?:\.\d+)?)\s*%")
_LARGEST = 1000  # percent


def read_percent(text: str) -> float:
    """Return `3%` as a fraction. Raises ValueError of anything else."""
    found = _PERCENT.fullmatch(text.strip())
    if found is None or not 0 < float(found[1]) <= _LARGEST:
        raise ValueError(f"{text!r:.40}: write a percentage above 0, for example 3%")
    return float(Decimal(found[1]) / 100)  # 1.4 / 100 is below 0.014, which a calibration states


def _check_percent(text: str) -> str:
    read_percent(text)
    return text


Percent = Annotated[str, AfterValidator(_check_percent)]


class GateRequest(ProofRequest):
    """A proof of two commits of one command; the limits are its claim."""

    model_config = ConfigDict(populate_by_name=True, defer_build=True)
    derived: ClassVar[frozenset[str]] = frozenset({"commands", "names", "claim", "workdir", "control", "profile", "job"})

    base: str = option("main", _PANEL, "Commit to compare with. Default: main", metavar="COMMIT")
    head: str = option("HEAD", _PANEL, "Commit to test. Default: HEAD", metavar="COMMIT")
    regression: Percent = option("3%", _PANEL, "Slowdown that must be excluded. Default: 3%", metavar="PERCENT")
    improvement: Percent | None = option(
        None, _PANEL, "Pass only if the head is shown to be faster by this much", metavar="PERCENT"
    )
    build: Command | None = option(None, _PANEL, "Command that builds each commit in its own folder", metavar="COMMAND")

    @classmethod
    def list_options(cls) -> list[str]:
        """Return the keys that are options of the command line, a gate's own first."""
        inherited = super().list_options()
        own = [key for key in inherited if key not in ProofRequest.model_fields]
        return [*own, *(key for key in inherited if key not in own)]

    @property
    def limits(self) -> GateLimits:
        return GateLimits(read_percent(self.regression), read_percent(self.improvement) if self.improvement else None)

    @property
    def command(self) -> str:
        return self.commands[0]

    def name_folder(self, out: Path) -> Path | None:
        """Return the `--out` of the gate whose proof is in a folder; None if it is the default."""
        return None if out.parent == DEFAULT_FOLDER else out.parent

    def place_words(self, options: list[str]) -> list[str]:
        """Return the words of the command line that asks this, with these options."""
        return ["gate", self.command, *options]


def make_gate_request(words: list[str], options: dict[str, Any]) -> GateRequest:
    """Return a checked request of a command, as one word or as several, and of options by their keys.

    Raises :class:`ConfigError` with all that is wrong.
    """
    values = {**options, "commands": [join_command(words)] * 2, "names": ["base", "head"], "workdir": "commit"}
    request = check_model(GateRequest, values, "gate", name_option)
    return request.model_copy(update={"claim": _claim(request)})


def _claim(request: GateRequest) -> str:
    """Return the limit that the gate claims, in percent as it was asked for."""
    if request.improvement is not None:
        return f"at least {request.improvement.strip()} faster"
    return f"at most {request.regression.strip()} slower"
