"""Whether the comparison is of what the rounds said: it is made of files, and these were written before the last run ended."""

from collections.abc import Mapping, Sequence

from speedproof.results.comparison import Comparison
from speedproof.stats.metrics import METRICS
from speedproof.util.errors import TamperedError

_LEAST_SHARE = 1e-6  # files hold nine digits


def check_rounds(comparison: Comparison, metric: str, said: Mapping[str, Sequence[float]]) -> None:
    """Check that each variant's values are those that its runs had when they ended; of variants without any nothing is known.

    `metric` is what the rounds are decided by; `said` holds times, or one over rates. The interval and the outcome follow from
    these, by the same functions in the rounds and in the comparison.

    Raises :class:`TamperedError` with the variant whose times differ.
    """
    for level in comparison.measured:
        own = sorted(said.get(level.variant, ()))
        if (level.metric, level.mode, level.target) != (metric, "timed", None) or not own:
            continue
        found = sorted(level.values if METRICS[metric].lower_is_better else [1 / value for value in level.values])
        if len(own) != len(found) or any(
            abs(one - other) > _LEAST_SHARE * max(one, other) for one, other in zip(own, found, strict=True)
        ):
            raise TamperedError(
                f"{level.title}: its runs' files hold other times than when the runs ended; remove the proof's folder, and "
                "measure again while nothing else writes there"
            )
