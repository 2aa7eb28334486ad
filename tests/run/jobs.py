"""Small experiments for tests."""

from pathlib import Path

from speedproof.config.load import check_config as load_any_config
from speedproof.results.dataset import Dataset
from speedproof.results.files import write_json
from speedproof.results.run_record import Conditions
from speedproof.run.conditions import describe_conditions as describe_program_conditions
from speedproof.run.run_experiment import Job
from speedproof_spleen.config import check_config, load_config
from speedproof_spleen.data.prepare import prepare_dataset
from speedproof_spleen.training.conditions import choose_device, describe_conditions
from tests.session_folders import make_session_folder

ROOT = Path(__file__).parents[2]
VOLUMES = make_session_folder("speedproof-volumes-")  # made once in a process; nobody changes them
# Techniques of a variant for tests whose subject is what stands around a training: it starts without MONAI, seconds sooner.
QUICK = load_config(ROOT / "config.yaml").variants["turbo"].model_dump(mode="json") | {"precision": "fp32", "kernels": []}


def make_program_job(folder: Path, profiling: dict, **measurement) -> tuple[Job, Conditions]:
    """Return an experiment of a tiny program that marks epochs and ranges and trains nothing, and its conditions."""
    measured = {"variants": ["tiny"], "epochs": 2, "device": "cpu", "rounds": 0, "profiled": 1} | measurement
    config = load_any_config(
        {"case": str(ROOT / "tests/cluster/tiny_programs"), "profiling": profiling, "measurement": measured}
    )
    results = folder / "results"
    write_json(results / "config.json", config)
    dataset = Dataset(source="own", name="none", version="", licence="unknown", synthetic=False, folder=".", cases=[])
    write_json(results / "dataset.json", dataset)
    job = Job(config, [results / "config.json"], results / "dataset.json", "experiment-1", results / "experiments/experiment-1")
    return job, describe_program_conditions("cpu", 1, dataset)


def make_job(folder: Path, profiling: dict, added: dict | None = None, **measurement) -> tuple[Job, Conditions]:
    """Return an experiment of the ci configuration on the processor, and its conditions.

    Variants that are `added` have baseline's techniques but for what each one says.
    """
    values = load_config(ROOT / "config.yaml", ROOT / "workflow/config/ci.yaml").model_dump(mode="json")
    for name, techniques in (added or {}).items():
        values["variants"][name] = values["variants"]["baseline"] | techniques
    values["measurement"] |= {"device": "cpu"} | measurement
    values["profiling"] |= profiling
    values["data"] |= {"folder": str(VOLUMES)}
    config, results = check_config(values), folder / "results"
    write_json(results / "config.json", config)
    dataset = prepare_dataset(config.data, results / "dataset.json")
    job = Job(config, [results / "config.json"], results / "dataset.json", "experiment-1", results / "experiments/experiment-1")
    return job, describe_conditions(choose_device("cpu"), dataset)
