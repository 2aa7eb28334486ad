"""The published pair beside ours: programs as they are find their volumes, and ours prints what its epochs are read of."""

import hashlib
import json
import re
import runpy
from pathlib import Path

import pytest
import yaml

from speedproof.api import ConfigError, DataError, Published, find_published, load_config
from speedproof_spleen.data.phantom import make_phantom
from tests.instrument import find_workload

ROOT = Path(__file__).parents[3]
PUBLISHED = ROOT / "workloads/spleen/published"
PROGRAM = b"print(sorted(path.name for path in __import__('pathlib').Path(FOLDER).iterdir()))\n"


@pytest.fixture(scope="module")
def phantom(tmp_path_factory):
    folder = tmp_path_factory.mktemp("phantom")
    make_phantom(folder, "tiny", 0, 1)
    return folder


@pytest.fixture
def data(phantom, tmp_path, monkeypatch):
    """The `data` of a configuration whose programs are in a folder, and their entry, which knows them."""
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "a.py").write_bytes(PROGRAM)
    entry = {"title": "a", "repository": "https://github.com/one/two", "commit": "0" * 40, "licence": "MIT"}
    known = Published(**entry, files={"a.py": hashlib.sha256(PROGRAM).hexdigest()})
    monkeypatch.setattr("speedproof_common.published.find_published", lambda *_: known)
    return {"source": "local", "local_folder": str(phantom), "published_folder": str(programs)}


@pytest.fixture
def make_ready():
    return runpy.run_path(str(PUBLISHED / "prepare_published.py"))["make_ready"]


def test_programs_and_volumes_lie_side_by_side(make_ready, data, tmp_path):
    both = make_ready(data, tmp_path / "dataset.json")
    assert both == tmp_path / json.loads((tmp_path / "dataset.json").read_text())["folder"]
    assert (both / "programs/a.py").read_bytes() == PROGRAM
    assert len(list((both / "imagesTr").iterdir())) == len(list((both / "labelsTr").iterdir())) > 0


def test_programs_that_were_edited_and_folders_that_are_none_are_refused(make_ready, data, tmp_path):
    (tmp_path / "programs/a.py").write_bytes(PROGRAM + b"#")
    with pytest.raises(DataError, match="is not the published file"):
        make_ready(data, tmp_path / "dataset.json")
    with pytest.raises(ConfigError, match=r"data\.published_folder: must be a folder's path"):
        make_ready(data | {"published_folder": 3}, tmp_path / "dataset.json")
    with pytest.raises(ConfigError, match="source"):
        make_ready(data | {"source": "elsewhere"}, tmp_path / "dataset.json")


def test_a_published_program_finds_the_volumes_where_it_looks(published, tmp_path, monkeypatch, capsys):
    runner = runpy.run_path(str(PUBLISHED / "run_published.py"))
    # As both programs draw it after random.seed(0); looked up once.
    assert runner["published_folder"]() == Path("/tmp/tmpmynbiqpmzjplsgqe/Task09_Spleen")
    place = tmp_path / "drawn/Task09_Spleen"
    runner["main"].__globals__["published_folder"] = lambda: place
    both = tmp_path / "both"
    (both / "imagesTr").mkdir(parents=True)
    script = both / runner["PLACE"] / "a.py"
    script.parent.mkdir(parents=True)
    script.write_bytes(PROGRAM.replace(b"FOLDER", repr(str(place)).encode()))
    published(script)
    monkeypatch.setattr("sys.argv", ["run_published.py"])
    for _ in range(2):
        runner["main"]("a.py", str(both))
    digest = hashlib.sha256(script.read_bytes()).hexdigest()
    assert capsys.readouterr().out == f"a.py: SHA-256 {digest}\n['imagesTr', 'programs']\n" * 2
    place.unlink()
    place.mkdir()
    with pytest.raises(FileExistsError, match="remove it"):
        runner["main"]("a.py", str(both))


def test_ours_prints_what_its_epochs_are_read_of(make_ready, data, tmp_path, monkeypatch, capsys):
    both = make_ready(data, tmp_path / "dataset.json")
    # The settings of a minute's run, as the whole configuration of another root.
    lain = {**yaml.safe_load((ROOT / "config.yaml").read_text())}
    for key, value in yaml.safe_load((ROOT / "workflow/config/ci.yaml").read_text()).items():
        lain[key] = {**lain[key], **value} if isinstance(value, dict) else value
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(lain))
    runner = runpy.run_path(str(PUBLISHED / "run_ours.py"))
    runner["main"].__globals__["ROOT"] = tmp_path
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    runner["main"]("baseline", str(both))
    pattern = re.compile(find_workload(str(PUBLISHED)).declared.variants["baseline"].reads.epoch_s)
    took = [float(found[1]) for line in capsys.readouterr().out.splitlines() if (found := pattern.search(line))]
    assert len(took) == 1 and took[0] > 0  # the first of two: the second one validates


def test_the_published_programs_are_known_by_their_digests():
    published = find_published(ROOT / "examples/published.yaml", "monai_spleen_profiling")
    place = runpy.run_path(str(PUBLISHED / "run_published.py"))["PLACE"]
    assert {f"programs/{path}" for path in published.files} == {f"{place}/train_{kind}_nvtx.py" for kind in ("base", "fast")}


def test_the_configuration_is_understood(monkeypatch):
    monkeypatch.chdir(ROOT)
    config = load_config(PUBLISHED / "config.yaml")
    assert config.completed_variants.keys() == set(config.measurement.variants)
