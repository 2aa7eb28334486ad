"""A command line of speedproof as a child of the server: its progress, its time limit, and its end if the client cancels.

It stands behind a guardian, which ends all that came of it, whatever becomes of the child or of the server.
"""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import anyio
from anyio.abc import ByteReceiveStream, Process

from speedproof.util.child_processes import GUARDIAN
from speedproof.util.errors import SpeedproofError

STOP_S = 15  # to end in good order after SIGINT, before all of it is killed
_KEPT_LINES = 20
_MOST_BYTES = 2**24  # of its output; none prints nearly as much

Report = Callable[[float, str], Awaitable[None]]  # receives the seconds since the start, and a line of progress


class BudgetEndedError(SpeedproofError):
    """A call took longer than its minutes, and was ended."""

    exit_code = 3


@dataclass
class EndedChild:
    """What a child printed, and its exit status."""

    output: bytes = b""
    lines: list[str] = field(default_factory=list)  # the last ones of its standard error
    status: int = -1

    @property
    def last_line(self) -> str:
        return self.lines[-1] if self.lines else "it printed nothing"


async def run_speedproof(words: Sequence[str], folder: Path, limit_s: float, report: Report) -> EndedChild:
    """Run a command line of speedproof in a folder.

    Raises :class:`BudgetEndedError` if it took longer than `limit_s` seconds. Then, and if this is cancelled, it gets SIGINT
    and :data:`STOP_S` seconds; what is left of it is killed.
    """
    # -P: a file of that name in the folder, which an agent may write, is not speedproof.
    command = [sys.executable, "-P", "-m", "speedproof", *words]
    control, ours = socket.socketpair()
    found, began_s = EndedChild(), time.monotonic()

    async def read_output(stream: ByteReceiveStream) -> None:
        async for chunk in stream:
            found.output = (found.output + chunk)[:_MOST_BYTES]

    async def read_lines(stream: ByteReceiveStream) -> None:
        rest = b""
        async for chunk in stream:
            *lines, rest = (rest + chunk)[-_MOST_BYTES:].split(b"\n")
            for line in [text for one in lines if (text := one.decode(errors="replace").strip())]:
                found.lines = [*found.lines, line][-_KEPT_LINES:]
                await report(time.monotonic() - began_s, line)

    with ours, control:
        process = await _start(command, folder, control)
        try:
            with anyio.fail_after(limit_s):
                async with anyio.create_task_group() as reading:
                    if process.stdout and process.stderr:
                        reading.start_soon(read_output, process.stdout)
                        reading.start_soon(read_lines, process.stderr)
                    found.status = await process.wait()
        except TimeoutError:
            raise BudgetEndedError(
                f"ended after {limit_s / 60:.2g} minutes, the limit of this call; completed runs are kept"
            ) from None
        finally:
            with anyio.CancelScope(shield=True):
                await _stop(process, ours)
    return found


async def _start(command: Sequence[str], folder: Path, control: socket.socket) -> Process:
    """Start a command behind a guardian, in a session of its own, without the input and the output of the protocol."""
    words = [sys.executable, "-I", "-S", str(GUARDIAN), str(control.fileno()), "", "", *command]
    with anyio.CancelScope(shield=True):  # else nobody would know of it
        process = await anyio.open_process(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=folder,
            start_new_session=True,
            pass_fds=(control.fileno(),),
        )
    control.close()
    return process


async def _stop(process: Process, ours: socket.socket) -> None:
    """End a child in good order if it still runs, and all that is left of it in any case."""
    if process.returncode is None:
        os.killpg(process.pid, signal.SIGINT)
        with anyio.move_on_after(STOP_S):
            await process.wait()
    ours.close()  # the guardian kills what is left
    await process.wait()
    await process.aclose()
