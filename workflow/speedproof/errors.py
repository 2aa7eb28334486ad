"""What goes wrong for a user: one line that says what, where and what to do, and an exit code that means something."""


class SpeedproofError(Exception):
    """A user's problem. Its text is one line: what is wrong, where, and what to do about it."""

    exit_code = 1

    def __init__(self, text: object = "") -> None:
        """Take the line. What a terminal would obey, or cannot print, in a name from outside, is shown as its code."""
        super().__init__(show_plainly(str(text)))


def show_plainly(text: str) -> str:
    """Return `text` as one printable line: line breaks, escape codes and bytes that are no text as Python writes them."""
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)


class ConfigError(SpeedproofError):
    """The configuration does not say what to do: an unknown key, a wrong type, an unknown name."""

    exit_code = 2


class DataError(SpeedproofError):
    """A dataset that cannot be fetched, read or trusted."""

    exit_code = 3


class ProfilingError(SpeedproofError):
    """A profiler that is missing, failed, or recorded nothing."""

    exit_code = 4


class LostTraceError(ProfilingError):
    """A profiler that works, but lost what this run did: no reason why it should again."""


class BusyError(SpeedproofError):
    """Another block works in the same folder, or measures on the same device."""

    exit_code = 7


class TrainingError(SpeedproofError):
    """A training process that did not end well: not a number, out of memory, a stop signal, a dead worker."""

    exit_code = 5


class RecordError(SpeedproofError):
    """A run record, block or trace that is missing, half written, or of a schema this version cannot read."""

    exit_code = 6
