"""A run that goes on from what its warm-up left is refused by name; a first run that downloads or compiles is not."""

import json

import pytest
from typer.testing import CliRunner

from speedproof.cli.application import app
from speedproof.run import outside_watch, resumed
from speedproof.run.resumed import count_steps

# Five epochs of $2 s, without those that the checkpoint $1 has.
RESUMES = """
mkdir -p "$(dirname "$1")"; done=0; [ -e "$1" ] && done=$(cat "$1")
while [ $done -lt 5 ]; do sleep $2; done=$((done + 1)); echo $done > "$1"; echo "epoch $done of 5 done, loss 0.$RANDOM"; done
"""
# Downloads once, then trains: three epochs as long as ever.
DOWNLOADS = """
if [ ! -e "$1" ]; then for n in 10 20 30; do sleep 0.3; echo "file $n: $n%"; done; mkdir -p "$(dirname "$1")"; echo x > "$1"; fi
cat "$1"; for n in 1 2 3; do sleep 0.05; echo "epoch $n done"; done
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "work").mkdir()
    (tmp_path / "home").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "work/resumes.sh").write_text(RESUMES)
    for module in (outside_watch, resumed):  # in the temporary folder other tests write and read files, too
        monkeypatch.setattr(module, "list_shared_places", lambda packages, environ: (str(tmp_path),))
    return tmp_path


def prove(*commands, more=()):
    words = ["prove", *commands, "--rounds", "4", "--device", "cpu", "--out", "out", "--json", *more]
    result = CliRunner().invoke(app, words)
    return result, " ".join(f"{result.stderr} {result.exception or ''}".split())


def test_a_checkpoint_that_no_command_names_is_found(folder):
    (folder / "work/train.sh").write_text(f"sh resumes.sh {folder}/scratch/$1/last.txt $2\n")
    result, said = prove("sh train.sh a 0.1", "sh train.sh b 0.1")
    assert result.exit_code == 1 and "printed 0 of the 5 numbered lines that its warm-up printed in" in said, said
    assert f"it read {folder}/scratch/" in said and "/last.txt, which its warm-up wrote, so it seems to have resumed" in said
    assert "have each run write to {run}, a folder of its own" in said


def test_one_in_a_cache_folder_of_the_home_folder_is_found(folder):
    (folder / "work/train.sh").write_text('sh resumes.sh "$HOME/.cache/$1/last.txt" $2\n')
    _, said = prove("sh train.sh a 0.1", "sh train.sh b 0.1")
    assert "it read ~/.cache/" in said and "/last.txt, which its warm-up wrote" in said


def test_one_beside_the_folder_itself_is_found(folder):
    (folder / "work/train.sh").write_text("sh resumes.sh ../runs/$1/last.txt $2\n")
    _, said = prove("sh train.sh a 0.1", "sh train.sh b 0.1", more=["--workdir", "here"])
    assert f"it read {folder}/runs/" in said and "/last.txt, which its warm-up wrote" in said


def test_epochs_that_are_missing_are_explained_by_it(folder):
    (folder / "work/train.sh").write_text(f"sh resumes.sh {folder}/scratch/$1/last.txt $2\n")
    _, said = prove("sh train.sh a 0.1", "sh train.sh b 0.1", more=["--epoch", "epoch . of 5 done"])
    assert "/last.txt, which its warm-up wrote, so it seems to have resumed" in said


def test_a_run_with_a_folder_of_its_own_does_not_resume(folder):
    result, said = prove("sh resumes.sh {run}/last.txt 0.06", "sh resumes.sh {run}/last.txt 0.03")
    assert json.loads(result.stdout)["rounds"] == 4, said


def test_a_first_run_that_downloads_is_not_accused(folder):
    (folder / "work/downloads.sh").write_text(DOWNLOADS)
    result, said = prove(f"sh downloads.sh {folder}/scratch/a", f"sh downloads.sh {folder}/scratch/b")
    assert json.loads(result.stdout)["rounds"] == 4, said


def test_a_program_that_stops_early_by_its_seed_is_not_accused(folder):
    # Its first run trains ten epochs, later ones two; a file that all read lies elsewhere.
    count = f"n=10; [ -e {folder}/scratch/count ] && n=2; mkdir -p {folder}/scratch; cat {folder}/scratch/*; "
    loop = f'for e in $(seq $n); do sleep 0.05; echo "epoch $e"; done; echo 1 > {folder}/scratch/count\n'
    (folder / "work/early.sh").write_text(count + loop)
    result, said = prove("sh early.sh", "sh early.sh 2")
    assert json.loads(result.stdout)["rounds"] == 4, said


def test_lines_that_count_up_are_told_from_times_shares_and_settings(tmp_path):
    (tmp_path / "log").write_text(
        "2026-11-26 21:47:20 layers: 4\nwidth 8\nwidth 8\nwidth 8\n"
        "10% done\n20% done\n30% done\nspeed 0.5\nspeed 0.6\nspeed 0.7\n"
        "[21:47:20] epoch 3/9 loss=0.31\n[21:47:21] epoch 4/9 loss=0.29\n[21:48:02] epoch 5/9 loss=0.3\nseed 7\n"
    )
    assert list(count_steps(tmp_path / "log").values()) == [[3, 0, 3]]
