"""Work that processes share is done once each, and ends with whoever asked for it."""

import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import psutil
import pytest

from speedproof_common.pool import do_each

ASLEEP = """
import sys, time
from speedproof_common.pool import do_each
if __name__ == "__main__":
    do_each(time.sleep, [100.0] * 4, 2)
"""


@pytest.mark.parametrize("workers", [1, 2])
def test_each_item_is_done(tmp_path, workers):
    do_each(partial(Path.mkdir), [tmp_path / str(number) for number in range(5)], workers, chunk=2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0", "1", "2", "3", "4"]


def test_what_works_for_a_killed_process_ends_with_it(tmp_path):
    (tmp_path / "asleep.py").write_text(ASLEEP)
    with subprocess.Popen([sys.executable, str(tmp_path / "asleep.py")], env={"PYTHONPATH": ":".join(sys.path)}) as parent:
        deadline = time.monotonic() + 60
        while len(workers := psutil.Process(parent.pid).children(recursive=True)) < 4:  # with the server and the tracker
            assert time.monotonic() < deadline
            time.sleep(0.05)
        parent.kill()
    _, alive = psutil.wait_procs(workers, timeout=20)
    for process in alive:
        process.kill()
    assert not alive
