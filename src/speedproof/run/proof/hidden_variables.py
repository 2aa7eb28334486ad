"""Which of the caller's variables a program does not see: those that a failed one mentions, and those that its job lacks."""

import os
from pathlib import Path

from speedproof.config.model import Variant
from speedproof.run.process import read_end
from speedproof.run.program_variables import list_dropped, list_secrets
from speedproof.run.proof.request import ProofRequest


def name_hidden(log_file: Path, request: ProofRequest) -> str:
    """Return which hidden variables a failed program mentions, and the option that shows them."""
    said = read_end(log_file)
    secrets = [name for name in list_secrets(os.environ, request.passed, request.dropped) if name in said]
    if secrets:
        return f"; it does not see your {', '.join(secrets)} (--pass {secrets[0]} shows it)"
    dropped = [name for name in list_dropped(os.environ, request.dropped) if len(name) > 3 and name in said]
    return f"; it does not see your {', '.join(dropped)}, which --drop hides" if dropped else ""


def name_missing(variant: Variant) -> list[str]:
    """Return which of the caller's variables are missing: a cluster may start jobs without them."""
    missing = [name for name in variant.settings.get("variables", []) if name not in os.environ]
    more = f" and {len(missing) - 8} more" if len(missing) > 8 else ""
    return [f"its job lacks your {', '.join(missing[:8])}{more} (sbatch passes variables with --export=ALL)"] if missing else []
