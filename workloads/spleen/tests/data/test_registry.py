"""What can be downloaded is described well; what is not there is answered with what is."""

import pytest
from pydantic import ValidationError

from speedproof.common.errors import DataError, SpeedproofError
from speedproof_spleen.config import Data
from speedproof_spleen.data.registry import Entry, find_entry, read_registry

WELL = {
    "name": "Spleen",
    "title": "Spleen, handmade",
    "version": "1",
    "url": "https://server.example/sets/Spleen.tar?part=all.tar",
    "md5": "0123456789abcdef0123456789abcdef",
    "size_bytes": None,
    "expected_mib": 1,
    "licence": "CC0-1.0",
    "page": "https://server.example",
}


def test_the_packaged_entries_are_well_formed():
    entries = read_registry()
    assert Data().registry_entry in entries
    for name, entry in entries.items():
        assert find_entry(name) == entry
        assert entry.name == name
        assert entry.page.startswith("http")
        assert all((entry.title, entry.version, entry.licence, entry.archive))


def test_the_spleens_archive_is_the_publishers():
    entry = find_entry("Task09_Spleen")
    assert entry.archive == "Task09_Spleen.tar"
    assert entry.licence == "CC-BY-SA-4.0"


def test_an_unknown_entry_is_answered_with_those_there_are():
    with pytest.raises(DataError) as raised:
        find_entry("Task09_Spleem")
    said = "no dataset `Task09_Spleem` in the registry; choose one of "
    assert str(raised.value) == f"data.registry_entry: {said}{', '.join(sorted(read_registry()))}"


def test_an_archive_is_named_as_the_address_ends():
    assert Entry(**WELL).archive == "Spleen.tar"


@pytest.mark.parametrize(
    "wrong",
    [
        {"url": "ftp://server.example/Spleen.tar"},
        {"url": "https://server.example/Spleen.zip"},
        {"url": "https://Spleen.tar"},
        {"md5": "0123456789ABCDEF0123456789ABCDEF"},
        {"md5": "0123"},
        {"size_bytes": 0},
        {"expected_mib": 0},
        {"sha256": "unknown key"},
    ],
)
def test_an_entry_that_is_not_well_formed_is_refused(wrong):
    with pytest.raises(ValidationError):
        Entry(**WELL | wrong)


FIELDS = (
    "{title: a, version: '1', url: 'https://server.example/a.tar', md5: %s, size_bytes: null, expected_mib: %s, "
    "licence: a, page: a}"
)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("- 1", "must be a mapping of names to entries"),
        ("Spleen: 1", "must be a mapping of names to entries"),
        ("Spleen: {}", "Spleen.title: Field required (given: {'name': 'Spleen'})"),
        ("Spleen: " + FIELDS % ("0" * 32, ".inf"), "Spleen.expected_mib: must be a finite number (given: inf)"),
        ("Spleen: " + FIELDS % ("0" * 31 + "x", 1), "Spleen.md5: String should match"),
        (
            "Spleen: " + FIELDS % ("'" + "0" * 32 + "'", "true"),
            "Spleen.expected_mib: Input should be a valid integer (given: True)",
        ),
        ("../../outside: " + FIELDS % ("'" + "0" * 32 + "'", 1), "../../outside.name: String should match"),
        ("Spleen: [1", "not YAML (line 1"),
        ("a: &a [*a]", "not YAML (line 1, column 4: an anchor that contains itself)"),
    ],
)
def test_a_mistake_in_the_registry_is_one_line(tmp_path, content, said):
    path = tmp_path / "registry.yaml"
    path.write_text(content)
    with pytest.raises(SpeedproofError) as raised:
        read_registry(path)
    assert str(raised.value).startswith(f"{path}: {said}")
