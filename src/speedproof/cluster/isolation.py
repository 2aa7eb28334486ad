"""Run a program in namespaces of its own: what it writes to some folders is discarded when it ends.

Overlays cover these folders. Writes stay in memory, in a file system that ends with the program.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from speedproof.util.errors import ConfigError

FAILED_STATUS = 193  # of the set-up; a program's own status is passed on
ADVICE = "allow user namespaces (as root: sysctl kernel.apparmor_restrict_unprivileged_userns=0), or leave --isolate out"
# Words of sh: user and group, a folder to work in, the number of folders that are overlaid; of each its path, how many paths in
# it are hidden, and these, how many are kept, and these; then the folders once more, and a command. Overlays are made aside and
# put in place at last, since one may hide the folder to work in. Names of folders stand in no option of mount, which would
# split them. What is hidden is deleted before anything is mounted on the overlay, so that no file on a disk can be deleted.
_SCRIPT = f"""
set -e; trap 'exit {FAILED_STATUS}' EXIT
user=$1 group=$2 top=$3 over=$4; shift 4
mount -t tmpfs -o mode=0700 speedproof "$top"
at=0
while [ $at -lt $over ]; do
  folder=$1; shift
  mkdir "$top/lower$at" "$top/upper$at" "$top/work$at" "$top/made$at"; chmod --reference="$folder" "$top/upper$at"
  mount --rbind "$folder" "$top/lower$at"
  options="lowerdir=$top/lower$at,upperdir=$top/upper$at,workdir=$top/work$at,userxattr"
  mount -t overlay -o "$options" speedproof "$top/made$at"
  hidden=$1; shift
  while [ $hidden -gt 0 ]; do rm -rf -- "$top/made$at/$1"; shift; hidden=$((hidden - 1)); done
  kept=$1; shift
  while [ $kept -gt 0 ]; do mount --rbind "$folder/$1" "$top/made$at/$1"; shift; kept=$((kept - 1)); done
  at=$((at + 1))
done
at=0
while [ $at -lt $over ]; do mount --rbind "$top/made$at" "$1"; shift; at=$((at + 1)); done
if [ "$user" = 0 ]; then exec "$@"; fi
exec unshare --user --map-user="$user" --map-group="$group" -- "$@"
"""


def isolated_command(
    command: Sequence[str], top: Path, folders: Iterable[str], kept: Iterable[Path], hidden: Sequence[str] = ()
) -> list[str]:
    """Return a command that changes nothing in `folders`, except inside the `kept` ones and on other disks.

    It does not see the `hidden` real paths. `top` is an empty folder that must exist while it runs.
    """
    overlaid = sorted(
        _outermost(folders), key=lambda folder: _is_within(os.path.realpath(top), folder)
    )  # what hides it comes last
    mounted = [path for path in _list_mounts() if any(_is_within(path, folder) and path != folder for folder in overlaid)]
    own = _outermost([*map(str, kept), *mounted])
    words = [str(os.geteuid()), str(os.getegid()), str(top), str(len(overlaid))]
    for folder in overlaid:
        words.append(folder)
        for paths in (hidden, own):
            inside = [os.path.relpath(path, folder) for path in paths if _is_within(path, folder)]
            words += [str(len(inside)), *inside]
    return ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", _SCRIPT, "sh", *words, *overlaid, *command]


def can_hide(path: str, folders: Iterable[str]) -> bool:
    """Return whether a program with overlays over `folders` can run without a path: not if another disk is mounted between."""
    overlaid = _outermost(folders)
    return not any(
        _is_within(path, mount) and any(_is_within(mount, folder) and mount != folder for folder in overlaid)
        for mount in _list_mounts()
    )


def explain_no_isolation() -> str:
    """Return why programs cannot be isolated here, found by trying; nothing if they can."""
    if shutil.which("unshare") is None:
        return "unshare is not on PATH"
    with tempfile.TemporaryDirectory(prefix="speedproof-isolation-") as name:
        top, folder = Path(name, "top"), Path(name, "folder")
        top.mkdir()
        folder.mkdir()
        command = isolated_command(["touch", str(folder / "written")], top, [str(folder)], [])
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            return (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        return "written files remain" if (folder / "written").exists() else ""


def require_isolation() -> None:
    """Raise :class:`ConfigError` if programs cannot be isolated here."""
    if why := explain_no_isolation():
        raise ConfigError(f"isolate: does not work here ({why}); {ADVICE}")


def _outermost(folders: Iterable[str]) -> list[str]:
    """Return the existing folders that are not inside another of them, without the root."""
    found: list[str] = []
    for path in sorted({os.path.realpath(folder) for folder in folders if Path(folder).is_dir()}, key=len):
        if path != "/" and not any(_is_within(path, other) for other in found):
            found.append(path)
    return found


def _is_within(path: str, folder: str) -> bool:
    return f"{path}/".startswith(f"{folder}/")


def _list_mounts() -> list[str]:
    lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    return [line.split()[4].encode("utf-8", "surrogateescape").decode("unicode_escape") for line in lines]
