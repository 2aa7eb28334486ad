"""What one unit is in another."""

NS_PER_S, NS_PER_MS = 1e9, 1e6
# Bytes.
MIB, GIB = 2**20, 2**30
# How programs and people write units of time.
UNIT_WORDS = {
    "ns": "ns nsec nsecs nanosecond nanoseconds",
    "us": "us µs μs usec usecs microsecond microseconds",
    "ms": "ms msec msecs millisecond milliseconds",
    "s": "s sec secs second seconds",
    "min": "min mins minute minutes",
    "h": "h hr hrs hour hours",
}
