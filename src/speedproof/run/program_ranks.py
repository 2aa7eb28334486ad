"""A variant on several GPUs: torchrun starts a process of ours for each rank. How its programs ended these agree on."""

import time
from collections.abc import Mapping
from pathlib import Path

from speedproof.config.model import Variant
from speedproof.results.files import write_json
from speedproof.results.ranks import ENDING_FILE, Ending, find_first_failure, rank_folder
from speedproof.results.run_record import LOG_FILE, RunOutcome
from speedproof.util.signals import StoppedError, raising_when_stopped

_PAUSE_S = 0.05


def own_rank(variant: Variant, environ: Mapping[str, str]) -> int:
    """Return which of a variant's ranks this process is, as torchrun says; 0 where there is only one."""
    return int(environ["RANK"]) if variant.ranks > 1 else 0


def agree_on_ending(folder: Path, ranks: int, rank: int, outcome: RunOutcome, reason: str) -> tuple[RunOutcome, str]:
    """Write how this rank ended, and return how the run did: as the first rank that failed, since the others lost a partner.

    Rank 0 awaits the others, or a run would be called whole while one of them fails.
    """
    own = Ending(rank=rank, outcome=outcome, reason=reason, ended_s=time.time())
    write_json(rank_folder(folder, rank) / ENDING_FILE, own)
    if rank == 0 and outcome == "completed":
        try:
            with raising_when_stopped():  # torchrun stops those that are left when one ends badly
                while any(not (rank_folder(folder, other) / ENDING_FILE).exists() for other in range(ranks)):
                    time.sleep(_PAUSE_S)
        except StoppedError as error:
            outcome, reason = "failed", f"received {error} while it awaited the other ranks' end"
    first = find_first_failure(folder)
    if first is None:
        return outcome, reason
    log = f"{rank_folder(Path(), first.rank)}/{LOG_FILE}"
    return first.outcome, first.reason if first.rank == rank else f"rank {first.rank}: {first.reason} ({log})"
