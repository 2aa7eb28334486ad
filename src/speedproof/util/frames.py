"""pandas as this package has it: imported by what makes frames, before it makes any."""

import warnings
from contextlib import suppress

import pandas as pd

# Names of columns and texts are Python's own, as up to pandas 2. As Arrow's, which pandas 3 takes, they make hundreds of small
# frames cost half as much again. Columns with many texts are categories here. pandas 4 will know of no such option.
with warnings.catch_warnings(), suppress(pd.errors.OptionError):
    warnings.simplefilter("ignore")
    pd.set_option("future.infer_string", False)
