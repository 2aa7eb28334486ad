"""Makes what tests of several parts share known to those of the instrument and of each workload."""

pytest_plugins = ["tests.support"]
