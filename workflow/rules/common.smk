# Shared by all steps: the checked configuration, and the parts of it and the sources that each step depends on

import os
import sys
import tempfile
from pathlib import Path

from snakemake.settings.types import DeploymentMethod

sys.path.insert(0, str(BASE / "src"))

from speedproof.util.child_processes import WORKFLOW_VARIABLE
from speedproof.cluster.apptainer import job_environment, sees_gpu
from speedproof.cluster.slurm import AGAIN, explain_failures
from speedproof.cluster.build_image import image_path, image_record_path, is_given
from speedproof.cluster.folder_names import check_command_line_settings, check_folders
from speedproof.cluster.slurm import request_resources
from speedproof.config.load import check_config
from speedproof.config.workload import find_workload
from speedproof.util.environment import find_scratch, step_environment
from speedproof.util.errors import SpeedproofError
from speedproof.util.failure_reasons import leave_reason
from speedproof.util.image_file import identify_image
from speedproof.run.plan import plan_experiment
from speedproof.results.files import write_json_if_changed
from speedproof.results.trace_results import process_folders
from speedproof.results.run_record import without_title
from speedproof.util.sources import digest_step

CONTAINERISED = DeploymentMethod.APPTAINER in workflow.deployment_settings.deployment_method

try:
    CONFIG = check_config(config)
    WORKLOAD = find_workload(CONFIG.case)
    FOLDERS = {
        "the checkout": BASE,
        "the working folder": Path.cwd(),
        "results": Path(CONFIG.results),
        "resources.scratch": find_scratch(CONFIG.resources.scratch, os.environ),
        "$TMPDIR": Path(tempfile.gettempdir()),
        "case": WORKLOAD.folder,
        **{f"the library {folder.name}": folder for folder in WORKLOAD.own_folders[1:]},
        **{key: Path(folder) for key, folder in CONFIG.completed.folders.items()},
    }
    check_folders(FOLDERS)
    if not workflow.local_exec:
        check_folders({"--configfile": path for path in workflow.overwrite_configfiles})
        check_command_line_settings(workflow.config_settings.config)
    IMAGE_IDENTITY = identify_image(image_path(CONFIG.container)) if CONTAINERISED and is_given(CONFIG.container) else None
except SpeedproofError as error:
    leave_reason(error)
    sys.exit(f"speedproof: {error}")

os.environ.update(step_environment(os.environ), **{WORKFLOW_VARIABLE: str(os.getpid())})
os.environ.update(WORKLOAD.environment(os.environ))
if CONTAINERISED:
    os.environ.update(job_environment(os.environ, WORKLOAD.module_folders, FOLDERS.values(), sees_gpu()))

# All cores; a Slurm job requests its own number as a resource.
CORES = workflow.resource_settings.cores or 1

RESULTS = CONFIG.results
IMAGE = str(image_path(CONFIG.container))
IMAGE_RECORD = str(image_record_path(CONFIG.container))
IMAGE_SOURCES = ["speedproof.def", "requirements.txt", "install.py", "check.py"]
IMAGE_NEEDED = [IMAGE_RECORD] if CONTAINERISED else []
DATASET = f"{RESULTS}/data/{CONFIG.completed.dataset}/dataset.json"
DOCTOR = f"{RESULTS}/doctor.json"
ASKED = f"{RESULTS}/.doctor-asked"
COMPARISON = f"{RESULTS}/comparison.json"
REPORT = f"{RESULTS}/report.html"

# The configuration that steps read. It is not an input of a job, or every change would rerun all; see settings_of.
CONFIG_FILE = f"{RESULTS}/config.json"
write_json_if_changed(Path(CONFIG_FILE), CONFIG)


def settings_of(*sections):
    """Return the sections of the configuration that a step depends on: if they change, it runs again."""
    return CONFIG.model_dump(mode="json", include=set(sections))


def settings_of_experiments():
    """Return the settings of an experiment, without variants that it does not measure: changing these reruns nothing.

    Titles are left out, so that correcting one reruns nothing.
    """
    settings = {**settings_of("case", "measurement", "profiling"), "workload": CONFIG.shared}
    del settings["measurement"]["experiments"]  # their number changes the plan of none
    del settings["profiling"]["keep_reports"]
    measured = {name: without_title(CONFIG.completed_variants[name].settings) for name in CONFIG.measurement.all_variants()}
    return {**settings, "variants": measured}


def titles_of_variants():
    """Return the titles of the variants, which the comparison takes from the configuration."""
    return {name: CONFIG.completed_variants[name].title for name in CONFIG.measurement.all_variants()}


def sources_of(step):
    """Return the digest of a step's sources: if one is edited, it runs again."""
    return [digest_step(step), WORKLOAD.digest_sources(step)]


def profiled_runs(experiment):
    """Return the names of an experiment's runs that leave traces, each with its number of ranks."""
    plan = plan_experiment(CONFIG, experiment)
    profiled = {name: run for name, run in zip(plan.folders(), plan.order) if run.mode != "timed"}
    return {name: CONFIG.completed_variants[run.variant].ranks for name, run in profiled.items()}


def analyses():
    """Return the results of trace analysis: a summary of each run, and the waits between ranks if there are several."""
    folders = {
        f"{RESULTS}/analysis/{experiment}/{run}": ranks
        for experiment in CONFIG.experiments()
        for run, ranks in profiled_runs(experiment).items()
    }
    return [
        f"{folder}/{name}.json" for folder, ranks in folders.items() for name in ["summary", *(["ranks"] if ranks > 1 else [])]
    ]


def traces_of(experiment, run):
    """Return the folders of a run's traces, rank 0's first."""
    folder = Path(RESULTS, "experiments", experiment, "runs", run)
    return [f"{place}/trace" for place in process_folders(folder, profiled_runs(experiment)[run])]
