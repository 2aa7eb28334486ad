"""What one unit is in another."""

NS_PER_S, NS_PER_MS = 1e9, 1e6
# Bytes.
MIB, GIB = 2**20, 2**30
