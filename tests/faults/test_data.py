"""Faults of downloads and of volumes: slow, cut and wrong ones, full and read-only disks, two at once."""

import gzip
import json
import shutil
import signal
import sys
import tarfile
import threading
import zlib
from contextlib import suppress
from pathlib import Path

import pytest

from tests.faults.judge import judge_end, judge_kept, judge_refused_again, judge_rerun, judge_result
from tests.faults.place import Place, assert_none_lives_on, mounted
from tests.results.publisher import Publisher

pytestmark = pytest.mark.faults
FETCH = Path(__file__).with_name("fetch.py")


@pytest.fixture(scope="module")
def archive(prepared, tmp_path_factory):
    """The volumes of the phantom as a publisher would pack them."""
    file = tmp_path_factory.mktemp("archive") / "spleen.tar"
    with tarfile.open(file, "w") as tar:
        for part in ("imagesTr", "labelsTr"):
            tar.add(prepared / "data/phantom-tiny-0" / part, f"Task09_Spleen/{part}")
    return file.read_bytes()


@pytest.fixture
def server(archive):
    with Publisher() as publisher:
        publisher.content = archive
        thread = threading.Thread(target=publisher.serve_forever)
        thread.start()
        yield publisher
        publisher.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def fetched(tmp_path_factory, archive):
    """What an undisturbed download ends in."""
    with Publisher() as publisher:
        publisher.content = archive
        thread = threading.Thread(target=publisher.serve_forever)
        thread.start()
        here = Fetching(tmp_path_factory.mktemp("fetched"))
        here.ask(publisher)
        ended = here.run("data")
        publisher.shutdown()
        thread.join()
    shutil.rmtree(here.temporary)
    assert ended.status == 0, ended.said
    return here.folder


class Fetching(Place):
    """A working folder whose data comes from a server of the test's."""

    def ask(self, server, **entry):
        self.configure(data={"source": "msd", "folder": "data"})
        self.variables["PUBLISHED"] = server.entry(**entry).model_dump_json()

    @property
    def dataset(self):
        return self.results / "data/msd/dataset.json"

    def words(self, step, *options):
        words = super().words(step, *options)
        return [sys.executable, str(FETCH), *words[3:]] if step == "data" else words


@pytest.fixture
def fetching(tmp_path, server):
    folder = tmp_path / "work"
    folder.mkdir()
    here = Fetching(folder)
    here.ask(server)
    yield here
    shutil.rmtree(here.temporary)


def test_a_download_that_breaks_again_and_again(row, fetching, server, fetched, archive):
    one, before = row("data, download", "cut, each time it is tried"), fetching.snapshot()
    server.breaks_after = [len(archive) // 3, 0, 0, 0, 0]
    judge_end(one, fetching.run("data"))
    judge_kept(one, fetching, before)
    judge_rerun(one, fetching, ["data"], fetched)
    assert "Range" in server.asked[-1]


def test_a_download_of_other_bytes(row, fetching, server, fetched, archive):
    one, before = row("data, download", "wrong bytes of the right length"), fetching.snapshot()
    server.entry()  # what is right was told before
    server.content = archive[:-1000] + bytes(1000 - 1) + b"x"
    judge_end(one, fetching.run("data"))
    judge_kept(one, fetching, before)
    server.content = archive
    judge_rerun(one, fetching, ["data"], fetched)


def test_a_page_in_place_of_the_archive(row, fetching, server, fetched, archive):
    one, before = row("data, download", "a page of text in its place"), fetching.snapshot()
    server.content = b"<html>Please sign in</html>"
    judge_end(one, fetching.run("data"))
    judge_kept(one, fetching, before)
    server.content = archive
    judge_rerun(one, fetching, ["data"], fetched)


def test_a_server_that_refuses(row, fetching, server, fetched):
    one, before = row("data, download", "the server answers 403"), fetching.snapshot()
    server.failures = [403]
    judge_end(one, fetching.run("data"))
    judge_kept(one, fetching, before)
    judge_rerun(one, fetching, ["data"], fetched)


def test_no_server(row, fetching, fetched, archive):
    """The address answers nothing at all."""
    one, before = row("data, download", "no network"), fetching.snapshot()
    right = fetching.variables["PUBLISHED"]
    entry = json.loads(right)
    fetching.variables["PUBLISHED"] = json.dumps(entry | {"url": "http://127.0.0.1:9/set/spleen.tar"})
    judge_end(one, fetching.run("data"))
    judge_kept(one, fetching, before)
    fetching.variables["PUBLISHED"] = right
    judge_rerun(one, fetching, ["data"], fetched)


def test_killed_in_a_slow_download(row, fetching, server, fetched):
    one, before = row("data, download", "slow, and KILL in its midst"), fetching.snapshot()
    server.pause_s = 0.5
    running = fetching.start("data")
    running.wait_for(lambda: any(path.stat().st_size for path in fetching.folder.glob("data/*.part")))
    judge_end(one, running.kill(signal.SIGKILL), may_be_silent=True)
    judge_kept(one, fetching, before)
    server.pause_s = 0
    judge_rerun(one, fetching, ["data"], fetched)
    assert "Range" in server.asked[-1]


@pytest.mark.parametrize("damage", ["cut to two thirds", "a flipped bit"])
def test_an_archive_that_was_damaged_on_the_disk(row, fetching, fetched, damage):
    """The archive stays beside what was unpacked of it; where that is gone it is unpacked again."""
    one = row("data, archive", damage)
    ended = fetching.run("data")
    assert ended.status == 0, ended.said
    file = next(fetching.folder.glob("data/*.tar"))
    (fetching.folder / "data/Spleen").rename(fetching.folder / "moved")
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 16
    file.write_bytes(content if damage == "a flipped bit" else content[: len(content) * 2 // 3])
    (fetching.results / "data/msd/dataset.json").unlink()
    before = fetching.snapshot()
    before.pop("data/spleen.tar")
    judge_end(one, fetching.run("data"))
    judge_kept(one, fetching, before)
    judge_rerun(one, fetching, ["data"], fetched)


def test_two_downloads_at_once(row, fetching, server, fetched):
    one = row("data, download", "two at once")
    server.pause_s = 0.01
    both = [fetching.start("data"), fetching.start("data")]
    ends = [running.wait() for running in both]
    one.tries, one.status = 2, " and ".join(ended.describe_status() for ended in ends)
    one.said = "; ".join(line for ended in ends for line in ended.said.splitlines() if "another process" in line) or "nothing"
    one.said = one.said.replace(str(fetching.folder), "…")
    one.kept = f"{len(fetching.snapshot())} files, each once"
    assert [ended.status for ended in ends] == [0, 0], ends
    assert len(server.asked) == 1
    judge_result(one, fetching, fetched, "both end in the undisturbed result")


def test_a_lock_that_a_dead_process_left(row, place, prepared):
    one, here = row("data", "the lock of a process that was killed"), place()
    here.configure()
    running = here.start("data")
    running.wait_for(lambda: "2 of 8" in running.said())
    ended = running.kill(9)
    judge_end(one, ended, may_be_silent=True)
    assert_none_lives_on(here.mark)
    assert list(here.folder.glob("data/.*.lock")), "this row is of a lock"
    judge_kept(one, here, {name: digest for name, digest in here.snapshot().items() if name == "results/config.json"})
    judge_rerun(one, here, ["data"], prepared)


def fill(folder):
    """Write until a disk has no room."""
    with suppress(OSError), (folder / "filler").open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))


@pytest.mark.parametrize("when", ["before", "within"])
def test_a_disk_that_is_full(row, place, prepared, needs_mount, when):
    here = place()
    here.configure()
    one = row("data", f"the disk is full {when}")
    with mounted(here.folder / "data", "64k" if when == "before" else "3m") as mount_anew:
        before = here.snapshot()
        running = here.start("data")
        if when == "within":
            running.wait_for(lambda: "1 of 8" in running.said())
            fill(here.folder / "data")
        judge_end(one, running.wait())
        (here.folder / "data/filler").unlink(missing_ok=True)
        judge_kept(one, here, before)
        mount_anew("size=64m")
        judge_rerun(one, here, ["data"], prepared)


def test_a_disk_that_is_read_only(row, place, prepared, needs_mount):
    here = place()
    here.configure()
    one = row("data", "the disk is read-only")
    with mounted(here.folder / "data", "64m") as mount_anew:
        before = here.snapshot()
        mount_anew("ro")
        judge_end(one, here.run("data"))
        judge_kept(one, here, before)
        mount_anew("rw")
        judge_rerun(one, here, ["data"], prepared)


@pytest.mark.parametrize("part", ["imagesTr", "labelsTr"])
def test_volumes_that_were_damaged(row, place, prepared, part):
    """A bit flipped at each tenth of a volume, one after the other, and a volume cut: the data is made again, or refused."""
    one = row("data, a volume", f"flipped bits, cut ({part})")
    here = place(prepared)
    file = sorted((here.folder / "data/phantom-tiny-0" / part).glob("*.nii.gz"))[3]
    whole = file.read_bytes()
    damages = [whole[: len(whole) * 2 // 3], *(flip(whole, len(whole) * tenth // 10) for tenth in range(10))]
    for damaged in damages:
        (here.results / "data/phantom/dataset.json").unlink(missing_ok=True)
        file.write_bytes(damaged)
        before = {name: digest for name, digest in here.snapshot().items() if not name.endswith(file.name)}
        ended = here.run("data")
        if ended.status == 0 and unpack(file.read_bytes()) == unpack(whole):
            continue  # harmless: it holds the same, as where a bit of gzip's time stamp was flipped, or was made again
        judge_end(one, ended)
        judge_kept(one, here, before)
        assert not (here.results / "data/phantom/dataset.json").exists()
        judge_refused_again(one, here.run("data"))
    file.write_bytes(whole)
    one.tries = len(damages)
    judge_rerun(one, here, ["data"], prepared)


def unpack(packed):
    try:
        return gzip.decompress(packed)
    except (OSError, EOFError, zlib.error):
        return None


def flip(content, place):
    place = min(place, len(content) - 1)
    return content[:place] + bytes([content[place] ^ (1 << place % 8)]) + content[place + 1 :]


def test_the_clock_is_set_back(row, place, prepared, clock):
    """Times of files decide nothing: what is made under a clock that is an hour late, and then right again, is the same."""
    here, (offset, variables) = place(), clock
    here.configure()
    one, before = row("data", "the clock is an hour late, KILL, then it is right"), here.snapshot()
    here.variables |= variables
    offset.write_text("-3600")
    running = here.start("data")
    running.wait_for(lambda: "2 of 8" in running.said())
    judge_end(one, running.kill(9), may_be_silent=True)
    judge_kept(one, here, before)
    offset.write_text("0")
    judge_rerun(one, here, ["data"], prepared)
