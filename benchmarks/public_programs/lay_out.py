"""Write the folders of the public programs: files at their commit, made-up data, TASK.txt, in a new git repository each.

`python -m benchmarks.public_programs.lay_out --from CLONES --to FOLDER [NAME ...]` reads clones or bare repositories in CLONES,
which may be called OWNER+NAME, OWNER/NAME or NAME (with `.git` or not). Run it with the Python that has the packages of
packages.txt: the data need some of them.
"""

import argparse
import os
import subprocess
import tempfile
from pathlib import Path

from benchmarks.public_programs.catalogue import Program, choose_programs
from benchmarks.public_programs.make_data import MAKERS

AUTHOR = "Trial <trial@example.org>"
DATE = "2026-11-27T00:00:00Z"


def run_git(folder: Path, *words: str) -> None:
    """Run git in a folder without the user's configuration; the last line of its error ends the program."""
    name, _, address = AUTHOR.rstrip(">").partition(" <")
    identity = {
        f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER") for key, value in (("NAME", name), ("EMAIL", address))
    }
    dates = {"GIT_AUTHOR_DATE": DATE, "GIT_COMMITTER_DATE": DATE}
    alone = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    ended = subprocess.run(
        ["git", "-C", folder, *words], env=os.environ | identity | dates | alone, capture_output=True, text=True
    )
    if ended.returncode:
        raise SystemExit(f"{folder}: git {words[0]} failed: {(ended.stderr.strip().splitlines() or ['no message'])[-1]}")


def is_repository(folder: Path) -> bool:
    """Return whether a folder is the top of a clone, or a bare repository."""
    return (folder / ".git").exists() or ((folder / "HEAD").is_file() and (folder / "objects").is_dir())


def find_clone(clones: Path, repository: str) -> Path | None:
    """Return the folder of a repository's clone, or None."""
    owner, _, name = repository.partition("/")
    stems = [f"{owner}+{name}", repository, name]
    folders = [clones / (stem + ending) for stem in stems for ending in ("", ".git", "/repo")]
    return next((folder for folder in folders if is_repository(folder)), None)


def export_files(clone: Path, program: Program, folder: Path) -> None:
    """Write the program's files at its commit into an empty folder."""
    with tempfile.TemporaryDirectory() as scratch:
        archive = Path(scratch, "files.tar")
        run_git(clone, "archive", "--format=tar", f"--output={archive}", program.commit, "--", *program.files)
        subprocess.run(["tar", "--extract", "--file", archive, "--directory", folder], check=True)


def write_data(program: Program, folder: Path) -> None:
    """Make the program's data."""
    for entry in program.data:
        options = {key: value for key, value in entry.items() if key not in ("kind", "path")}
        MAKERS[entry["kind"]](folder / entry["path"], **options)


def write_task(program: Program) -> str:
    """Return the text for a reader."""
    source = f"github.com/{program.repository} at {program.commit[:12]}, unmodified"
    return f"{program.title} ({source})\n\n{program.task.strip()}\n\nQuestion: {program.question}\n"


def lay_out(program: Program, clone: Path, folder: Path) -> None:
    """Write a program's folder, as a clone with its data would look."""
    if folder.exists():
        raise SystemExit(f"{folder} exists; remove it, or choose another folder with --to")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        made = Path(scratch, folder.name)
        made.mkdir()
        export_files(clone, program, made)
        write_data(program, made)
        (made / "TASK.txt").write_text(write_task(program), encoding="utf-8")
        run_git(made, "init", "-q", "-b", "main")
        run_git(made, "add", "--all")
        run_git(made, "commit", "-q", "-m", f"Lay out {program.repository} at {program.commit[:12]}")
        made.rename(folder)


def main() -> None:
    """Lay out the programs that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="programs. Default: all")
    parser.add_argument("--from", dest="clones", type=Path, required=True, help="folder with the clones")
    parser.add_argument("--to", type=Path, required=True, help="folder for the programs' folders")
    asked = parser.parse_args()
    programs = choose_programs(asked.names)
    found = {repository: find_clone(asked.clones, repository) for repository in sorted({p.repository for p in programs})}
    if missing := [repository for repository, clone in found.items() if clone is None]:
        clone = "\n".join(f"git clone https://github.com/{name} {asked.clones / name.replace('/', '+')}" for name in missing)
        raise SystemExit(f"{asked.clones} lacks clones; type\n{clone}")
    for program in programs:
        source = found[program.repository]
        assert source is not None
        lay_out(program, source, asked.to / program.name)
        print(asked.to / program.name, flush=True)


if __name__ == "__main__":
    main()
