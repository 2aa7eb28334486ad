"""The ledger: documented speedups of other projects, a file each, measured by `speedproof prove`."""
