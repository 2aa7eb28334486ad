"""The first step of the workflow: CTs, converted, planned and preprocessed by nnU-Net's own commands."""

import json
import logging
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from speedproof.api import DataError, Dataset, Positive, digest_of, find_entry, sha256_of
from speedproof_common.data import Found, Source, check_source, download, make_stand_in_once, write_dataset
from speedproof_nnunet import phantom
from speedproof_nnunet.folders import DATASET, PREPROCESSED, RAW, RESULTS, TASK, list_variables
from speedproof_nnunet.phantom import StandIn, make_phantom_task
from speedproof_nnunet.published_command import MISSING
from speedproof_spleen.data import REGISTRY
from speedproof_spleen.data.phantom import recipe_digest

log = logging.getLogger("speedproof")

CONFIGURATIONS = ("2d", "3d_fullres")
# The first one's plans determine how CTs are preprocessed; the others plan for the same preprocessed CTs.
PLANNERS = ("ExperimentPlanner", "nnUNetPlannerResEncM", "nnUNetPlannerResEncL")
_ROOM = 4  # of the compressed CTs, which take that much with their copy and two preprocessed sets


class Data(Source):
    """Where the CTs come from, and how long epochs are: `data` of the configuration."""

    registry: ClassVar[Path] = REGISTRY

    registry_entry: str = Field(TASK, description="The registry's entry to download")
    stand_in: StandIn = StandIn()
    processes: Positive = Field(8, le=1024, description="Processes that prepare; each may need 2 GiB of memory")
    iterations: Positive = Field(250, description="Training iterations per epoch")
    validation_iterations: Positive = Field(50, description="Validation iterations per epoch")
    augmentation_processes: Positive | None = Field(
        None, le=1024, description="nnU-Net's processes that augment (nnUNet_n_proc_DA); null: 12, or all cores if fewer"
    )
    final_validation: bool = Field(False, description="Whether a training ends with the prediction of all validation cases")

    def describe_layout(self) -> str:
        """Return what a local folder is."""
        return f"a Decathlon task's folder, such as {TASK}, with imagesTr/, labelsTr/ and dataset.json"

    def list_options(self) -> list[str]:
        """Return the options of `speedproof_nnunet.train` that all variants share."""
        options = ["--iterations", str(self.iterations), "--validation-iterations", str(self.validation_iterations)]
        if self.augmentation_processes is not None:
            options += ["--augmentation-processes", str(self.augmentation_processes)]
        return options + ["--final-validation"] * self.final_validation


def complete(values: dict[str, Any], origin: str) -> dict[str, Any]:
    """Return a configuration with its variants' options, and with what the data need: folders, a download, disk space.

    Raises:
        ConfigError: `data` is wrong; the text names `origin` and the key.
        DataError: the registry has no such entry.
    """
    data = check_source(Data, values.get("data", {}), origin)
    options = " ".join(data.list_options())
    variants = values["completed"].get("variants", {})
    needs = data.describe_needs()
    shared = data.model_dump(
        mode="json", include={"iterations", "validation_iterations", "augmentation_processes", "final_validation"}
    )
    completed = {
        **values["completed"],
        **needs,
        "data_mib": _ROOM * needs["data_mib"],
        "variants": {name: {**one, "command": f"{one['command']} {options}"} for name, one in variants.items()},
        "shared": shared,
    }
    return {**values, "data": data.model_dump(mode="json"), "completed": completed}


def prepare_dataset(data: Data, out: Path) -> Dataset:
    """Fetch or make the CTs, let nnU-Net preprocess them once, and write `out` (`dataset.json`) last.

    Whatever goes wrong is a :class:`DataError`.
    """
    return write_dataset(data, out, lambda: _find(data), digest_content)


def _find(data: Data) -> Found:
    try:
        published = version("nnunetv2")
    except PackageNotFoundError:
        raise DataError(MISSING) from None
    asked: dict[str, str | int] = {"nnunetv2": published}
    if data.source == "stand_in":
        asked |= {"stand_in": data.stand_in.model_dump_json(), "phantom": recipe_digest()}
        stand_in = data.stand_in
        found = Found(Path(), "Spleen phantom", f"{stand_in.count} {stand_in.size} CTs, seed {stand_in.seed}", "Apache-2.0")
    elif data.source == "download":
        found = download(data)
        asked["archive"] = find_entry(REGISTRY, data.registry_entry).checksum[1]
    else:
        folder = Path(data.local_folder or "").expanduser()
        found = Found(folder, folder.resolve().name)
        asked["content"] = _digest_files(folder, ["dataset.json", "imagesTr/*.nii.gz", "labelsTr/*.nii.gz"])
    place = Path(data.folder, f"nnunet-{digest_of(asked)[:8]}")
    room = _ROOM * data.stand_in.estimate_bytes() if data.source == "stand_in" else 0
    made = make_stand_in_once(place, asked, room, phantom, lambda empty: _fill(empty, found.folder, data))
    return Found(made, found.name, found.version, found.licence)


def _fill(empty: Path, source: Path, data: Data) -> None:
    """Let nnU-Net convert, plan and preprocess a Decathlon task; the copy of the task is removed."""
    task = empty / TASK
    if data.source == "stand_in":
        make_phantom_task(task, data.stand_in, data.processes)
    else:
        _link_task(source, task)
    processes = str(data.processes)
    for folder in (RAW, PREPROCESSED, RESULTS):
        (empty / folder).mkdir()
    run_command(empty, "nnUNetv2_convert_MSD_dataset", "-i", str(task.absolute()), "-np", processes)
    run_command(empty, "nnUNetv2_extract_fingerprint", "-d", "9", "-np", processes, "--verify_dataset_integrity", "--no_pbar")
    with ThreadPoolExecutor(len(PLANNERS)) as planning:  # a planner mostly takes one core, for most of a minute
        default, *further = [
            planning.submit(run_command, empty, "nnUNetv2_plan_experiment", "-d", "9", "-pl", one) for one in PLANNERS
        ]
        default.result()
        each = [processes] * len(CONFIGURATIONS)
        run_command(empty, "nnUNetv2_preprocess", "-d", "9", "-c", *CONFIGURATIONS, "-np", *each, "--no_pbar")
        for one in further:
            one.result()
    _write_splits(empty / PREPROCESSED / DATASET)
    shutil.rmtree(task)
    (empty / RESULTS).rmdir()


def _link_task(source: Path, task: Path) -> None:
    """Make a folder of the task's name with links: nnU-Net reads the number from the name, and requires imagesTs."""
    task.mkdir()
    for name in ("imagesTr", "labelsTr", "dataset.json"):
        if not (source / name).exists():
            raise DataError(f"{source / name}: no such file or folder; set `data.local_folder` to a Decathlon task's folder")
        (task / name).symlink_to((source / name).resolve())
    (task / "imagesTs").mkdir()


def run_command(folder: Path, name: str, *arguments: str) -> None:
    """Run a command of nnU-Net on the data of `folder`.

    Raises:
        DataError: it failed; the text has its last line.
    """
    log.info("%s %s", name, " ".join(arguments))
    command = [sys.executable, "-P", "-m", "speedproof_nnunet.published_command", name, *arguments]
    variables = os.environ | list_variables(folder, folder / RESULTS)
    done = subprocess.run(
        command, cwd=folder, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, errors="replace", check=False
    )
    for line in done.stdout.splitlines():
        log.debug("%s", line)
    if done.returncode:
        last = (done.stdout.strip().splitlines() or ["it printed nothing"])[-1]
        raise DataError(f"{name}: exit status {done.returncode}: {last}")


def _write_splits(folder: Path) -> None:
    """Write nnU-Net's own split of the CTs, as its first training would."""
    from nnunetv2.utilities.crossval_split import generate_crossval_split

    cases = sorted(path.name.removesuffix(".nii.gz") for path in (folder / "gt_segmentations").glob("*.nii.gz"))
    splits = generate_crossval_split(cases, seed=12345, n_splits=5)
    named = [{part: [str(case) for case in cases] for part, cases in split.items()} for split in splits]
    (folder / "splits_final.json").write_text(json.dumps(named, indent=4), encoding="utf-8")


def digest_content(folder: Path) -> str:
    """Return a checksum of the CTs, their labels, nnU-Net's plans and its split."""
    own = f"{RAW}/{DATASET}"
    patterns = [f"{own}/dataset.json", f"{own}/imagesTr/*", f"{own}/labelsTr/*", f"{PREPROCESSED}/{DATASET}/*.json"]
    return _digest_files(folder, patterns)


def _digest_files(folder: Path, patterns: list[str]) -> str:
    found = {pattern: set(folder.glob(pattern)) for pattern in patterns}
    if missing := [pattern for pattern, paths in found.items() if not paths]:
        raise DataError(f"{folder}: files are missing: {', '.join(missing)}")
    files = sorted(set().union(*found.values()))
    return digest_of([(path.relative_to(folder).as_posix(), sha256_of(path)) for path in files])
