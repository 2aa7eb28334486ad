"""Profilers: how a run is traced, and how what they record becomes one trace."""
