"""The answer of one of the doctor's checks."""

from typing import NamedTuple

from speedproof.results.diagnosis import FindingState


class CheckAnswer(NamedTuple):
    """The state of a check's subject, what was found, and a hint unless the state is good."""

    state: FindingState
    found: str
    hint: str | None = None
