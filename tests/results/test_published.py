"""Published programs are fetched whole or not at all, and are the ones that were published."""

import hashlib

import pytest

from speedproof.results.published import Published, fetch_published, find_published, take_published
from speedproof.util.errors import DataError
from tests.workflow.checkout import ROOT

ENTRY = "mine: {title: a, repository: 'https://github.com/one/two', commit: %s, licence: MIT, files: {%s: %s}}"
COMMIT, DIGEST = "0123456789" * 4, "ab" * 32


def programs_of(content, *paths):
    digest = hashlib.sha256(content).hexdigest()
    files = dict.fromkeys(paths, digest)
    return Published(title="a", repository="https://github.com/one/two", commit=COMMIT, licence="MIT", files=files)


def raw(publisher):
    return f"http://127.0.0.1:{publisher.server_port}"


def test_programs_are_fetched_once_into_a_folder_of_their_commit(publisher, tmp_path):
    published = programs_of(publisher.content, "src/train.py", "run.sh")
    for _ in range(2):
        folder = fetch_published(published, tmp_path, raw(publisher))
    assert folder == tmp_path / "two-012345678901"
    assert (folder / "src/train.py").read_bytes() == (folder / "run.sh").read_bytes() == publisher.content
    assert len(publisher.asked) == 2  # a file each, the first time
    assert take_published(published, folder) == folder
    (folder / "run.sh").write_text("edited")
    with pytest.raises(DataError, match=r"run\.sh: is not the published file"):
        fetch_published(published, tmp_path, raw(publisher))


def test_another_file_than_the_published_one_is_refused_and_nothing_is_kept(publisher, tmp_path):
    with pytest.raises(DataError, match=r"^src/train\.py: is not the published file"):
        fetch_published(programs_of(b"published", "src/train.py"), tmp_path, raw(publisher))
    assert [path.name for path in tmp_path.iterdir() if not path.name.startswith(".")] == []


@pytest.mark.parametrize("spoil", ["absent", "unreachable", "huge"])
def test_what_cannot_be_fetched_is_one_line_with_a_way_out(publisher, tmp_path, monkeypatch, spoil):
    if spoil == "absent":
        publisher.failures = [404]
    elif spoil == "huge":
        monkeypatch.setattr("speedproof.results.published.MOST_BYTES", 99)
    place = "http://127.0.0.1:9" if spoil == "unreachable" else raw(publisher)
    said = {"absent": "answered 404", "unreachable": "not reachable", "huge": "more than 99 bytes"}[spoil]
    with pytest.raises(DataError, match=f"{said}.*get the repository by other means") as caught:
        fetch_published(programs_of(publisher.content, "a.py"), tmp_path, place)
    assert "\n" not in str(caught.value)


def test_a_folder_whose_file_was_edited_or_is_missing_is_refused(tmp_path):
    published = programs_of(b"published", "a.py")
    with pytest.raises(DataError, match=rf"a\.py: No such file or directory; get https://github\.com/one/two at {COMMIT}"):
        take_published(published, tmp_path)
    (tmp_path / "a.py").write_bytes(b"edited")
    with pytest.raises(DataError, match=r"a\.py: is not the published file"):
        take_published(published, tmp_path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{}", "no programs `mine`"),
        ("[1]", "no programs `mine`"),
        (ENTRY % ("v1.0", "a.py", DIGEST), "mine.commit"),
        (ENTRY % (f"'{COMMIT}'", "../a.py", DIGEST), "is not a path inside a repository"),
        (ENTRY % (f"'{COMMIT}'", "/a.py", DIGEST), "is not a path inside a repository"),
        (ENTRY % (f"'{COMMIT}'", "a.py", "unknown"), "mine.files.a.py"),
    ],
)
def test_a_mistake_in_what_is_published_is_one_line(tmp_path, text, said):
    path = tmp_path / "published.yaml"
    path.write_text(text)
    with pytest.raises(DataError) as caught:
        find_published(path, "mine")
    assert said in str(caught.value)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def test_ours_names_what_is_published():
    assert list(find_published(ROOT / "examples/published.yaml", "kaust_classifier").files) == [
        "src/train.py",
        "src/train_nvtx.py",
        "src/train-profiler.py",
    ]


def test_the_published_pair_of_the_worked_case_can_be_taken_from_a_folder(tmp_path):
    published = find_published(ROOT / "examples/published.yaml", "monai_spleen_profiling")
    with pytest.raises(DataError, match=r"fast_training_tutorial\.ipynb"):
        take_published(published, tmp_path)
