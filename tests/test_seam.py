"""The seam, in both directions.

The instrument runs a workload's commands and reads its files; it neither imports nor names them, or what they train with.
A workload imports the stable surface of the instrument: `speedproof.api`, and in measured programs `speedproof.marks`.
"""

import ast
import re
import subprocess
import sys
import tomllib
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from speedproof import api
from speedproof.config.load import check_config, read_completed_config
from speedproof.config.workload import find_workload
from speedproof.util.errors import ConfigError, DataError, SpeedproofError

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src/speedproof"
SHIPPED = [path.parent.relative_to(ROOT / "workloads").as_posix() for path in (ROOT / "workloads").rglob("workload.yaml")]
# Frameworks and libraries of what is measured, not of the instrument.
FOREIGN = {
    "torch",
    "monai",
    "tensorflow",
    "jax",
    "nibabel",
    "tensorboard",
    "triton",
    *(f"speedproof_{path.parent.name}" for path in (ROOT / "workloads").glob("*/pyproject.toml")),
}

# What the first workload is about. The instrument may not name it, nor any workload that is shipped.
ITS_WORDS = {"dice", "monai", "spleen", *(name.partition("/")[0] for name in SHIPPED)}
# Converts results of the version that knew the first workload only.
MAY_NAME_IT = {"src/speedproof/results/older_versions.py"}
# `marks` is copied together with its callbacks to where a measured program finds them.
STABLE = re.compile(r"speedproof\.(api|marks|callbacks\.\w+)")

ALL_MODULES = """
import importlib, pkgutil, sys, speedproof
for module in pkgutil.walk_packages(speedproof.__path__, "speedproof."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
print(*sorted({name.partition(".")[0] for name in sys.modules}))
"""

WORKLOAD = """
title: A shell script
commands: {configure: "sh configure.sh", prepare: "true", conditions: "true", software: "true", run: "true", fill: "true"}
sources: {}
"""


@cache
def find_imports(path):
    """Return a module's statements of import: several tests look at the same hundreds of modules."""
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]


def test_no_module_of_the_instrument_names_what_is_measured():
    imported = {
        (path.relative_to(PACKAGE).as_posix(), name.partition(".")[0])
        for path in PACKAGE.rglob("*.py")
        for node in find_imports(path)
        for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names])
    }
    assert len(imported) > 100
    assert [(path, name) for path, name in imported if name in FOREIGN] == []


def test_rooms_of_the_instrument_know_those_below_them_only():
    rooms: dict[str, set[str]] = {}
    for path in PACKAGE.rglob("*/*.py"):
        room = path.relative_to(PACKAGE).parts[0]
        for node in find_imports(path):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("speedproof."):
                rooms.setdefault(room, set()).add(str(node.module).split(".")[1])
    below = {room: names - {room} for room, names in rooms.items()}
    assert list(TopologicalSorter(below).static_order()) != []  # which fails where they go round in a circle
    assert below["results"] == {"util"}
    assert below["trace"] == {"results", "util"}
    assert "trace" not in below["profilers"] | below["stats"]
    assert len(rooms) <= 11


def test_the_instrument_names_no_workload():
    word = re.compile(rf"(?<![a-z])({'|'.join(sorted(ITS_WORDS))})(?![a-z])", re.IGNORECASE)
    places = [PACKAGE, *(ROOT / "workflow" / name for name in ("Snakefile", "rules", "report", "schemas"))]
    files = [path for place in places for path in ([place] if place.is_file() else place.rglob("*"))]
    named = {
        f"{path.relative_to(ROOT)}": found[0]
        for path in files
        if path.is_file() and path.suffix != ".pyc"
        if (found := word.search(path.read_text(encoding="utf-8")))
    }
    assert len(files) > 190
    assert named.keys() == MAY_NAME_IT


@pytest.mark.parametrize("name", sorted(path.parent.name for path in (ROOT / "workloads").glob("*/pyproject.toml")))
def test_a_workload_imports_the_stable_surface_only(name):
    for path in (ROOT / "workloads" / name).rglob("*.py"):
        ours = {module for module in imported_by(path) if module.partition(".")[0] == "speedproof"}
        assert [module for module in ours if not STABLE.fullmatch(module)] == [], path


@pytest.mark.parametrize("name", sorted(path.parent.name for path in (ROOT / "workloads").glob("*/pyproject.toml")))
def test_a_workload_runs_no_module_of_the_instrument_but_the_stable_ones(name):
    for path in (ROOT / "workloads" / name).rglob("*"):
        if path.suffix in {".py", ".sh", ".yaml", ".sbatch", ".toml", ".def"}:
            run = re.findall(r"-m[\s\"',]+(speedproof\.[\w.]+)", path.read_text(encoding="utf-8"))
            assert [module for module in run if not STABLE.fullmatch(module)] == [], path


def test_the_stable_names_are_there_and_typed_as_they_are_loaded():
    tree = ast.parse(Path(api.__file__).read_text(encoding="utf-8"))
    typed = next(node for node in tree.body if isinstance(node, ast.If))
    promised = {
        (str(node.module), name.name, name.asname)
        for node in typed.body
        if isinstance(node, ast.ImportFrom)
        for name in node.names
    }
    assert promised == {(module, name, name) for name, module in api._MODULES.items()}
    assert all(getattr(api, name) is not None for name in api.__all__)
    assert set(api.__all__) == set(dir(api))
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = api.nonsense


def test_to_import_the_stable_surface_loads_nothing():
    program = "import sys, speedproof.api; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert {name for name in loaded if name.partition(".")[0] == "speedproof"} == {"speedproof", "speedproof.api"}
    assert {"matplotlib", "numpy", "pandas", "pyarrow", "pydantic", "requests", "seaborn", "typer"} & set(loaded) == set()


def test_nothing_that_is_imported_brings_it():
    loaded = subprocess.run([sys.executable, "-c", ALL_MODULES], capture_output=True, text=True, check=True).stdout.split()
    assert "pyarrow" in loaded
    assert FOREIGN & set(loaded) == set()


def test_the_instrument_is_installed_without_it():
    asked = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    names = {line.split("=")[0].split(">")[0].split("<")[0] for line in asked}
    assert "pydantic" in names
    assert FOREIGN & names == set()


@pytest.mark.parametrize("name", SHIPPED)
def test_what_a_shipped_workload_names_is_there(name):
    workload = find_workload(name)
    assert workload.claims.is_file()
    assert all((workload.folder / source).exists() for sources in workload.declared.sources.values() for source in sources)


@pytest.mark.parametrize("name", SHIPPED)
def test_variants_programs_import_nothing_of_the_instrument_but_marks_and_callbacks(name):
    workload = find_workload(name)
    commands = [variant.command or "" for variant in workload.declared.variants.values()]
    waiting = {found for command in commands for found in re.findall(r"-m (speedproof_\S+)", command)}
    seen: set[str] = set()
    while waiting:
        module = waiting.pop()
        seen.add(module)
        for path in (folder / f"{module.replace('.', '/')}.py" for folder in workload.module_folders):
            waiting |= (imported_by(path) if path.is_file() else set()) - seen
    ours = {module for module in seen if module.startswith("speedproof.")}
    assert [module for module in ours if not re.match(r"speedproof\.(marks$|callbacks\.)", module)] == []


def imported_by(path):
    names = set()
    for node in find_imports(path):
        if isinstance(node, ast.ImportFrom):
            names |= {f"{node.module}.{name.name}" if node.module == "speedproof" else str(node.module) for name in node.names}
        else:
            names |= {name.name for name in node.names}
    return names


def test_a_workload_s_programs_find_the_modules_of_its_libraries(tmp_path):
    declare(tmp_path / "mine", "title: Mine\nlibraries: [../shared]\nsources: {experiment: [../shared]}\n")
    (tmp_path / "shared").mkdir()
    module = tmp_path / "shared" / "common_parts.py"
    module.write_text("")
    workload = find_workload(str(tmp_path / "mine"))
    environment = {"PATH": "/usr/bin", **workload.environment({})}
    subprocess.run([sys.executable, "-c", "import common_parts"], env=environment, cwd="/", check=True)
    before = workload.digest_sources("experiment")
    module.write_text("changed = True")
    assert workload.digest_sources("experiment") != before


def test_a_library_that_is_not_there_is_named(tmp_path):
    declare(tmp_path / "mine", "title: Mine\nlibraries: [../lacking]\n")
    with pytest.raises(ConfigError, match=r"workload\.yaml: libraries: there is no folder .*/lacking; name one that is there"):
        find_workload(str(tmp_path / "mine"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("sides: {}", "`sides` is now `variants`"),
        ("sources: {block: [a.py]}", "sources: `block` is now `experiment`"),
        ("sources: {report: [a.py]}", "sources: `report` is not a step with sources; use `data` or `experiment`"),
    ],
)
def test_a_key_that_would_decide_nothing_is_refused(tmp_path, text, said):
    declare(tmp_path / "mine", f"title: Mine\n{text}\n")
    with pytest.raises(ConfigError, match=said):
        find_workload(str(tmp_path / "mine"))


def declare(folder, text):
    folder.mkdir()
    (folder / "workload.yaml").write_text(text)


def test_a_workload_is_added_by_its_folder_alone(tmp_path):
    for path in ["Makefile", "pyproject.toml", "requirements.lock", "requirements.cpu.lock"]:
        (tmp_path / path).symlink_to(ROOT / path)
    for name in ["mine", "spleen"]:
        (tmp_path / "workloads" / name).mkdir(parents=True)
        (tmp_path / "workloads" / name / "pyproject.toml").touch()
    done = subprocess.run(["make", "-n", ".venv/.installed"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "--editable . --editable workloads/mine --editable workloads/spleen" in done.stdout
    assert all(str(ROOT / "workloads" / name) in sys.path for name in SHIPPED if "/" not in name)
    checked = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["mypy"]["files"]
    packages = {path for pattern in checked for path in ROOT.glob(pattern)}
    assert {path.parent / f"speedproof_{path.parent.name}" for path in ROOT.glob("workloads/*/pyproject.toml")} <= packages


def made_of(folder, configure):
    folder.mkdir()
    (folder / "workload.yaml").write_text(WORKLOAD.replace("sh configure.sh", f"sh {folder}/configure.sh"))
    (folder / "configure.sh").write_text(configure)
    return {"case": str(folder), "measurement": {"variants": ["one"]}}


def test_a_workload_is_a_folder_whose_command_says_what_can_be_measured(tmp_path):
    completed = '{"variants": {"one": {"title": "One", "epochs": 3, "validate_every": 1, "settings": {"rate": 0.1}}}}'
    values = made_of(
        tmp_path / "mine", f'cat <<\'END\'\n{{"measurement": {{"variants": ["one"]}}, "completed": {completed}}}\nEND\n'
    )
    config = check_config(values)
    assert (config.completed_variants["one"].title, config.epochs_of("one"), config.experiment_nodes()) == ("One", 3, 1)


@pytest.mark.parametrize(
    ("configure", "kind", "said"),
    [
        ("echo 'speedproof: config: rate: must be above 0' >&2; exit 2", ConfigError, "config: rate: must be above 0"),
        ("echo 'no such registry' >&2; exit 3", DataError, "no such registry"),
        ("exit 9", SpeedproofError, "exit status 9: it said nothing"),
        (
            "python3 -c 'import no_such_module.part'",
            SpeedproofError,
            "mine needs the module no_such_module, which sh does not find; install what the workload needs, as its README says",
        ),
        ("echo hello", ConfigError, "commands.configure printed no JSON"),
        ("echo '{}'", ConfigError, "measurement: is missing"),
    ],
)
def test_a_workload_that_refuses_or_fails_is_quoted_in_one_line(tmp_path, configure, kind, said):
    with pytest.raises(kind) as caught:
        check_config(made_of(tmp_path / "mine", configure))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("case", ["nowhere", "/nowhere/at/all", "", 7])
def test_a_workload_that_is_not_there_is_named(case):
    with pytest.raises(ConfigError, match="case"):
        check_config({"case": case})


def test_the_configuration_of_someone_elses_results_runs_nothing(tmp_path):
    values = made_of(tmp_path / "mine", f"touch {tmp_path}/injected")
    (tmp_path / "config.json").write_text(f'{{"case": "{values["case"]}", "measurement": {{"variants": ["one"]}}}}')
    with pytest.raises(ConfigError, match="not one of ours"):
        read_completed_config(tmp_path / "config.json")
    assert not (tmp_path / "injected").exists()
