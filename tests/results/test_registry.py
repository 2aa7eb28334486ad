"""What can be downloaded is described well; what is not there is answered with what is."""

import pytest
from pydantic import ValidationError

from speedproof.results.registry import Entry, find_entry, read_registry
from speedproof.util.errors import DataError, SpeedproofError

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


FIELDS = (
    "{title: a, version: '1', url: 'https://server.example/a.tar', md5: %s, size_bytes: null, expected_mib: %s, "
    "licence: a, page: a}"
)


def test_an_unknown_entry_is_answered_with_those_there_are(tmp_path):
    (tmp_path / "registry.yaml").write_text("Spleen: " + FIELDS % ("'" + "0" * 32 + "'", 1))
    assert find_entry(tmp_path / "registry.yaml", "Spleen").title == "a"
    with pytest.raises(DataError) as raised:
        find_entry(tmp_path / "registry.yaml", "Spleem")
    assert str(raised.value) == "data.registry_entry: no dataset `Spleem` in the registry; choose one of Spleen"


def test_an_archive_is_named_as_the_address_ends():
    assert Entry(**WELL).archive == "Spleen.tar"
    assert Entry(**WELL | {"url": "https://server.example/Spleen.zip"}).archive == "Spleen.zip"


def test_an_archive_is_known_by_the_checksum_that_is_published():
    assert Entry(**WELL).checksum == ("md5", "0123456789abcdef0123456789abcdef")
    assert Entry(**WELL | {"md5": None, "sha256": "0" * 64}).checksum == ("sha256", "0" * 64)


@pytest.mark.parametrize(
    "wrong",
    [
        {"url": "ftp://server.example/Spleen.tar"},
        {"url": "https://server.example/Spleen.7z"},
        {"url": "https://Spleen.tar"},
        {"md5": "0123456789ABCDEF0123456789ABCDEF"},
        {"md5": "0123"},
        {"size_bytes": 0},
        {"expected_mib": 0},
        {"crc": "unknown key"},
        {"md5": None},
        {"md5": None, "sha256": "0" * 63},
        {"sha256": "0" * 64},
    ],
)
def test_an_entry_that_is_not_well_formed_is_refused(wrong):
    with pytest.raises(ValidationError):
        Entry(**WELL | wrong)


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
