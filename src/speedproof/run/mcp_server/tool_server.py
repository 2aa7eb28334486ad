"""The tools as the protocol has them: their names, what they take, what they return."""

import os
import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Annotated, Any

import anyio
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.tools import Tool
from mcp_types import ToolAnnotations
from pydantic import Field, ValidationError

from speedproof import __version__
from speedproof.config.validation_errors import explain_problem
from speedproof.run.mcp_server.agent_limits import AgentLimits
from speedproof.run.mcp_server.minutes_budget import MinutesBudget
from speedproof.run.mcp_server.tool_answers import (
    DifferenceAnswer,
    DoctorAnswer,
    GateAnswer,
    LedgerAnswer,
    ProofAnswer,
    TraceAnswer,
)
from speedproof.run.mcp_server.tool_calls import ToolCalls
from speedproof.util.errors import SpeedproofError, explain_os_error
from speedproof.util.secrets import scrub_command
from speedproof.util.text import printable, shorten

_READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
_MEASURES = ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=False)

_Claim = Annotated[
    str | None, Field(max_length=100, description="Speedup to test, for example '>= 1.5'. Default: any difference")
]
_Minutes = Annotated[float | None, Field(gt=0, description="Most minutes of this call. Default: all that are left")]
_Percent = Annotated[str | None, Field(max_length=100, description="Slowdown that must be excluded. Default: 3%")]
_Commit = Annotated[str, Field(max_length=200, description="Commit of the server's repository, for example main or HEAD")]
_Trace = Annotated[
    str, Field(max_length=4096, description="Path of a trace (a file or a folder), in a folder that the server allows")
]
_Entry = Annotated[str | None, Field(max_length=200, description="An entry's id. Default: list all")]


def make_server(limits: AgentLimits, budget: MinutesBudget, calls: ToolCalls) -> MCPServer[Any]:
    """Return a server with all tools."""
    return MCPServer(
        "speedproof",
        instructions=_write_instructions(limits, budget),
        version=__version__,
        log_level="WARNING",
        tools=[*_make_measuring_tools(calls, limits), *_make_reading_tools(calls)],
    )


class _OneLineTool(Tool):
    """A tool that refuses arguments in one line."""

    async def run(self, arguments: dict[str, Any], context: Context[Any, Any], convert_result: bool = False) -> Any:
        """Run the tool. Raises :class:`ToolError` with the first wrong argument."""
        try:
            self.fn_metadata.validate_arguments(arguments)
        except ValidationError as error:
            problem = error.errors(include_url=False)[0]
            said = explain_problem(problem, self.fn_metadata.arg_model, "the tool's schema")
            raise ToolError(shorten(printable(f"{self.name}: {problem['loc'][0]}: {said}"))) from None
        return await super().run(arguments, context, convert_result)


def _make_tool(function: Callable[..., Any], annotations: ToolAnnotations) -> Tool:
    """Return a function as a tool that refuses arguments that it does not know."""
    tool = _OneLineTool.from_function(function, annotations=annotations)
    model = tool.fn_metadata.arg_model
    model.model_config["extra"] = "forbid"
    model.model_rebuild(force=True)
    tool.parameters = model.model_json_schema(by_alias=True)
    return tool


def _write_instructions(limits: AgentLimits, budget: MinutesBudget) -> str:
    """Return what an agent should know of this server."""
    return "\n".join(
        [
            "Tests whether one training program is faster than another on this machine, and why.",
            "A person fixed the commands; tools take their names:",
            *(f"- {name}: {scrub_command(command)}" for name, command in limits.commands.items()),
            f"They run in copies of {limits.project}, taken when a call begins. Later edits do not affect that call.",
            f"Traces may be read in {', '.join(map(str, limits.folders))}. Relative paths start there or in {limits.project}.",
            f"All calls together may take {budget.total_min:g} minutes.",
            "Answers may advise options, such as --profiled 1: that person sets them, not you.",
            "An inconclusive outcome shows nothing. Do not repeat a proof until it succeeds: attempts are counted.",
        ]
    )


def _make_measuring_tools(calls: ToolCalls, limits: AgentLimits) -> list[Tool]:
    """Return the tools that run commands."""
    names: dict[str, Any] = {"enum": list(limits.commands)}
    allowed = Field(max_length=100, description="Name of a command of this server", json_schema_extra=names)
    command_name = Annotated[str, allowed]

    async def prove(
        a: command_name,
        b: command_name,
        context: Context,
        claim: _Claim = None,
        minutes: _Minutes = None,
    ) -> ProofAnswer:
        """Test whether command b is faster than command a: both run several times, in random order, on this machine.

        The ratio is a's time / b's time, with a 95 % interval. This takes minutes.
        """
        with _refusing():
            return await calls.prove(a, b, claim, minutes, _reporter(context))

    async def gate(
        base: _Commit,
        head: _Commit,
        command: command_name,
        context: Context,
        regression: _Percent = None,
        minutes: _Minutes = None,
    ) -> GateAnswer:
        """Test whether commit head runs a command slower than commit base. Both must be committed. This takes minutes."""
        with _refusing():
            return await calls.gate(base, head, command, regression, minutes, _reporter(context))

    return [_make_tool(prove, _MEASURES), _make_tool(gate, _MEASURES)]


def _make_reading_tools(calls: ToolCalls) -> list[Tool]:
    """Return the tools that run no command of the user."""

    async def trace_analyze(file: _Trace, context: Context) -> TraceAnswer:
        """Show where the time of a profiled program went: phases, GPU idle time and its causes, kernels, possible savings.

        Reads files of Nsight Systems, torch.profiler, JAX and others.
        """
        with _refusing():
            return await calls.analyze_trace(file, _reporter(context))

    async def trace_diff(a: _Trace, b: _Trace, context: Context) -> DifferenceAnswer:
        """Explain why an iteration takes longer or shorter in trace b than in trace a."""
        with _refusing():
            return await calls.diff_traces(a, b, _reporter(context))

    async def doctor(context: Context) -> DoctorAnswer:
        """Check what this machine can run and measure."""
        with _refusing():
            return await calls.ask_doctor(_reporter(context))

    async def ledger(context: Context, entry: _Entry = None) -> LedgerAnswer:
        """Show documented speedups of other projects, and what was measured of them. Runs nothing."""
        with _refusing():
            return await calls.read_ledger(entry, _reporter(context))

    return [
        _make_tool(trace_analyze, _MEASURES),
        _make_tool(trace_diff, _MEASURES),
        _make_tool(doctor, _READS),
        _make_tool(ledger, _READS),
    ]


@contextmanager
def _refusing() -> Iterator[None]:
    """Tell the agent, in one line, what it did wrong or what failed."""
    try:
        yield
    except SpeedproofError as error:
        raise ToolError(str(error)) from None
    except OSError as error:
        raise ToolError(str(explain_os_error(error))) from None


def _reporter(context: Context) -> Callable[[float, str], Awaitable[None]]:
    """Return what sends progress to the client: the seconds so far, and a line."""

    async def report(seconds: float, line: str) -> None:
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):  # the client has gone
            await context.report_progress(seconds, message=line)

    return report


def serve(limits: AgentLimits, total_min: float) -> None:
    """Serve one client on standard input and output, until it closes them or a signal stops this process."""
    budget = MinutesBudget(total_min)
    calls = ToolCalls(limits, budget)
    server = make_server(limits, budget, calls)

    async def serve_client() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_end_when_stopped, calls)
            await server.run_stdio_async()
            tasks.cancel_scope.cancel()

    anyio.run(serve_client)


async def _end_when_stopped(calls: ToolCalls) -> None:
    """End this process on a signal, after its running call has ended in good order."""
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
        async for number in signals:
            await calls.stop()
            os._exit(128 + number)  # a thread still waits for the client's next line, and a normal exit for that thread
