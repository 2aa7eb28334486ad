"""Where a program runs: a fresh working folder, and the variables that it would see without an instrument."""

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from speedproof import marks
from speedproof.config.model import Variant
from speedproof.config.workload import Workload
from speedproof.profilers import flop_hook, torch_hook
from speedproof.run.caches import is_private, private_folders
from speedproof.run.mirrored_folders import make_mirror
from speedproof.util.temporary_folder import removable_folder

_PACKAGE = Path(__file__).parents[2]
_CALLBACKS = Path(marks.__file__).with_name("callbacks")
UNWATCHED = {".git", ".snakemake", "__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache"}  # tools' own
# Of what is linked into a working folder so many files are watched for changes, so that a huge data set costs no minutes.
_MOST_WATCHED = 20_000


@contextmanager
def working_folder(workload: Workload, variant: Variant) -> Iterator[Path]:
    """Yield a folder for one run, which goes with it: a copy of the variant's tree, or empty; with its links, if any.

    Only its owner can enter it, whatever the tree's own rights are. It may have private folders beside it, and a mirror of
    the folders above the tree's origin around it.
    """
    with private_folders(workload, variant) if is_private(variant) else removable_folder() as top:
        place = make_mirror(top, workload, variant)
        if (tree := find_tree(workload, variant)) is not None:
            _copy_entries(tree, place)
        for link, target in variant.linked.items():
            (place / link).symlink_to(target)
        yield place


def find_tree(workload: Workload, variant: Variant) -> Path | None:
    """Return the folder that each run of a variant works in a copy of; None if it starts in an empty one, or in its own."""
    return None if variant.tree is None else Path(variant.tree.replace("{workload}", str(workload.folder)))


def list_fixed(workload: Workload, variants: Iterable[Variant]) -> list[Path]:
    """Return what nothing may change while runs of these variants go on."""
    variants = list(variants)
    trees = [tree for variant in variants if (tree := find_tree(workload, variant)) is not None]
    caches = [Path(variant.kept_caches) for variant in variants if variant.kept_caches is not None]
    return list(dict.fromkeys([*trees, *caches, *(Path(name) for variant in variants for name in variant.fixed)]))


def _copy_entries(tree: Path, place: Path) -> None:
    """Copy what a folder holds, with its rights, but not the folder's own: by those others could enter the copy."""
    for entry in tree.iterdir():
        if entry.is_symlink():
            (place / entry.name).symlink_to(entry.readlink())  # `copy2` refuses one that leads to a pipe
        elif entry.is_dir():
            shutil.copytree(entry, place / entry.name, symlinks=True)
        else:
            shutil.copy2(entry, place / entry.name)


def list_outward_links(place: Path) -> list[str]:
    """Return the links in a working folder that lead out of it, by name: what is written through them outlives a run."""
    top = os.path.realpath(place)  # unlike `Path.resolve`, it survives a circle of links
    paths = (Path(folder, name) for folder, folders, files in os.walk(place) for name in (*folders, *files))
    links = (path for path in paths if path.is_symlink() and not Path(os.path.realpath(path)).is_relative_to(top))
    return [path.relative_to(place).as_posix() for path in links]


def list_files(place: Path, linked: Iterable[str]) -> dict[str, tuple[int, int]]:
    """Return size in bytes and time of change in ns of files that are linked into a working folder, by name."""
    found: dict[str, tuple[int, int]] = {}
    for link in linked:
        top = place / link
        paths = (Path(folder, name) for folder, _, names in os.walk(top) for name in names) if top.is_dir() else [top]
        for path in paths:
            if len(found) >= _MOST_WATCHED:
                return found
            try:
                state = path.stat()
            except OSError:
                continue
            found[path.relative_to(place).as_posix()] = (state.st_size, state.st_mtime_ns)
    return found


def list_entries(place: Path, workload: Path) -> list[str]:
    """Return what is watched of a folder that programs run in themselves: all but the proof that lies in it."""
    entries = [entry for entry in place.iterdir() if entry.name not in UNWATCHED]
    return [entry.name for entry in entries if not workload.resolve().is_relative_to(os.path.realpath(entry))]


@contextmanager
def providing_marks(traced_by_torch: bool = False, counting_flop: bool = False) -> Iterator[Path]:
    """Yield a folder from which any interpreter imports `speedproof.marks` and its callbacks, and nothing else of ours.

    A program that is to be `traced_by_torch` also imports what starts torch's profiler, or if `counting_flop` its counter.
    """
    with removable_folder() as folder:
        package = folder / "speedproof"
        package.mkdir()
        (package / "__init__.py").touch()
        shutil.copyfile(marks.__file__, package / "marks.py")
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(_CALLBACKS, package / _CALLBACKS.name, ignore=ignored, copy_function=shutil.copyfile)
        if traced_by_torch:
            shutil.copyfile(torch_hook.__file__, folder / "sitecustomize.py")
        if counting_flop:
            shutil.copyfile(flop_hook.__file__, folder / "sitecustomize.py")
            (package / "profilers").mkdir()
            for name in ("__init__.py", "operator_flop.py", "torch_hook.py"):
                shutil.copyfile(Path(flop_hook.__file__).with_name(name), package / "profilers" / name)
        yield folder


@contextmanager
def taking_marks(folder: Path) -> Iterator[Path]:
    """Yield the folder for a program's marks; they go to `folder` when the program has ended.

    It is new and of the same form in every run, so it does not show which run this is, nor where results lie.
    """
    with removable_folder() as own:
        yield own
        left = own / marks.MARKS_FILE
        if left.is_file() and not left.is_symlink():
            shutil.copyfile(left, folder / marks.MARKS_FILE)


def program_environment(environ: Mapping[str, str], folders: Sequence[Path], hidden: Sequence[Path] = ()) -> dict[str, str]:
    """Return what a program sees: it finds modules in these folders, as without us, and none of the instrument's besides.

    Those that are `hidden` are taken out of its path.
    """
    ours = {"", *map(str, [_PACKAGE, *hidden])}
    others = [path for path in environ.get("PYTHONPATH", "").split(os.pathsep) if path not in ours]
    own = [str(folder) for folder in folders if str(folder) not in others]
    seen = {name: value for name, value in environ.items() if name not in ("PYTHONSAFEPATH", "PYTHONPATH")}
    return {**seen, **({"PYTHONPATH": os.pathsep.join([*own, *others])} if own or others else {})}
