import yaml

from speedproof.results.dataset import Dataset
from speedproof.run import conditions


def test_a_host_is_told_apart_by_a_digest_that_holds_nothing_of_it(tmp_path, monkeypatch):
    file = tmp_path / "boot_id"
    monkeypatch.setattr(conditions, "_BOOT_ID", file)
    digests = []
    for boot in ("024fe1b0-32d1-4706-b08c-773da8c9ce48\n", "024fe1b0-32d1-4706-b08c-773da8c9ce48", "124fe1b0"):
        file.write_text(boot)
        digests.append(conditions.digest_host())
    assert digests[0] == digests[1] != digests[2]
    # `printf 'speedproof, a host from one start to the next: 024fe1b0-32d1-4706-b08c-773da8c9ce48' | sha256sum`
    assert digests[0] == "fe2ecdbde4a99281"


def test_a_host_whose_kernel_does_not_say_is_not_told(tmp_path, monkeypatch):
    monkeypatch.setattr(conditions, "_BOOT_ID", tmp_path / "absent")
    assert conditions.digest_host() is None
    (tmp_path / "empty").write_text("\n")
    monkeypatch.setattr(conditions, "_BOOT_ID", tmp_path / "empty")
    assert conditions.digest_host() is None


def test_versions_of_a_workloads_packages_are_recorded_where_they_are_installed():
    """PyYAML is there, for the instrument itself needs it; of what is not there nothing is said."""
    dataset = Dataset(source="own", name="none", version="", licence="unknown", synthetic=False, folder=".")
    found = conditions.describe_conditions("cpu", 1, dataset, ["pyyaml", "nothing-of-this-name"])
    assert found.packages == {"pyyaml": yaml.__version__}
    assert conditions.describe_conditions("cpu", 1, dataset).packages == {}
