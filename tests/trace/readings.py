"""What a summary says, in the units of the handmade traces: by name, in microseconds; and what differs between two."""

from collections import Counter

from speedproof.trace.diff import analyze_pair, compare_summaries
from speedproof.trace.summarize import analyze_chosen


def us(seconds):
    return round(seconds * 1e6, 6)


def phases_of(summary):
    return {(phase.name, phase.part): phase for phase in summary.phases}


def idle_gaps_of(summary):
    """In how many stretches, and for how many microseconds, each cause and detail was at work."""
    return {(b.cause, b.detail): (b.count, us(b.total_s)) for b in summary.idle_gaps}


def account_of(summary):
    sums = Counter()
    for share in summary.account:
        sums[share.part, share.kind, share.name] += share.total_ns / 1000
    return sums


def compare_traces(a, b, samples=None):
    summaries, _ = analyze_pair(a, b, analyze_chosen)
    return compare_summaries(*summaries, (str(a), str(b)), samples)
