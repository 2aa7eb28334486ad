"""A workload's commands answered in the process of the tests: to start one of its own takes most of a second."""

import io
import subprocess
import sys
import traceback
from contextlib import AbstractContextManager, redirect_stderr, redirect_stdout
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from speedproof_spleen import cli


def answer_here() -> AbstractContextManager[Any]:
    """While it is entered, the instrument asks the spleen's command line in this process, and reads what it says as ever."""
    return patch("speedproof.config.workload.subprocess", SimpleNamespace(run=_run))


def _run(command: list[str], *, input: str, **options: Any) -> subprocess.CompletedProcess[str]:
    if command[1:4] != ["-P", "-m", "speedproof_spleen"]:
        return subprocess.run(command, input=input, **options)
    out, err, code = io.StringIO(), io.StringIO(), 0
    words, said = patch.object(sys, "argv", command[3:]), patch.object(sys, "stdin", io.StringIO(input))
    with words, said, redirect_stdout(out), redirect_stderr(err):
        try:
            cli.main()
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        except BaseException:  # with which a process would end, too
            traceback.print_exc()
            code = 1
    return subprocess.CompletedProcess(command, code, out.getvalue(), err.getvalue())
