"""Where the time of a trace went, and what differs between traces.

In all modules `trace` is its events, `loop` the loop found in them, `activity` what `attribute_activity` returns, `idle_gaps`
what `find_idle_gaps` returns, and `epochs` are the iterations that count, one behind the other.
"""
