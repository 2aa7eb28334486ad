"""Folders outside of the working folder that a command names: what a run leaves there is found, and named with what helps."""

from typer.testing import CliRunner

from speedproof.cli.application import app
from speedproof.run import outside_watch
from speedproof.run.proof.workspace import list_named_folders

# Goes on from the checkpoint that it finds.
RESUMES = """
mkdir -p $1; [ -e $1/last ] || sleep $2
date +%N > $1/last
"""


def test_folders_that_a_command_names_are_found_though_they_do_not_exist_yet(tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "file").touch()
    command = f"/usr/bin/python /no/such {tmp_path}/there --out={tmp_path}/new/deep {tmp_path}/file x/y --lr=1"
    assert list_named_folders(command) == [f"{tmp_path}/there", str(tmp_path)]


def test_a_checkpoint_that_later_runs_resume_is_named(tmp_path, monkeypatch, recorded_runs):
    (tmp_path / "work").mkdir()
    (tmp_path / "work/train.sh").write_text(RESUMES)
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setattr(outside_watch, "list_shared_places", lambda folders, environ: tuple(folders))
    commands = [f"sh train.sh {tmp_path}/runs/a 0.6", f"sh train.sh {tmp_path}/runs/b 0.3"]
    proven = CliRunner().invoke(app, ["prove", *commands, "--rounds", "4", "--device", "cpu", "--out", "out"])
    said = " ".join(proven.stderr.split())
    assert f"without {tmp_path}/runs, which appeared while it ran" in said, proven.output
    assert f"without {tmp_path}/runs, {tmp_path}/runs/a, which appeared while the other ran" in said
