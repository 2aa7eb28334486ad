import json

import pytest

from speedproof.results.experiment import Plan
from speedproof.results.files import (
    digest_of,
    read_json,
    read_record,
    replacing,
    sha256_of,
    write_json,
    write_json_if_changed,
)
from speedproof.util.errors import RecordError


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "file.json"
    write_json(path, {"a": 1})
    with pytest.raises(TypeError):
        write_json(path, {"a": object()})
    with pytest.raises(ValueError, match="stop"), replacing(path) as temporary:
        temporary.write_text("half")
        raise ValueError("stop")
    assert json.loads(path.read_text()) == {"a": 1}
    assert [entry.name for entry in tmp_path.iterdir()] == ["file.json"]


def test_an_unchanged_file_keeps_its_time(tmp_path):
    path = tmp_path / "plan.json"
    write_json_if_changed(path, Plan(experiment="experiment-1", order=[]))
    before = path.stat().st_mtime_ns
    write_json_if_changed(path, Plan(experiment="experiment-1", order=[]))
    assert path.stat().st_mtime_ns == before
    write_json_if_changed(path, Plan(experiment="experiment-2", order=[]))
    assert read_record(path, Plan).experiment == "experiment-2"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "not readable as JSON"),
        ('{"schema_version": 99}', "schema version 99"),
        ('{"schema_version": 1, "experiment": "x", "order": 3}', "order"),
        ("[]", "schema version None"),
        ('{"schema_version": ' + "[" * 200 + "]" * 200 + "}", "nested too deeply"),
    ],
)
def test_a_broken_record_is_named_in_one_line(tmp_path, content, said):
    path = tmp_path / "plan.json"
    path.write_text(content)
    with pytest.raises(RecordError) as caught:
        read_record(path, Plan)
    assert str(path) in str(caught.value)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_record_is_named(tmp_path):
    with pytest.raises(RecordError, match="no such file"):
        read_record(tmp_path / "plan.json", Plan)


def test_digests(tmp_path):
    (tmp_path / "x").write_bytes(b"abc")
    # The published SHA-256 test vector (FIPS 180-2, appendix B.1).
    assert sha256_of(tmp_path / "x") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert digest_of({"a": 1, "b": 2}) == digest_of({"b": 2, "a": 1})
    assert digest_of({"a": 1}) != digest_of({"a": 2})


def test_of_many_keys_the_one_that_stands_twice_is_found_at_once(tmp_path):
    """Each key was compared with each other one: of so many, for an hour."""
    keys = ", ".join(f'"{number}": 0' for number in [*range(500_000), 499_999])
    (tmp_path / "a.json").write_text(f"{{{keys}}}")
    with pytest.raises(RecordError, match="'499999': duplicate key"):
        read_json(tmp_path / "a.json")
