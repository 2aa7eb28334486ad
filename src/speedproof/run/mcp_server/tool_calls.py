"""What each tool does: one call at a time, within the server's limits and its budget."""

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TypeVar

import anyio
import anyio.to_thread
from pydantic import BaseModel, ValidationError

from speedproof.cluster.doctor import summarize_findings
from speedproof.report.document import PAGE_FILE
from speedproof.results.diagnosis import Diagnosis
from speedproof.results.gate_result import GateResult
from speedproof.results.run_record import PROGRAMS
from speedproof.results.summary import read_summary
from speedproof.results.trace_results import read_difference
from speedproof.run.ledger.entry import find_entry_file, load_entry, load_ledger
from speedproof.run.ledger.entry_outcome import find_outcomes
from speedproof.run.mcp_server.agent_limits import AgentLimits
from speedproof.run.mcp_server.minutes_budget import MinutesBudget
from speedproof.run.mcp_server.result_folders import ResultFolders
from speedproof.run.mcp_server.tool_answers import (
    DifferenceAnswer,
    DoctorAnswer,
    GateAnswer,
    LedgerAnswer,
    ProofAnswer,
    ToolAnswer,
    TraceAnswer,
    answer_difference,
    answer_doctor,
    answer_entry,
    answer_gate,
    answer_proof,
    answer_trace,
)
from speedproof.run.mcp_server.tool_children import EndedChild, Report, run_speedproof
from speedproof.run.proof.attempts import note_interrupted_attempt
from speedproof.run.proof.left_files import DIGESTS
from speedproof.run.proof.typed_call import list_call_words
from speedproof.run.proof.verdict import Verdict
from speedproof.util.errors import SpeedproofError
from speedproof.util.secrets import scrub_command
from speedproof.util.sources import digest_files

# Of a call's minutes, the share that its rounds may take. The rest is for the warm-up and the report.
ROUNDS_SHARE = 0.8

_Answer = TypeVar("_Answer", bound=ToolAnswer)
_Printed = TypeVar("_Printed", bound=BaseModel)
_Run = Callable[[Sequence[str]], Awaitable[EndedChild]]


class _PrintedError(BaseModel):
    """What a command with `--json` prints in place of its result."""

    message: str


class ToolCalls:
    """Calls of tools. Each waits for the one before: an analysis would disturb a measurement beside it."""

    def __init__(self, limits: AgentLimits, budget: MinutesBudget) -> None:
        """Take what is allowed, and the minutes that all calls share."""
        self._limits, self._budget, self._folders = limits, budget, ResultFolders(limits.out)
        self._one_at_a_time = anyio.Lock()
        self._running: anyio.CancelScope | None = None
        self._stopped = False

    async def stop(self) -> None:
        """End the running call in good order, and refuse all others."""
        self._stopped = True
        if self._running is not None:
            self._running.cancel()
        async with self._one_at_a_time:
            return

    async def prove(self, a: str, b: str, claim: str | None, minutes: float | None, report: Report) -> ProofAnswer:
        """Measure two commands."""

        async def measure(run: _Run, allowed_min: float) -> ProofAnswer:
            request = self._limits.make_proof(a, b, claim, ROUNDS_SHARE * allowed_min)
            with self._folders.opened(f"prove-{a}-{b}", a, b) as out:
                try:
                    child = await run([*list_call_words(request), "--out", str(out), "--json"])
                finally:
                    note_interrupted_attempt(out, list(map(scrub_command, request.commands)))
                verdict = _read_printed(child, Verdict)
            listed = out / PROGRAMS / DIGESTS
            known = listed.is_file()
            checksum = digest_files(listed.parent, [DIGESTS]) if known else None
            return answer_proof(verdict, checksum, str(listed) if known else None)

        return await self._spend(measure, minutes, report)

    async def gate(
        self, base: str, head: str, command: str, regression: str | None, minutes: float | None, report: Report
    ) -> GateAnswer:
        """Measure two commits."""

        async def measure(run: _Run, allowed_min: float) -> GateAnswer:
            request = self._limits.make_gate(base, head, command, regression, ROUNDS_SHARE * allowed_min)
            with self._folders.opened(f"gate-{command}", base, head) as out:
                child = await run([*list_call_words(request), "--out", str(out), "--json"])
                return answer_gate(_read_printed(child, GateResult))

        return await self._spend(measure, minutes, report)

    async def analyze_trace(self, file: str, report: Report) -> TraceAnswer:
        """Analyze a trace."""

        async def analyze(run: _Run, _allowed_min: float) -> TraceAnswer:
            trace = await anyio.to_thread.run_sync(self._limits.find_trace, file)
            with self._folders.opened("trace") as out:
                _expect_success(await run(["trace", "analyze", str(trace), "--out", str(out), "--quiet"]))
                return answer_trace(str(trace), read_summary(out), _find_page(out))

        return await self._spend(analyze, None, report)

    async def diff_traces(self, a: str, b: str, report: Report) -> DifferenceAnswer:
        """Compare two traces."""

        async def compare(run: _Run, _allowed_min: float) -> DifferenceAnswer:
            traces = [str(await anyio.to_thread.run_sync(self._limits.find_trace, name)) for name in (a, b)]
            with self._folders.opened("trace-diff") as out:
                _expect_success(await run(["trace", "diff", *traces, "--out", str(out)]))
                return answer_difference(traces, read_difference(out), _find_page(out))

        return await self._spend(compare, None, report)

    async def ask_doctor(self, report: Report) -> DoctorAnswer:
        """Check the machine."""

        async def ask(run: _Run, _allowed_min: float) -> DoctorAnswer:
            diagnosis = _read_printed(await run(["doctor", "--json"]), Diagnosis)
            return answer_doctor(diagnosis, summarize_findings(diagnosis))

        return await self._spend(ask, None, report)

    async def read_ledger(self, entry: str | None, report: Report) -> LedgerAnswer:
        """List all entries of the ledger, or one."""
        folder, own = self._limits.ledger, self._limits.project / "results/ledger"

        def read() -> LedgerAnswer:
            found = {entry: load_entry(find_entry_file(folder, entry))} if entry else load_ledger(folder)
            rows = [
                answer_entry(name, one, find_outcomes(name, one, folder, own), whole=bool(entry)) for name, one in found.items()
            ]
            return LedgerAnswer(entries=rows)

        async def read_aside(_run: _Run, _allowed_min: float) -> LedgerAnswer:
            return await anyio.to_thread.run_sync(read)

        return await self._spend(read_aside, None, report)

    async def _spend(
        self, call: Callable[[_Run, float], Awaitable[_Answer]], asked_min: float | None, report: Report
    ) -> _Answer:
        """Make a call in its turn, within the minutes that it may take; add to its answer what it spent."""
        async with self._one_at_a_time:
            if self._stopped:
                raise SpeedproofError("the server ends")
            allowed_min = self._budget.allow(asked_min)

            async def run(words: Sequence[str]) -> EndedChild:
                return await run_speedproof(words, self._limits.project, 60 * allowed_min, report)

            with self._budget.spending() as spent, anyio.CancelScope() as self._running:
                answer = await call(run, allowed_min)
            if self._running.cancelled_caught:
                raise SpeedproofError("stopped, because the server ends")
            answer.minutes_spent, answer.minutes_left = round(spent.seconds / 60, 2), round(self._budget.left_min, 2)
            return answer


def _read_printed(child: EndedChild, model: type[_Printed]) -> _Printed:
    """Return the JSON that a child printed. Raises :class:`SpeedproofError` with what went wrong, if that is what it is."""
    try:
        return model.model_validate_json(child.output)
    except ValidationError:
        pass
    try:
        message = _PrintedError.model_validate_json(child.output).message
    except ValidationError:
        message = f"exit status {child.status}: {child.last_line}"
    raise SpeedproofError(message)


def _expect_success(child: EndedChild) -> None:
    if child.status != 0:
        raise SpeedproofError(child.last_line)


def _find_page(out: Path) -> str | None:
    page = out / PAGE_FILE
    return str(page) if page.is_file() else None
