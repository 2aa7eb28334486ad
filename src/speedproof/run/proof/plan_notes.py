"""Lines of a proof's plan about the work that is compared: what an epoch is, which ones count, and under what conditions."""

import re
from collections.abc import Sequence

from speedproof.config.reading import Reading
from speedproof.results.asked import Counted
from speedproof.results.summary import WARM_UP_NEEDS_EPOCHS
from speedproof.run.known_formats import KNOWN_FORMATS
from speedproof.util.numbers import format_count

COUNTED_TITLES: dict[Counted, str] = {"epoch": "epoch", "step": "step", "interval": "interval between lines"}
_BATCH_SIZE = re.compile(r"(?<!\S)(-{0,2}[\w.-]*(?:batch[-_]?size|\bbs)|-b)[= ]+(\d+)(?!\S)", re.IGNORECASE)
_ESCAPE = re.compile(r"\\.")  # as in `\sstep`
_STEP = re.compile(r"(?<![a-z])(?:step|iter(?:ation)?)s?(?![a-z])", re.IGNORECASE)
_PER_SECOND = re.compile(r"([a-z]+)\s*(?:/|[ _]per[ _])\s*s(?:ecs?|econds?)?(?![a-z])", re.IGNORECASE)
_SHORT_RATE = re.compile(r"(?<![a-z])[SFTQI]PS(?![a-z])", re.IGNORECASE)
_COMPILES = re.compile(r"compile|\bjax|numba|inductor|dynamo|triton|\bjit", re.IGNORECASE)


def find_counted(reading: Reading) -> Counted:
    """Return what an "epoch" of a reading is: an epoch, a step, or the interval between two lines of a known format.

    What a caller's own pattern finds is a step if the pattern has that word, else an epoch.
    """
    if reading.source != "lines":
        return "epoch"
    if reading.epoch and reading.epoch in {one.by_arrival().epoch for one in KNOWN_FORMATS}:
        return "interval"
    if reading.epoch_s and reading.epoch_s in {one.epoch_s for one in KNOWN_FORMATS if one.step}:
        return "step"
    words = _ESCAPE.sub(" ", reading.epoch or reading.epoch_s or "")
    return "step" if _STEP.search(words) and "epoch" not in words.lower() else "epoch"


def name_rate(reading: Reading) -> str | None:
    """Return what a rate is called, by the unit in its pattern; None if it is of samples or a known format's."""
    if not reading.rate or reading.rate in {one.rate for one in KNOWN_FORMATS}:
        return None
    words = _ESCAPE.sub(" ", reading.rate)
    if per := _PER_SECOND.search(words):
        return None if per[1].lower().startswith("sample") else f"{per[1]}/s"
    short = _SHORT_RATE.search(words)
    return short[0] if short else "rate"


def count_readings(number: int, reading: Reading) -> str:
    """Write how many epochs, steps, intervals or rates were read."""
    return format_count(number, "printed rate") if reading.rate else count_plural(number, find_counted(reading))


def count_plural(number: int, counted: Counted) -> str:
    """Write how many epochs, steps or intervals there are."""
    return format_count(number, counted) + (" between lines" if counted == "interval" else "")


def describe_stop_after(count: int, counted: Counted) -> str:
    """Return after what runs are ended, and whether the first, which may include start-up, is compared."""
    ended = f"ended early: each run ends after its first {count_plural(count, counted)}"
    if count < WARM_UP_NEEDS_EPOCHS:
        least = WARM_UP_NEEDS_EPOCHS + 1
        return f"{ended}; start-up in the first one is compared, too: --stop-after {least} leaves it out"
    return f"{ended}; the first one may include start-up and is not compared"


def describe_warm_caches(commands: Sequence[str], caches: str, kept: int) -> str | None:
    """Return that compiling is not timed, if a command compiles and its warm-up filled `kept` files of caches."""
    if caches != "warm" or not kept or not any(map(_COMPILES.search, commands)):
        return None
    return "caches: warm; the warm-up filled the compile caches, so runs compile less: --caches cold compares with cold ones"


def question_batch_sizes(commands: Sequence[str], counted: Counted) -> str | None:
    """Return that the commands name different batch sizes, so that a step of one is not the work of another's."""
    found = [{match[1].lstrip("-"): match[2] for match in _BATCH_SIZE.finditer(command)} for command in commands]
    names = sorted({name for own in found for name in own if len({one.get(name) for one in found}) > 1})
    if counted == "epoch" or not names:
        return None
    sizes = " against ".join(own.get(names[0], "the default") for own in found)
    unit = "the time between two lines" if counted == "interval" else f"a {COUNTED_TITLES[counted]}"
    return (
        f"condition: {names[0]} is {sizes}, so {unit} is different work; "
        "--rate compares samples per second, --metric process_s whole processes"
    )
