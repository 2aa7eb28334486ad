"""`python -m speedproof_nnunet.published_command NAME …`: runs a command of the installed nnU-Net, as its script does.

It needs no folder on PATH.
"""

import sys
from importlib.metadata import entry_points


def run_published(name: str, *arguments: str) -> None:
    """Run a command of nnU-Net in this process; end the process if nnU-Net is not installed."""
    found = entry_points(group="console_scripts", name=name)
    if not found:
        sys.exit(f"{name}: {MISSING}")
    sys.argv = [name, *arguments]
    print("Command:", *sys.argv, flush=True)
    next(iter(found)).load()()


MISSING = "nnU-Net is not installed; run: pip install './workloads/accelerate[nnunet]'"

if __name__ == "__main__":
    run_published(*sys.argv[1:])
