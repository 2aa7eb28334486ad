"""What the spleen can be downloaded from is described well."""

from speedproof.api import find_entry, read_registry
from speedproof_spleen.config import Data
from speedproof_spleen.data import REGISTRY


def test_the_packaged_entries_are_well_formed():
    entries = read_registry(REGISTRY)
    assert Data().registry_entry in entries
    for name, entry in entries.items():
        assert find_entry(REGISTRY, name) == entry
        assert entry.name == name
        assert entry.page.startswith("http")
        assert all((entry.title, entry.version, entry.licence, entry.archive))


def test_the_spleens_archive_is_the_publishers():
    entry = find_entry(REGISTRY, "Task09_Spleen")
    assert entry.archive == "Task09_Spleen.tar"
    assert entry.licence == "CC-BY-SA-4.0"
