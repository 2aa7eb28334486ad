"""Work in a session that is someone else's, such as a notebook's: quiet, with errors of one kind, and pandas left as it was."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pandas as pd

from speedproof.util.errors import explain_os_error
from speedproof.util.progress_bar import without_progress

_TEXTS = "future.infer_string"  # which `util/frames.py` sets for the whole process; pandas 4 will have no such option


@contextmanager
def as_guest() -> Iterator[None]:
    """Print no progress, leave pandas' options as they are, and raise what the system refuses as a `SpeedproofError`."""
    before = _swap_texts(False)
    try:
        with without_progress():
            yield
    except OSError as error:
        raise explain_os_error(error) from error
    finally:
        _swap_texts(before)


def _swap_texts(value: bool | None) -> bool | None:
    """Set how pandas holds texts, and return how it did before; None means that this pandas offers no choice."""
    before: bool | None = None
    with warnings.catch_warnings(), suppress(pd.errors.OptionError):
        warnings.simplefilter("ignore")
        before = pd.get_option(_TEXTS)
        pd.set_option(_TEXTS, value)
    return before
