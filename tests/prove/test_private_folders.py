"""What a run finds of earlier ones: an empty TMPDIR, and the compile caches that its variant's own warm-up left."""

import stat
from collections import Counter
from pathlib import Path

import pytest
from typer.testing import CliRunner

from speedproof.cli.application import app
from speedproof.config.model import Variant
from speedproof.run.caches import private_folders, private_place
from speedproof.util.errors import ConfigError

# Prints what it finds in its folders, then leaves something there; it takes the name of what it leaves.
LOOK = """
echo "tmp: $TMPDIR" $(ls "$TMPDIR"); echo "triton:" $(ls "$TRITON_CACHE_DIR" 2> /dev/null)
echo "jax: ${JAX_COMPILATION_CACHE_DIR:-none}"; echo "in: $(pwd -P)"
touch "$TMPDIR/left"; mkdir -p "$TRITON_CACHE_DIR"; echo $1 > "$TRITON_CACHE_DIR/$1-$(ls "$TRITON_CACHE_DIR" | wc -l)"
"""


def prove(*words):
    return CliRunner().invoke(app, ["prove", "sh look.sh a", "sh look.sh b", "--rounds", "4", "--out", "out", *words])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
    (tmp_path / "look.sh").write_text(LOOK)
    return tmp_path


def read_lines(out, what):
    """What all timed runs of each variant printed behind a word, and how many did."""
    found = {}
    for path in sorted(Path(out, "results/experiments/experiment-1/runs").glob("*/log.txt")):
        lines = dict(line.split(":", 1) for line in path.read_text().splitlines())
        found.setdefault(path.parent.name.split("-")[1], Counter())[lines[what].strip()] += 1
    return found


def test_each_run_finds_an_empty_tmpdir_and_the_caches_of_its_own_warm_up(folder, monkeypatch):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(folder / "mine"))
    result = prove()
    assert "replaced by a private folder for each run: " in result.stderr and "TRITON_CACHE_DIR" in result.stderr
    assert read_lines("out", "triton") == {"a": {"a-0": 4}, "b": {"b-0": 4}}  # what runs themselves leave is gone
    ((temporary, times),) = (read_lines("out", "tmp")["a"] + read_lines("out", "tmp")["b"]).items()
    assert times == 8 and len(temporary) < 60 and not Path(temporary).exists()  # one short path for all, and nothing in it
    assert len(read_lines("out", "in")["a"] + read_lines("out", "in")["b"]) == 1
    assert read_lines("out", "jax")["a"] == {"none": 4}  # which has no cache unless it is set
    assert not (folder / "mine").exists()
    assert stat.S_IMODE((folder / "out/caches/a").stat().st_mode) == 0o700


def test_cold_caches_are_empty_each_time(folder):
    prove("--caches", "cold")
    assert read_lines("out", "triton") == {"a": {"": 4}, "b": {"": 4}}
    assert not (folder / "out/caches").exists()


def test_shared_caches_are_the_callers_own(folder, monkeypatch):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(folder / "mine"))
    monkeypatch.setenv("TMPDIR", str(folder))
    result = prove("--caches", "shared")
    assert "replaced by private folders" not in result.stderr
    assert len(list((folder / "mine").iterdir())) == 10 and (folder / "left").exists()  # of two warm-ups and eight runs


def test_a_proof_that_goes_on_finds_the_caches_of_its_warm_up_and_another_warm_up_replaces_them(folder):
    prove()
    (folder / "out/results/experiments/experiment-1/experiment.json").unlink()
    for run in (folder / "out/results/experiments/experiment-1/runs").glob("*-a-timed"):
        (run / "run.json").unlink()
    assert "warm-up: one run" not in prove().stderr
    assert read_lines("out", "triton") == {"a": {"a-0": 4}, "b": {"b-0": 4}}
    (folder / "look.sh").write_text(LOOK.replace("echo $1 >", "echo >").replace("/$1-", "/new-"))
    assert "warm-up: one run" in prove().stderr
    assert read_lines("out", "triton") == {"a": {"new-0": 4}, "b": {"new-0": 4}}


def test_a_folder_of_that_name_that_is_not_ours_alone_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    class Measured:
        folder = tmp_path / "programs"

    variant = Variant(title="A", caches="cold")
    with private_folders(Measured, variant) as work:
        assert stat.S_IMODE(work.parent.stat().st_mode) == 0o700 and list(work.iterdir()) == []
    private_place(Measured).mkdir(0o777)
    private_place(Measured).chmod(0o777)
    with pytest.raises(ConfigError, match="other users can write there; remove it"), private_folders(Measured, variant):
        pass
