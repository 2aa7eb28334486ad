"""The comparison of two trees' numbers: names may change, no number may."""

import json
import subprocess

import pytest

from tests.results.numbers import compare_numbers, main

SOUND = {"schema_version": 3, "ratios": [{"low": 1.5, "high": 2, "pairs": 4, "turned": False}], "note": "1.5"}


def write_tree(folder, value, name="one"):
    (folder / "records" / name).mkdir(parents=True)
    (folder / "records" / name / "comparison.json").write_text(json.dumps(value))
    return str(folder)


def test_renamed_keys_and_another_schema_are_no_difference():
    renamed = {"schema_version": 4, "speedups": [{"least": 1.5, "most": 2.0, "rounds": 4, "turned": True}], "note": "1.6"}
    assert compare_numbers(SOUND, renamed) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"ratios": [{"low": 1.5, "high": 2.0000001, "pairs": 4}]}, ["ratios[0].high: 2, now 2.0000001"]),
        ({"ratios": [{"low": 1.5, "high": 2}]}, ["ratios[0].pairs: 4 is gone"]),
        ({"more": 7}, ["more: 7 is new"]),
        ({"ratios": [{"high": 2, "low": 1.5, "pairs": 4}]}, ["ratios[0].low, now ratios[0].high: 1.5, now 2"] * 2),
    ],
)
def test_another_number_a_lost_one_and_another_order_are_named(change, said):
    found = compare_numbers(SOUND, SOUND | change)
    assert len(found) == len(said) and found[0] == said[0]


def test_the_exit_status_tells_the_outcome(tmp_path, capsys):
    before, same = write_tree(tmp_path / "before", SOUND), write_tree(tmp_path / "same", SOUND | {"schema_version": 9})
    other = write_tree(tmp_path / "other", SOUND | {"ratios": list(range(9))})
    more = write_tree(tmp_path / "same" / "more", SOUND, "two")
    (tmp_path / "empty").mkdir()
    assert [main(before, after) for after in (same, other, more)] == [0, 1, 1]
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "3 numbers of 1 records compared, 0 differences"
    assert said[1:3] == ["one: ratios[0].low, now ratios[0]: 1.5, now 0", "one: ratios[0].high, now ratios[1]: 2, now 1"]
    assert "one: and 4 more" in said and f"two: only in {more}" in said
    assert main(str(tmp_path / "empty"), str(tmp_path / "empty")) == 2


def test_a_revision_of_git_is_a_tree(tmp_path, monkeypatch):
    monkeypatch.chdir(write_tree(tmp_path, SOUND))
    for words in (["init", "-q"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-qm", "one"]):
        subprocess.run(["git", *words], check=True)
    assert main("HEAD", ".") == 0
    (tmp_path / "records/one/comparison.json").write_text(json.dumps(SOUND | {"more": 1}))
    assert main("HEAD", ".") == 1
