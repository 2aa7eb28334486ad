"""`speedproof …` in which nsys has 25 seconds for an answer, so that a test of what hangs takes no minutes."""

from speedproof import cli
from speedproof.profilers import nsys

nsys._ANSWER_LIMIT_S = nsys._WORK_LIMIT_S = 25
cli.main()
