"""Columns of names as categories: text is looked at once for each distinct name, not once for each event."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import speedproof.util.frames  # noqa: F401 (how pandas holds texts)

Names: TypeAlias = "pd.Categorical[str]"


def make_names(codes: NDArray[np.integer], names: Iterable[str]) -> Names:
    """Return the column whose row i is the name number `codes[i]`, missing where that is -1; names must differ."""
    categories: pd.Index[str] = pd.Index([str(name) for name in names], dtype=str)
    return pd.Categorical.from_codes(codes, categories)


def join_names(columns: Sequence[Names]) -> Names:
    """Return the columns below one another; a name that several have becomes one."""
    known = {name: code for code, name in enumerate(dict.fromkeys(str(name) for c in columns for name in c.categories))}
    codes = [np.array([*map(known.get, column.categories), -1], np.int32)[column.codes] for column in columns]
    return make_names(np.concatenate(codes), known)


def rename(events: pd.DataFrame, new_name: Callable[[str], str]) -> pd.DataFrame:
    """Return the events under new names; different old names may get the same new one."""
    names = events["name"].array
    renamed = [new_name(str(name)) for name in names.categories]
    codes, distinct = pd.factorize(np.array(renamed, object))
    return events.assign(name=make_names(np.append(codes, -1)[names.codes], distinct))


def with_names(events: pd.DataFrame, wanted: Callable[[str], object]) -> pd.DataFrame:
    names = events["name"].array
    return events[np.array([*map(bool, map(wanted, names.categories)), False])[names.codes]]
