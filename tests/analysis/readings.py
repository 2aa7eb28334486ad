"""What a summary says, in the units of the handmade traces: by name, in microseconds."""

from collections import Counter


def us(seconds):
    return round(seconds * 1e6, 6)


def phases_of(summary):
    return {(phase.name, phase.part): phase for phase in summary.phases}


def bubbles_of(summary):
    """Count, microseconds and coverage in percent of each cause and detail."""
    return {(b.cause, b.detail): (b.count, us(b.total_s), round(100 * b.coverage, 2)) for b in summary.bubbles}


def account_of(summary):
    sums = Counter()
    for share in summary.account:
        sums[share.part, share.kind, share.name] += share.total_ns / 1000
    return sums
