"""Makes known to all tests: what those of several parts share, and the modules of each workload."""

import sys
from pathlib import Path

sys.path[:0] = [str(path.parent) for path in sorted(Path(__file__).parent.glob("workloads/*/pyproject.toml"))]

pytest_plugins = ["tests.support", "tests.limits"]
