"""Which source of epochs the variants of a proof are read from, by what their warm-ups left if the request names none."""

from collections.abc import Mapping

from speedproof.config.reading import Reading
from speedproof.results.run_record import EPOCHS_FILE
from speedproof.run.epoch_reports import Marks
from speedproof.run.known_formats import Recognized, recognize_steps
from speedproof.run.proof.plausible_times import check_plausible
from speedproof.run.proof.request import ProofRequest
from speedproof.run.proof.variant_labels import call_variants
from speedproof.run.read_lines import read_lines
from speedproof.run.watched_program import Watched, cut_to_limit
from speedproof.stats.metrics import METRICS
from speedproof.util.errors import RecordError, TrainingError


def needs_recognizing(request: ProofRequest) -> bool:
    """Return whether the lines of known programs are looked for: no source is named, and no metric that needs no epochs."""
    of_process = request.metric is not None and EPOCHS_FILE not in METRICS[request.metric].files
    return request.named_reading() is None and not of_process


def choose_reading(request: ProofRequest, seen: Mapping[str, tuple[Watched, bool]]) -> tuple[Reading, str | None]:
    """Return how all variants are read, by what was seen of each and whether it marked epochs, and whose lines those are.

    Raises:
        TrainingError: they print the lines of different programs.
    """
    if (named := request.named_reading()) is not None:
        return named, None
    if all(marked for _, marked in seen.values()):
        return request.reading("marks"), None
    found = {name: _recognize(one, request) for name, (one, _) in seen.items()} if needs_recognizing(request) else {}
    known = {name: one for name, one in found.items() if one is not None}
    if not known or len(known) < len(seen):
        return request.reading("process"), None
    formats = {one.format for one in known.values()}
    if len(formats) > 1:  # one prints each step, another some
        formats = {one.by_arrival() for one in formats}
    if len(formats) > 1:
        called = call_variants(request)
        shown = ", ".join(f"{called[name]} those of {one.format.name} (`{one.sample}`)" for name, one in known.items())
        raise TrainingError(
            f"the commands print lines of different programs, whose epochs may be other work: {shown}; name what is read "
            "(--epoch-s, --rate), or compare whole processes (--metric process_s)"
        )
    first, chosen = next(iter(known.values())), formats.pop()
    if chosen.file:
        return chosen.reading, f"{chosen.name}, `{first.sample}`"
    reading = chosen.reading.model_copy(update={"quality": request.reading("process").quality})
    timed = "intervals between " if chosen.step and chosen.epoch else ""
    why = ", which print the times of a few steps only" if timed else ""
    return reading, f"{timed}lines of {chosen.name}, such as `{first.sample}`{why}"


def read_recognized(seen: Watched, reading: Reading) -> Marks:
    """Return the epochs of a program by what was recognized of it: its file is gone by now."""
    if reading.source == "file" and seen.known_file is not None:
        return seen.known_file.marks
    return read_lines(seen.reports.lines, reading)


def _recognize(seen: Watched, request: ProofRequest) -> Recognized | None:
    """Return whose lines a program printed, if the times in them can be, else whose file it wrote if no line has a quality."""
    found = recognize_steps(seen.reports.lines) or (None if request.reading("process").quality else seen.known_file)
    if found is None:
        return None
    seen, marks = cut_to_limit(seen, found.marks, request.stop.epochs)
    try:
        check_plausible(marks, seen.process_s, request, cumulative=found.format.cumulative)
    except RecordError:
        return None
    return found
