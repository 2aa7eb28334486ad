"""The lines and files by which known programs report their progress, so that their epochs are read without a pattern."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from statistics import median

from speedproof.config.reading import Reading, TimeUnit
from speedproof.run.epoch_reports import Marks, cut_epochs
from speedproof.run.printed_output import Line
from speedproof.run.read_files import read_file
from speedproof.run.read_lines import read_lines
from speedproof.run.watched_file import FileWatch
from speedproof.util.errors import RecordError


@dataclass(frozen=True)
class KnownFormat:
    """Lines of a program that stand for its epochs, or steps, and the unit of the times in them; or a file that it writes."""

    name: str  # who prints them
    epoch: str | None = None
    epoch_s: str | None = None
    rate: str | None = None
    unit: TimeUnit | None = None  # None of a time that is printed with its unit, or of no time
    cumulative: bool = False
    beside: str | None = None  # a line that it also prints, and others with the same lines do not
    file: str | None = None  # whose rows name their epoch
    step: bool = False  # whether a time is one step's, of which the program may print one in ten
    reading: Reading = field(init=False)

    def __post_init__(self) -> None:
        asked = {"epoch": self.epoch, "epoch_s": self.epoch_s, "rate": self.rate, "unit": self.unit}
        source = "file" if self.file else "lines"
        reading = Reading.model_validate({"source": source, **asked, "cumulative": self.cumulative, "file": self.file})
        object.__setattr__(self, "reading", reading)

    @property
    def patterns(self) -> list[str]:
        return [*self.reading.patterns, *([self.beside] if self.beside else [])]

    def by_arrival(self) -> "KnownFormat":
        """Return the format as it is read if our clock times its lines, whatever times are in them."""
        return replace(self, epoch=self.epoch_s, epoch_s=None, unit=None) if self.step and self.epoch_s else self


_RANK = r"^(?:\[?(?:default|rank)?\d+\]?: ?)?"  # as torchrun and srun put before a line
_STAMP = r"^\[?\d[\d/: .,-]*\]?"

KNOWN_FORMATS: tuple[KnownFormat, ...] = (
    KnownFormat("nanoGPT", epoch_s=_RANK + r"iter \d+: loss \S+, time (\d+\.\d+)ms", unit="ms", step=True),
    KnownFormat(
        "modded-nanogpt",
        epoch_s=_RANK + r"step:\d+/\d+ (?:train_loss:\S+ )?train_time:(\d+)ms step_avg:",
        unit="ms",
        cumulative=True,
    ),
    KnownFormat("llm.c", epoch_s=r"^step +\d+/\d+ \| (?:train )?loss .* \| \(?(\d+\.\d+) ms \|", unit="ms", step=True),
    KnownFormat("llm.c on a CPU", epoch_s=r"^step \d+: train loss \S+ \(took (\d+\.\d+) ms\)", unit="ms", step=True),
    KnownFormat(
        "Megatron-LM",
        epoch_s=r"\biteration +\d+/ *\d+ \|.* elapsed time per iteration \(ms\): (\d+\.\d+)",
        unit="ms",
        step=True,
    ),
    KnownFormat("nnU-Net", epoch_s=_STAMP + r": Epoch time: (\d+(?:\.\d+)?) s", unit="s"),
    KnownFormat("Hugging Face's Trainer", rate=r"^\{.*'train_samples_per_second': '?(\d+(?:\.\d+)?)'?[,}]"),
    KnownFormat("timm", epoch_s=r"\bTrain: \d+ \[ *\d+/\d+ .*\bTime: (\d+\.\d+)s, +[\d.]+/s +\(", unit="s", step=True),
    KnownFormat("OpenMMLab", epoch_s=r" - mmengine - INFO - (?:Epoch|Iter)\(train\) .*  time: (\d+\.\d+)", unit="s", step=True),
    KnownFormat("detectron2", epoch_s=r"\bd2\.utils\.events\]: .* iter: \d+ .*  time: (\d+\.\d+)", unit="s", step=True),
    KnownFormat("torchvision's references", epoch_s=r"^Epoch: \[\d+\] Total time: (\d+:\d\d:\d\d) \("),
    KnownFormat(
        "pytorch/examples, ImageNet", epoch_s=r"^Epoch: \[\d+\]\[ *\d+/\d+\]\s+Time +(\d+\.\d+) \(", unit="s", step=True
    ),
    KnownFormat("MLPerf", epoch=r":::MLLOG \{.*\"key\": \"(?:epoch|block)_stop\""),
    KnownFormat("Keras", epoch=r"^Epoch \d+/\d+\s*$", beside=r"^\s*\d+/\d+ .*/(?:step|epoch)\b"),
    KnownFormat("Lightning's bar", epoch=r"^Epoch \d+(?=: +\d+%\|)"),
    KnownFormat(
        "LightGBM",
        epoch_s=r"^\[LightGBM\] \[Info\] (\d+\.\d+) seconds elapsed, finished iteration \d+",
        unit="s",
        cumulative=True,
    ),
    KnownFormat("LightGBM", epoch=r"^\[\d+\]\s+\S+'s \S+: "),
    KnownFormat("XGBoost", epoch=r"^\[\d+\]\s+\S+-[\w@-]+:"),
)
KNOWN_FILE = KnownFormat("Lightning's CSV", file="lightning_logs/version_*/metrics.csv")
PATTERNS = [pattern for one in KNOWN_FORMATS for pattern in one.patterns]
_SHOWN = 70
_SPARSE = 0.75  # of the time between two lines is what those print at most if they leave steps out
_LEAST_S = 0.05  # between rows: of faster epochs, a later run's rows might come together


@dataclass(frozen=True)
class Recognized:
    """Which known program prints such lines as were found, the first of them or its file, and the epochs in them."""

    format: KnownFormat
    sample: str
    marks: Marks


def recognize_steps(lines: Sequence[Line]) -> Recognized | None:
    """Recognize lines; if they print the times of a few steps only, the intervals between them are the epochs."""
    found = recognize(lines)
    if found is None or not found.format.step or not _leaves_steps_out(found.marks):
        return found
    by_arrival = found.format.by_arrival()
    try:
        return Recognized(by_arrival, found.sample, read_lines(lines, by_arrival.reading))
    except RecordError:
        return found


def _leaves_steps_out(marks: Marks) -> bool:
    """Return whether most printed times are much shorter than the time since the line before."""
    seen = [(one.end_seen_s, after.end_seen_s, after.train_s) for one, after in pairwise(marks.epochs)]
    shares = [own_s / (after - before) for before, after, own_s in seen if before and after and after > before]
    return bool(shares) and median(shares) < _SPARSE


def recognize(lines: Sequence[Line]) -> Recognized | None:
    """Return the first known format in which lines report epochs; None if there is none."""
    for one in KNOWN_FORMATS:
        first = next((line.text for line in lines if re.search(one.reading.patterns[0], line.text)), None)
        if first is None or (one.beside and not any(re.search(one.beside, line.text) for line in lines)):
            continue
        try:
            marks = read_lines(lines, one.reading)
        except RecordError:
            continue
        text = " ".join(first.split())
        return Recognized(one, text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…", marks)
    return None


def recognize_file(place: Path, watch: FileWatch | None, stopped: bool) -> Recognized | None:
    """Return the epochs in the known file that a program wrote below `place`; None if there is none, or no epochs are seen.

    If the program was `stopped`, the last one may not be whole.
    """
    if watch is None or watch.pattern != KNOWN_FILE.file:
        return None
    try:
        marks, sample = read_file(place, KNOWN_FILE.reading, watch), watch.find_written().relative_to(place).as_posix()
    except RecordError:
        return None
    if stopped:
        marks = cut_epochs(marks, len(marks.epochs) - 1)
    if not marks.epochs or min(epoch.train_s for epoch in marks.epochs) < _LEAST_S:
        return None
    return Recognized(KNOWN_FILE, sample, replace(marks, unseen="file"))
