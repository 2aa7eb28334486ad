"""Plans runs of Snakemake, each in a fork of this process: to import Snakemake and its plugins takes longer than to plan a run.

Takes, as JSON, the file to edit for each run, or "", and the run's arguments. Prints a line before each plan.
"""

import json
import os
import sys
from pathlib import Path

from snakemake import cli
from snakemake_interface_executor_plugins.registry import ExecutorPluginRegistry


def plan(arguments: list[str]) -> None:
    """Plan a run in a fork of this process."""
    child = os.fork()
    if child == 0:
        sys.argv = ["snakemake", *arguments]
        cli.main()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


ExecutorPluginRegistry()  # imports the plugins
for edited, arguments in json.loads(sys.argv[1]):
    print("planned by the planning program:", flush=True)
    before = Path(edited).read_text() if edited else ""
    if edited:
        Path(edited).write_text(before + "\n# edited\n")
    plan(arguments)
    if edited:
        Path(edited).write_text(before)
