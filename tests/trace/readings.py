"""What a summary says, in the units of the handmade traces: by name, in microseconds; and what differs between two."""

import hashlib
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


_ANALYZED = {}  # of the traces that many tests compare with others: by their files' content, and the choice of the loop


def analyze_once(folder, choice):
    content = hashlib.sha256(b"".join(path.name.encode() + path.read_bytes() for path in sorted(folder.iterdir()))).digest()
    key = content, repr(choice)
    if key not in _ANALYZED:
        _ANALYZED[key] = analyze_chosen(folder, choice)
    return _ANALYZED[key].model_copy(deep=True)


def compare_traces(a, b, samples=None):
    summaries, _ = analyze_pair(a, b, analyze_once)
    return compare_summaries(*summaries, (str(a), str(b)), samples)
