"""A variant's discarded run under torch's counter: how much an epoch computes."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from speedproof.config.model import Config
from speedproof.config.reading import Reading
from speedproof.config.workload import Workload
from speedproof.results.observations import CountedFlop
from speedproof.run.caches import compile_cache
from speedproof.run.command_words import program_command
from speedproof.run.flop_counts import count_epochs
from speedproof.run.process import last_words, list_allowed
from speedproof.run.proof.request import ProofRequest
from speedproof.run.proof.variant_labels import call_variants
from speedproof.run.read_progress import read_progress
from speedproof.run.run_experiment import list_variables
from speedproof.run.watched_program import Task, cut_to_limit, watch_program
from speedproof.run.working_folder import working_folder
from speedproof.util.child_processes import StoppedError
from speedproof.util.errors import RecordError, TrainingError
from speedproof.util.numbers import format_large
from speedproof.util.temporary_folder import removable_folder


@dataclass(frozen=True)
class FlopWarmUp:
    """How FLOP are counted: in one more run, read as the timed ones are."""

    config: Config
    workload: Workload
    request: ProofRequest
    reading: Reading
    folder: Path  # for what programs print
    stop_after: int

    def count(self, name: str, begin: Callable[[str], None]) -> CountedFlop:
        """Return what a variant computes.

        Raises:
            TrainingError: it fails under the counter.
        """
        begin(f"warm-up: counting the FLOP of {call_variants(self.request)[name]}")
        variant, log_file = self.config.completed_variants[name], self.folder / f"{name}-flop.txt"
        with removable_folder() as run, working_folder(self.workload, variant) as place, compile_cache(variant) as cache:
            task = Task(
                *(self.config, self.workload, variant.model_copy(update={"reads": self.reading})),
                command=program_command(self.workload, variant, None, place),
                seed=self.config.measurement.seed,
                taking_ranges=self.request.epoch_range is not None,
                counting_flop=True,
                stop_after=self.stop_after,
            )
            environ = list_allowed(list_variables(self.workload, variant, timed=True) | cache)
            with log_file.open("wb") as output:
                seen = watch_program(task, run, place, output.fileno(), environ)
            if seen.end.outcome == "stopped":
                raise KeyboardInterrupt
            try:
                if not seen.end.completed:
                    raise RecordError(seen.end.reason)
                seen, marks = cut_to_limit(seen, read_progress(seen.reports, self.reading), self.stop_after or None)
            except StoppedError:
                raise KeyboardInterrupt from None
            except RecordError as error:
                why = "; ".join(filter(None, [str(error), last_words(log_file)]))
                raise TrainingError(
                    f"{variant.title}: fails while its FLOP are counted: {why}; leave --flops out; full output: {log_file}"
                ) from None
        return count_epochs(seen.flop, marks, seen.life)


def describe_counted(counted: CountedFlop | None) -> list[str]:
    """Return how much was counted, if it was, and if no peak can be known, that."""
    if counted is None:
        return []
    if not counted.total:
        return ["no FLOP counted: it does not compute with torch 2.2 or later, or only in kernels of its own"]
    unit = "per epoch" if counted.of == "epoch" else "in the whole process"
    peak = "" if counted.device == "cuda" else ", on a CPU, of which no peak is known"
    return [f"{format_large(counted.total, 'FLOP')} {unit}{peak}"]
