"""The command line: what people type, and the steps that the workflow's rules call."""

import os
import sys


def _forget_working_folder() -> None:
    """Look for modules no longer in the working folder, where `python -m` and PYTHONPATH may have Python look.

    A user's own `queue.py` there is none of ours; the programs that are measured find it as ever.
    """
    # By `os` alone: what else is imported here could be the user's.
    here = os.getcwd()  # noqa: PTH109
    package = os.path.realpath(__file__).rpartition(f"{os.sep}speedproof{os.sep}")[0]
    sys.path[:] = [path for path in sys.path if os.path.realpath(path) != here or here == package]


def main() -> None:
    """Run the command line."""
    _forget_working_folder()

    from speedproof.cli.application import app
    from speedproof.cli.exits import run_app

    run_app(app)
