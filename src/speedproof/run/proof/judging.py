"""Where the quality of a proof's runs comes from: a command of the user's own, or what programs report."""

import os
import shlex
from collections.abc import Callable
from pathlib import Path

from speedproof.config.evaluation import Evaluation
from speedproof.results.files import sha256_of
from speedproof.results.run_record import PROGRAMS
from speedproof.run.proof.left_files import Snapshot
from speedproof.run.proof.request import ProofRequest
from speedproof.run.proof.variant_labels import name_variants
from speedproof.util.secrets import scrub_command


def describe_evaluation(request: ProofRequest, command: str | None, snapshot: Snapshot, out: Path) -> Evaluation | None:
    """Return what judges each run, by the `command` that is resolved; its files are fixed by their checksums from here on."""
    if command is None:
        return None
    reference = name_variants(request)[0]  # whose own files judge both, so that a candidate cannot change its judge
    tree, linked = out / PROGRAMS / snapshot.name_tree(reference), snapshot.list_linked(reference, out / PROGRAMS)
    files = {}
    for word in shlex.split(command):
        top, _, rest = word.partition(os.sep)
        path = Path(linked[top], rest) if top in linked else tree / word
        if path.is_file():
            files[word] = sha256_of(path)
    return Evaluation(
        command=command,
        tree=f"{{workload}}/{snapshot.name_tree(reference)}",
        linked=linked,
        files=files,
        artifacts=request.artifacts,
        quality=request.quality,
        **({"limit_s": request.timeout_s} if request.timeout_s else {}),
    )


def tell_source(request: ProofRequest, evaluation: Evaluation | None, say: Callable[[str], None]) -> None:
    """Print where the quality comes from (a command with its pinned files, or the programs), and what judging it needs."""
    if evaluation is not None:
        fixed = [word for word in evaluation.files if word in (request.quality_command or "")]
        how = f"pinned by checksum: {', '.join(fixed)}" if fixed else "it names no file to pin by checksum"
        say(
            f"quality: by {scrub_command(request.quality_command or '')!r} after each timed run, not counted in its time; {how}"
        )
    elif request.quality or request.margin is not None:
        say("quality: as the programs report it; --quality-command measures it from the files that they leave")
    if request.margin is not None:
        say("quality: compared across seeds, one per round; every program must read its seed from SPEEDPROOF_SEED")
