"""A download goes on where it broke, mixes no two versions, is trusted by its checksum, and says what went wrong."""

import gzip
import hashlib
from types import SimpleNamespace

import pytest

from speedproof.results import download
from speedproof.results.download import fetch_archive
from speedproof.util.errors import DataError

DATE = "Thu, 01 Jan 2026 00:00:00 GMT"


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(download, "CHUNK_BYTES", 10)


def fetch(publisher, folder, **changes):
    return fetch_archive(publisher.entry(**changes), folder, wait_s=0)


def leave_part(folder, content, version='"first"'):
    """Leave what a stopped download leaves."""
    (folder / "spleen.tar.part").write_bytes(content)
    (folder / "spleen.tar.part.version").write_text(version)


def leave_archive(folder, content):
    (folder / "spleen.tar").write_bytes(content)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_whole_file_arrives_under_its_own_name_and_nothing_else(publisher, tmp_path):
    archive = fetch(publisher, tmp_path / "new" / "data", size_bytes=100)
    assert archive == tmp_path / "new" / "data" / "spleen.tar"
    assert archive.read_bytes() == publisher.content
    assert names(archive.parent) == ["spleen.tar"]
    assert publisher.asked == [{}]


def test_what_is_there_is_not_fetched_again(publisher, tmp_path):
    leave_archive(tmp_path, publisher.content)
    assert fetch(publisher, tmp_path).read_bytes() == publisher.content
    assert publisher.asked == []


def test_a_broken_connection_is_taken_up_where_it_broke(publisher, tmp_path, capsys):
    publisher.breaks_after = [40, 30]
    assert fetch(publisher, tmp_path, size_bytes=100).read_bytes() == publisher.content
    rest = [{"Range": f"bytes={first}-", "If-Range": '"first"'} for first in (40, 70)]
    assert publisher.asked == [{}, *rest]
    assert names(tmp_path) == ["spleen.tar"]
    said = capsys.readouterr().err.splitlines()
    assert said == [f"spleen.tar: {done} of 100 bytes" for done in range(10, 101, 10)]


@pytest.mark.parametrize(
    ("version", "condition"),
    [
        ({"ETag": '"strong"', "Last-Modified": DATE}, {"Range": "bytes=40-", "If-Range": '"strong"'}),
        ({"ETag": 'W/"weak"', "Last-Modified": DATE}, {"Range": "bytes=40-", "If-Range": DATE}),
        ({"ETag": 'W/"weak"'}, {}),
        ({}, {}),
    ],
)
def test_the_rest_is_asked_for_only_of_a_version_that_is_known_for_sure(publisher, tmp_path, version, condition):
    publisher.version, publisher.breaks_after = version, [40]
    assert fetch(publisher, tmp_path).read_bytes() == publisher.content
    assert publisher.asked == [{}, condition]


def test_a_later_run_goes_on_with_what_an_earlier_one_got(publisher, tmp_path):
    publisher.breaks_after = [40, 0, 0, 0, 0, 0]
    with pytest.raises(DataError, match=r"the connection broke; try again later \(the 40 bytes that came are kept\), or get"):
        fetch(publisher, tmp_path)
    publisher.breaks_after.clear()
    assert fetch(publisher, tmp_path).read_bytes() == publisher.content
    assert publisher.asked[-1] == {"Range": "bytes=40-", "If-Range": '"first"'}


@pytest.mark.parametrize("conditions", [True, False], ids=["conditions kept", "conditions ignored"])
def test_another_version_begins_anew(publisher, tmp_path, conditions):
    leave_part(tmp_path, publisher.content[:40])
    publisher.content, publisher.version, publisher.conditions = bytes(reversed(range(100))), {"ETag": '"second"'}, conditions
    assert fetch(publisher, tmp_path).read_bytes() == publisher.content
    assert publisher.asked[0] == {"Range": "bytes=40-", "If-Range": '"first"'}
    assert publisher.asked[1:] == ([] if conditions else [{}])


def test_a_server_that_ignores_ranges_sends_all_of_it_again(publisher, tmp_path):
    publisher.ranges, publisher.breaks_after = False, [40]
    assert fetch(publisher, tmp_path).read_bytes() == publisher.content
    assert publisher.asked == [{}, {"Range": "bytes=40-", "If-Range": '"first"'}]


def test_a_part_that_begins_elsewhere_is_not_added(publisher, tmp_path):
    leave_part(tmp_path, publisher.content[:40])
    publisher.blocks = 30
    assert fetch(publisher, tmp_path).read_bytes() == publisher.content
    assert publisher.asked == [{"Range": "bytes=40-", "If-Range": '"first"'}, {}]


def test_a_part_that_is_whole_is_only_checked(publisher, tmp_path):
    leave_part(tmp_path, publisher.content)
    assert fetch(publisher, tmp_path).read_bytes() == publisher.content
    assert publisher.asked == [{"Range": "bytes=100-", "If-Range": '"first"'}]
    assert names(tmp_path) == ["spleen.tar"]


def test_a_part_longer_than_the_file_begins_anew(publisher, tmp_path):
    leave_part(tmp_path, bytes(120))
    assert fetch(publisher, tmp_path).read_bytes() == publisher.content
    assert publisher.asked == [{"Range": "bytes=120-", "If-Range": '"first"'}, {}]


@pytest.mark.parametrize("leave", [leave_archive, leave_part])
def test_a_wrong_checksum_is_an_error_and_the_next_run_begins_anew(publisher, tmp_path, leave):
    leave(tmp_path, bytes(100))
    zeros, right = "6d0bb00954ceb7fbee436bb55a8397a9", publisher.entry().md5  # head -c 100 /dev/zero | md5sum
    with pytest.raises(DataError, match=rf"spleen\.tar: corrupted \(MD5 {zeros}, not {right}\) and removed; run again"):
        fetch(publisher, tmp_path)
    assert names(tmp_path) == []
    assert fetch(publisher, tmp_path).read_bytes() == publisher.content


def test_an_archive_of_a_published_sha256_is_checked_by_it(publisher, tmp_path):
    right = hashlib.sha256(publisher.content).hexdigest()
    assert fetch(publisher, tmp_path, md5=None, sha256=right).read_bytes() == publisher.content
    leave_archive(tmp_path, bytes(100))
    zeros = "cd00e292c5970d3c5e2f0ffa5171e555bc46bfc4faddfb4a418b6840b86e79a3"  # head -c 100 /dev/zero | sha256sum
    with pytest.raises(DataError, match=rf"corrupted \(SHA256 {zeros}, not {right}\)"):
        fetch(publisher, tmp_path, md5=None, sha256=right)


def test_a_wrong_size_is_an_error_before_anything_is_fetched(publisher, tmp_path):
    with pytest.raises(DataError, match=r"/set/spleen\.tar: the server offers 100 bytes, not 99; try later, or get"):
        fetch(publisher, tmp_path, size_bytes=99)
    assert names(tmp_path) == []


def test_a_server_that_does_not_say_how_long_the_file_is_is_an_error(publisher, tmp_path):
    publisher.says_length = False
    with pytest.raises(DataError, match="does not report the file's size; try again later"):
        fetch(publisher, tmp_path)


def test_a_wrong_address_is_an_error_at_once(publisher, tmp_path):
    publisher.failures = [404]
    with pytest.raises(DataError, match=r"/set/spleen\.tar: the server answered 404 \(Not Found\); check the address, or get"):
        fetch(publisher, tmp_path)
    assert len(publisher.asked) == 1


@pytest.mark.parametrize("status", [429, 500, 503])
def test_what_may_pass_is_tried_again(publisher, tmp_path, status):
    publisher.failures = [status] * 4
    assert fetch(publisher, tmp_path).read_bytes() == publisher.content
    assert len(publisher.asked) == 5


def test_five_attempts_that_bring_nothing_are_an_error(publisher, tmp_path):
    publisher.failures = [503] * 6
    with pytest.raises(DataError, match=r"/set/spleen\.tar: the server answered 503 .*; try again later, .*data\.source"):
        fetch(publisher, tmp_path)
    assert len(publisher.asked) == 5


def test_attempts_that_get_no_further_are_an_error(publisher, tmp_path):
    publisher.ranges, publisher.breaks_after = False, [40] * 6
    with pytest.raises(DataError, match="the connection broke"):
        fetch(publisher, tmp_path)
    assert len(publisher.asked) == 5


def test_waits_double_while_nothing_comes_and_begin_anew_with_what_comes(publisher, tmp_path, monkeypatch):
    waits = []
    monkeypatch.setattr("time.sleep", waits.append)
    publisher.breaks_after = [0, 0, 0, 40, 0]
    fetch_archive(publisher.entry(), tmp_path, wait_s=3)
    assert waits == [3, 6, 12, 3, 6]


def test_a_server_that_is_not_there_is_an_error(publisher, tmp_path):
    publisher.shutdown()
    publisher.server_close()
    with pytest.raises(DataError, match=r"/set/spleen\.tar: not reachable; try again later, or get"):
        fetch(publisher, tmp_path)


def test_a_server_that_never_answers_is_an_error(publisher, tmp_path, monkeypatch):
    monkeypatch.setattr(download, "TIMEOUT_S", (10, 0.05))
    publisher.shutdown()  # its socket still takes connections
    with pytest.raises(DataError, match=r"/set/spleen\.tar: no answer in time; try again later, or get"):
        fetch(publisher, tmp_path)


@pytest.mark.parametrize(("free_bytes", "enough"), [(59, False), (60, True)])
def test_only_the_rest_must_find_room(publisher, tmp_path, monkeypatch, free_bytes, enough):
    leave_part(tmp_path, publisher.content[:40])
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=free_bytes))
    if enough:
        fetch(publisher, tmp_path)
    else:
        with pytest.raises(DataError):
            fetch(publisher, tmp_path)
    assert names(tmp_path) == (["spleen.tar"] if enough else ["spleen.tar.part", "spleen.tar.part.version"])


def test_too_little_room_is_said_in_numbers(publisher, tmp_path, monkeypatch):
    publisher.content = bytes(3 * 2**20)
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=2**20))
    with pytest.raises(DataError) as raised:
        fetch(publisher, tmp_path)
    said = "spleen.tar needs 3 MiB, the disk has 1 MiB free; make room, or set `data.folder` to another disk"
    assert str(raised.value) == f"{tmp_path}: {said}"


def test_a_part_that_is_a_link_changes_no_other_file(publisher, tmp_path):
    (tmp_path / "victim").write_bytes(publisher.content[:40])
    (tmp_path / "data").mkdir()
    (tmp_path / "data/spleen.tar.part").symlink_to(tmp_path / "victim")
    (tmp_path / "data/spleen.tar.part.version").write_text('"first"')
    with pytest.raises(DataError, match=r"spleen\.tar\.part: is not a regular file; remove it"):
        fetch(publisher, tmp_path / "data")
    assert (tmp_path / "victim").read_bytes() == publisher.content[:40]


@pytest.mark.parametrize("length", ["many", "-100", "1e9", "9" * 30])
def test_a_length_that_is_no_number_is_an_error(publisher, tmp_path, length):
    publisher.headers = {"Content-Length": length}
    with pytest.raises(DataError, match=r"/set/spleen\.tar: "):
        fetch(publisher, tmp_path)
    assert names(tmp_path) == []


def test_a_server_that_promises_more_than_it_sends_is_an_error_and_what_came_is_kept(publisher, tmp_path):
    publisher.headers, publisher.ranges = {"Content-Length": "150"}, False
    with pytest.raises(DataError, match=r"the connection broke; try again later \(the 100 bytes that came are kept\), or get"):
        fetch(publisher, tmp_path)
    assert (tmp_path / "spleen.tar.part").read_bytes() == publisher.content


def test_a_server_that_promises_less_than_it_has_is_an_error(publisher, tmp_path):
    publisher.headers = {"Content-Length": "50"}
    with pytest.raises(DataError, match=r"spleen\.tar: corrupted .* and removed; run again, or get"):
        fetch(publisher, tmp_path)
    assert names(tmp_path) == []


def test_a_packed_answer_is_not_unpacked(publisher, tmp_path):
    publisher.content = gzip.compress(bytes(10**6))
    publisher.headers = {"Content-Encoding": "gzip"}
    with pytest.raises(DataError, match=r"/set/spleen\.tar: the server compresses the file again; try again later, or"):
        fetch(publisher, tmp_path)
    assert names(tmp_path) == []


def test_a_page_that_comes_in_place_of_the_file_is_an_error(publisher, tmp_path):
    """As of a network that wants a password: it answers everything with its own page."""
    entry = publisher.entry()
    publisher.moved = f"{entry.url}/welcome"
    publisher.content = b"<html>please sign in</html>"
    with pytest.raises(DataError, match=r"spleen\.tar: corrupted \(MD5 .*, not .*\) and removed; run again, or get"):
        fetch_archive(entry, tmp_path, wait_s=0)
    assert names(tmp_path) == []


def test_an_address_that_leads_to_itself_is_an_error(publisher, tmp_path):
    publisher.moved = publisher.entry().url
    with pytest.raises(DataError, match=r"/set/spleen\.tar: Exceeded 30 redirects.*; try again later, or get"):
        fetch(publisher, tmp_path)
