"""What a check of the doctor answers."""

from typing import NamedTuple

from speedproof.results.diagnosis import FindingState


class CheckAnswer(NamedTuple):
    """The state of a check's subject, what was found, and what to do unless that is good."""

    state: FindingState
    found: str
    cure: str | None = None
