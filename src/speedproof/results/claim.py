"""What is claimed of a ratio: a bound that it is said to keep."""

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict

_TEXT = re.compile(r"\s*(?P<sign>>=|<=|>|<|≥|≤)\s*(?P<value>\d+(?:\.\d+)?)\s*[×x]?\s*")
_PERCENT = re.compile(r"\s*at (?P<end>most|least) (?P<value>\d+(?:\.\d+)?)\s*% (?P<way>slower|faster)\s*")
_LARGEST = 1e9


class Claim(BaseModel):
    """A bound that a ratio is claimed to keep; an end that is open is None."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    value: float
    low: float | None
    high: float | None
    words: str | None = None  # if it was claimed in percent

    @property
    def text(self) -> str:
        return self.words or f"{'≤' if self.low is None else '≥'} {self.value:g}×"

    def judge(self, low: float, high: float) -> Literal["claim holds", "claim fails", "inconclusive"]:
        """Judge the claim by the interval [low, high] of the ratio."""
        least, most = (0.0 if self.low is None else self.low), (float("inf") if self.high is None else self.high)
        if least <= low and high <= most:
            return "claim holds"
        return "claim fails" if high < least or low > most else "inconclusive"


def read_claim(text: str) -> Claim:
    """Read `>= 1.5`, `<= 0.9`, `at most 3% slower` or `at least 5% faster`. Raises ValueError of anything else."""
    if percent := _read_percent(text):
        return percent
    found = _TEXT.fullmatch(text)
    if found is None or not 0 < float(found["value"]) <= _LARGEST:
        raise ValueError(f"{text!r:.40}: write a comparison and a number above 0, for example '>= 1.5'")
    value, upward = float(found["value"]), found["sign"] in (">=", ">", "≥")
    return Claim(value=value, low=value if upward else None, high=None if upward else value)


def _read_percent(text: str) -> Claim | None:
    """Return the least ratio that a claim in percent allows: a program that is 3 % slower takes 1.03 times as long."""
    found = _PERCENT.fullmatch(text)
    if found is None or (found["end"], found["way"]) not in (("most", "slower"), ("least", "faster")):
        return None
    times = 1 + float(found["value"]) / 100
    least = times if found["way"] == "faster" else 1 / times
    return Claim(value=least, low=least, high=None, words=f"at {found['end']} {found['value']} % {found['way']}")


def _check_claim(text: str) -> str:
    read_claim(text)
    return text


ClaimText = Annotated[str, AfterValidator(_check_claim)]
