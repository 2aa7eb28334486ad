"""A file that grows is looked at often, also while other programs use the machine."""

import time

from speedproof.run import watched_file
from speedproof.run.watched_file import watching_file


def test_a_look_that_other_programs_hold_up_does_not_delay_the_next_one(tmp_path, monkeypatch):
    look = watched_file._find_state

    def look_slowly(path):
        time.sleep(0.02)  # the core is another program's
        return look(path)

    monkeypatch.setattr(watched_file, "_find_state", look_slowly)
    path = tmp_path / "log.csv"
    path.touch()  # new files are looked for more rarely
    with watching_file(tmp_path, "*.csv") as watch:
        for _ in range(3):
            with path.open("a") as file:
                file.write("row\n")
            time.sleep(0.12)
    # Each row at a moment of its own, not all at the end.
    assert [size for _, size in watch.sizes[path]] == [4, 8, 12]
