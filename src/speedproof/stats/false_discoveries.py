"""How much error each try of a campaign may spend, so that few of the changes that it keeps are false.

Try t is kept if a one-sided test at level ERROR · max(1, kept before) / tries rejects "not faster". This is LORD++ (A. Ramdas,
F. Yang, M. J. Wainwright, M. I. Jordan, Advances in Neural Information Processing Systems 30 (2017)) with its whole initial
wealth and equal weights over the planned tries. If the tries are independent, at most ERROR of the kept changes are false in
expectation. If no change helps, the chance to keep any is at most ERROR, by Bonferroni's inequality.
"""

import math


def count_comparisons(tries: int, kept: int) -> int:
    """Return by how many comparisons the next try's two-sided interval shares its error, after so many of the tries were kept.

    Half of an interval's error lies below it: 1 / (2 · comparisons) of ERROR is what one try may spend.
    """
    return max(1, math.ceil(tries / (2 * max(1, kept))))
