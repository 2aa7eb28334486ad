"""A comparison whose budget was spent, when the same one is asked for again: it goes on measuring."""

from typing import TypeVar

from speedproof.results.campaign_log import Try
from speedproof.results.gate_result import GateResult
from speedproof.run.gate.gate_request import GateRequest

_SPARE = 1.5  # rounds vary
_Request = TypeVar("_Request", bound=GateRequest)


def add_budget(request: _Request, before: GateResult | Try | None) -> _Request:
    """Return a request with the budget of all calls so far; one that was spent is granted once more.

    It is granted for a round at least. After a decision the budget stays what it was, and so does the decision.
    """
    if request.budget is None or before is None or before.budget_min is None:
        return request
    if before.stopped == "budget":
        round_min = _SPARE * before.minutes / max(1, before.pairs)
        return request.model_copy(update={"budget_min": before.budget_min + max(request.budget, round_min)})
    return request.model_copy(update={"budget_min": max(request.budget, before.budget_min)})
