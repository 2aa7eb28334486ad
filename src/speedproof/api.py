"""The stable surface of the instrument for workloads, besides :mod:`speedproof.marks`; scripts import :mod:`speedproof`.

Everything else in the package may move or change its name in any release. Importing this module loads nothing: each name
loads its own module when it is first used, since measured programs import it while they start.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

# Each module of the package that has stable names, and these. The imports below repeat them for type checkers.
_NAMES = {
    # Errors that end a command with one line and an exit status
    "speedproof.util.errors": "ConfigError DataError SpeedproofError StorageError TrainingError",
    # Types of configuration keys
    "speedproof.config.base": "Epochs Folder Model Name Natural Number Positive Seed",
    # Configurations: the whole one and the parts that a workload completes
    "speedproof.config.model": "Completed Config Variant",
    "speedproof.config.load": "check_own_config load_config load_files schema_text",
    "speedproof.util.yaml_input": "read_yaml",
    "speedproof.config.validation_errors": "describe_problem",
    # Downloads: registries of archives, published programs, folders that are complete or absent
    "speedproof.results.download": "fetch_unpacked",
    "speedproof.results.complete_folders": "Marker check_free_space make_once",
    "speedproof.results.published": "Published fetch_published find_published take_published",
    "speedproof.results.registry": "find_entry read_registry",
    # Files: JSON records, atomic writes, checksums
    "speedproof.results.files": "digest_of read_record replacing sha256_of write_json write_text",
    # The data set that runs read (dataset.json)
    "speedproof.results.dataset": "Case Dataset name_folder",
    # What a run leaves (run.json, epochs.csv), for workloads with a `run` command of their own
    "speedproof.results.run_record": (
        "EPOCHS_FILE LOG_FILE RUN_FILE TRACE_FOLDER Mode Backend Clock Conditions Gpu Part Rates Run RunOutcome Work "
        "read_epochs read_run write_epochs"
    ),
    "speedproof.results.trace_results": "ENDING_FILE Ending find_first_failure rank_folder",
    "speedproof.results.checkpoint": (
        "CHECKPOINTS_FOLDER STATE_FILE BestQuality Checkpoint describe_end find_checkpoint list_checkpoints read_checkpoint "
        "seal_checkpoint"
    ),
    "speedproof.results.experiment": "PreparedFolder",
    "speedproof.results.diagnosis": "Software",
    # NVTX ranges, and traces by torch's own profiler
    "speedproof.profilers.ranges": "Ranges Recorder mark_transform record_transforms",
    "speedproof.profilers.kineto": "CLOCK_MARK MARKS ClockMark convert_kineto",
    # The machine and the process: cores, GPU, conditions, start time, signals
    "speedproof.util.environment": "LAUNCHED_VARIABLE available_cores take_umask",
    "speedproof.run.conditions": "describe_surroundings",
    "speedproof.cluster.gpu_monitor": "describe_gpu find_compute_capability list_gpu_uuids",
    "speedproof.util.child_processes": "StoppedError end_with_parent raising_when_stopped",
    "speedproof.util.image_file": "identify_image",
    # Command lines that end, log and show progress as the instrument's do
    "speedproof.cli.exits": "run_app start_log",
    "speedproof.cli.options": "ConfigFiles LogFile one_of",
    "speedproof.util.progress_bar": "report_progress",
}

_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}

if TYPE_CHECKING:  # `X as X` marks a name as exported
    from speedproof.cli.exits import run_app as run_app
    from speedproof.cli.exits import start_log as start_log
    from speedproof.cli.options import ConfigFiles as ConfigFiles
    from speedproof.cli.options import LogFile as LogFile
    from speedproof.cli.options import one_of as one_of
    from speedproof.cluster.gpu_monitor import describe_gpu as describe_gpu
    from speedproof.cluster.gpu_monitor import find_compute_capability as find_compute_capability
    from speedproof.cluster.gpu_monitor import list_gpu_uuids as list_gpu_uuids
    from speedproof.config.base import Epochs as Epochs
    from speedproof.config.base import Folder as Folder
    from speedproof.config.base import Model as Model
    from speedproof.config.base import Name as Name
    from speedproof.config.base import Natural as Natural
    from speedproof.config.base import Number as Number
    from speedproof.config.base import Positive as Positive
    from speedproof.config.base import Seed as Seed
    from speedproof.config.load import check_own_config as check_own_config
    from speedproof.config.load import load_config as load_config
    from speedproof.config.load import load_files as load_files
    from speedproof.config.load import schema_text as schema_text
    from speedproof.config.model import Completed as Completed
    from speedproof.config.model import Config as Config
    from speedproof.config.model import Variant as Variant
    from speedproof.config.validation_errors import describe_problem as describe_problem
    from speedproof.profilers.kineto import CLOCK_MARK as CLOCK_MARK
    from speedproof.profilers.kineto import MARKS as MARKS
    from speedproof.profilers.kineto import ClockMark as ClockMark
    from speedproof.profilers.kineto import convert_kineto as convert_kineto
    from speedproof.profilers.ranges import Ranges as Ranges
    from speedproof.profilers.ranges import Recorder as Recorder
    from speedproof.profilers.ranges import mark_transform as mark_transform
    from speedproof.profilers.ranges import record_transforms as record_transforms
    from speedproof.results.checkpoint import CHECKPOINTS_FOLDER as CHECKPOINTS_FOLDER
    from speedproof.results.checkpoint import STATE_FILE as STATE_FILE
    from speedproof.results.checkpoint import BestQuality as BestQuality
    from speedproof.results.checkpoint import Checkpoint as Checkpoint
    from speedproof.results.checkpoint import describe_end as describe_end
    from speedproof.results.checkpoint import find_checkpoint as find_checkpoint
    from speedproof.results.checkpoint import list_checkpoints as list_checkpoints
    from speedproof.results.checkpoint import read_checkpoint as read_checkpoint
    from speedproof.results.checkpoint import seal_checkpoint as seal_checkpoint
    from speedproof.results.complete_folders import Marker as Marker
    from speedproof.results.complete_folders import check_free_space as check_free_space
    from speedproof.results.complete_folders import make_once as make_once
    from speedproof.results.dataset import Case as Case
    from speedproof.results.dataset import Dataset as Dataset
    from speedproof.results.dataset import name_folder as name_folder
    from speedproof.results.diagnosis import Software as Software
    from speedproof.results.download import fetch_unpacked as fetch_unpacked
    from speedproof.results.experiment import PreparedFolder as PreparedFolder
    from speedproof.results.files import digest_of as digest_of
    from speedproof.results.files import read_record as read_record
    from speedproof.results.files import replacing as replacing
    from speedproof.results.files import sha256_of as sha256_of
    from speedproof.results.files import write_json as write_json
    from speedproof.results.files import write_text as write_text
    from speedproof.results.published import Published as Published
    from speedproof.results.published import fetch_published as fetch_published
    from speedproof.results.published import find_published as find_published
    from speedproof.results.published import take_published as take_published
    from speedproof.results.registry import find_entry as find_entry
    from speedproof.results.registry import read_registry as read_registry
    from speedproof.results.run_record import EPOCHS_FILE as EPOCHS_FILE
    from speedproof.results.run_record import LOG_FILE as LOG_FILE
    from speedproof.results.run_record import RUN_FILE as RUN_FILE
    from speedproof.results.run_record import TRACE_FOLDER as TRACE_FOLDER
    from speedproof.results.run_record import Backend as Backend
    from speedproof.results.run_record import Clock as Clock
    from speedproof.results.run_record import Conditions as Conditions
    from speedproof.results.run_record import Gpu as Gpu
    from speedproof.results.run_record import Mode as Mode
    from speedproof.results.run_record import Part as Part
    from speedproof.results.run_record import Rates as Rates
    from speedproof.results.run_record import Run as Run
    from speedproof.results.run_record import RunOutcome as RunOutcome
    from speedproof.results.run_record import Work as Work
    from speedproof.results.run_record import read_epochs as read_epochs
    from speedproof.results.run_record import read_run as read_run
    from speedproof.results.run_record import write_epochs as write_epochs
    from speedproof.results.trace_results import ENDING_FILE as ENDING_FILE
    from speedproof.results.trace_results import Ending as Ending
    from speedproof.results.trace_results import find_first_failure as find_first_failure
    from speedproof.results.trace_results import rank_folder as rank_folder
    from speedproof.run.conditions import describe_surroundings as describe_surroundings
    from speedproof.util.child_processes import StoppedError as StoppedError
    from speedproof.util.child_processes import end_with_parent as end_with_parent
    from speedproof.util.child_processes import raising_when_stopped as raising_when_stopped
    from speedproof.util.environment import LAUNCHED_VARIABLE as LAUNCHED_VARIABLE
    from speedproof.util.environment import available_cores as available_cores
    from speedproof.util.environment import take_umask as take_umask
    from speedproof.util.errors import ConfigError as ConfigError
    from speedproof.util.errors import DataError as DataError
    from speedproof.util.errors import SpeedproofError as SpeedproofError
    from speedproof.util.errors import StorageError as StorageError
    from speedproof.util.errors import TrainingError as TrainingError
    from speedproof.util.image_file import identify_image as identify_image
    from speedproof.util.progress_bar import report_progress as report_progress
    from speedproof.util.yaml_input import read_yaml as read_yaml
else:
    __all__ = sorted(_MODULES)

    def __getattr__(name: str) -> Any:
        """Load a name's module when the name is first used."""
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = value = getattr(import_module(_MODULES[name]), name)
        return value

    def __dir__() -> list[str]:
        return __all__
