"""Experiments: planned, run in rounds, resumed, closed, rebuilt and kept. One run: started, isolated, observed, read."""
