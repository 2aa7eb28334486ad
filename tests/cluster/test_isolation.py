"""Programs in namespaces of their own, which change nothing for those that come later."""

import subprocess

import pytest

from speedproof.cluster import isolation, place_checks
from speedproof.cluster.isolation import can_hide, isolated_command, require_isolation
from speedproof.cluster.place_checks import check_isolation
from speedproof.util.errors import ConfigError


@pytest.mark.parametrize("name", ["plain", "with, a:comma\\and 'quotes'"])
def test_what_an_isolated_program_writes_goes_but_for_what_is_kept(tmp_path, needs_isolation, name):
    home, top = tmp_path / name, tmp_path / "top"
    (home / "run/inner").mkdir(parents=True)
    top.mkdir()
    (home / "old").write_text("old")
    overlaid = [str(home), str(home / "run")]
    script = "cat old; echo new > old; rm -r run/inner; touch run/left; mkdir x; touch x/y; cat old"
    words = ["env", f"--chdir={home}", "sh", "-c", script]
    command = isolated_command(words, top, overlaid, [home / "run"])
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "oldnew\n"), done.stderr
    assert sorted(path.name for path in home.iterdir()) == ["old", "run"] and (home / "old").read_text() == "old"
    assert [path.name for path in (home / "run").iterdir()] == ["left"]
    assert list(top.iterdir()) == []


def test_an_overlay_may_hide_the_folder_that_the_overlays_lie_in(tmp_path, needs_isolation):
    (tmp_path / "other").mkdir()
    (tmp_path / "outer/top").mkdir(parents=True)
    both = [str(tmp_path / "outer"), str(tmp_path / "other")]
    script = f"touch {tmp_path}/outer/a {tmp_path}/other/b && ls {tmp_path}/outer {tmp_path}/other"
    done = subprocess.run(
        isolated_command(["sh", "-c", script], tmp_path / "outer/top", both, []), capture_output=True, text=True
    )
    assert "a\n" in done.stdout and "b\n" in done.stdout, done.stderr
    assert not (tmp_path / "outer/a").exists() and not (tmp_path / "other/b").exists()


def test_an_isolated_program_does_not_see_what_is_hidden_and_it_stays(tmp_path, needs_isolation):
    home, top = tmp_path / "home", tmp_path / "top"
    (home / "left/deep").mkdir(parents=True)
    (home / "run").mkdir()
    top.mkdir()
    for name in ("left/deep/file", "settings with space", "own", "run/kept"):
        (home / name).write_text(name)
    hidden = [str(home / "left"), str(home / "settings with space"), str(home / "run/kept"), str(tmp_path / "elsewhere")]
    command = isolated_command(["find", str(home), "-type", "f"], top, [str(home)], [home / "run"], hidden)
    done = subprocess.run(command, capture_output=True, text=True)
    # What lies in a folder that is kept is on the disk itself: there nothing may be deleted, so it is seen.
    assert sorted(done.stdout.split("\n")[:-1]) == [str(home / "own"), str(home / "run/kept")], done.stderr
    assert (home / "left/deep/file").is_file() and (home / "settings with space").is_file() and (home / "run/kept").is_file()


def test_what_lies_on_a_disk_below_an_overlaid_folder_cannot_be_hidden(monkeypatch):
    monkeypatch.setattr(isolation, "_list_mounts", lambda: ["/", "/dev", "/dev/shm", "/proc"])
    assert can_hide("/dev/shm/x", ["/dev/shm"]) and not can_hide("/dev/shm/x", ["/dev"]) and can_hide("/dev/x", ["/dev"])


def test_an_isolated_program_is_of_the_same_user(tmp_path, needs_isolation, monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: 1234)
    monkeypatch.setattr("os.getegid", lambda: 5678)
    done = subprocess.run(isolated_command(["id"], tmp_path, [], []), capture_output=True, text=True)
    assert "uid=1234" in done.stdout and "gid=5678" in done.stdout, done.stderr


def test_where_it_does_not_work_the_doctor_says_so_and_a_proof_refuses(monkeypatch):
    for module in (isolation, place_checks):
        monkeypatch.setattr(module, "explain_no_isolation", lambda: "unshare: Operation not permitted")
    assert check_isolation().state == "absent" and "Operation not permitted" in check_isolation().found
    with pytest.raises(ConfigError, match=r"isolate: does not work here .*not permitted.*; allow user namespaces"):
        require_isolation()
    monkeypatch.undo()
    monkeypatch.setenv("PATH", "/nowhere")
    assert check_isolation().found == "--isolate does not work: unshare is not on PATH"
