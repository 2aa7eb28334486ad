"""speedproof: proves, or refutes, a documented training speedup on your GPU."""

__version__ = "0.1.0"
