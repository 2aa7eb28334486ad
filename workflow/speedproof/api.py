"""The stable surface of the instrument: what workloads, scripts and notebooks may import, besides :mod:`speedproof.marks`.

Everything else in the package may move or change its name in any release. Importing this module loads nothing: each name
loads its own module when it is first used, since measured programs import it while they start.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

# Each module of the package that has stable names, and these. The imports below repeat them for type checkers.
_NAMES = {
    # Errors that end a command with one line and an exit status
    "speedproof.common.errors": "ConfigError DataError SpeedproofError StorageError TrainingError",
    # Types of configuration keys
    "speedproof.config.base": "Epochs Folder Model Name Natural Number Positive Seed",
    # Configurations: the whole one and the parts that a workload completes
    "speedproof.config.model": "Completed Config Side",
    "speedproof.config.load": "check_own_config load_config load_files",
    "speedproof.config.plain": "read_yaml",
    "speedproof.config.problems": "describe_problem",
    "speedproof.config.schema": "schema_text",
    # Downloads: registries of archives, published programs, folders that are complete or absent
    "speedproof.fetch.download": "fetch_unpacked",
    "speedproof.fetch.folders": "Marker check_free_space make_once",
    "speedproof.fetch.published": "Published fetch_published find_published take_published",
    "speedproof.fetch.registry": "find_entry read_registry",
    # Files: JSON records, atomic writes, checksums
    "speedproof.records.files": "digest_of read_record replacing sha256_of write_json write_text",
    # The data set that runs read (dataset.json)
    "speedproof.records.dataset": "Case Dataset name_folder",
    # What a run leaves (run.json, epochs.csv), for workloads with a `run` command of their own
    "speedproof.records.run": (
        "EPOCHS_FILE LOG_FILE RUN_FILE TRACE_FOLDER Arm Backend Clock Conditions Gpu Part Rates Run RunOutcome Work "
        "read_epochs read_run write_epochs"
    ),
    "speedproof.records.ranks": "ENDING_FILE Ending find_first_failure rank_folder",
    "speedproof.records.checkpoint": (
        "CHECKPOINTS_FOLDER STATE_FILE BestQuality Checkpoint describe_end find_checkpoint list_checkpoints read_checkpoint "
        "seal_checkpoint"
    ),
    "speedproof.records.block": "PreparedFolder",
    "speedproof.records.doctor": "Software",
    # NVTX ranges, and traces by torch's own profiler
    "speedproof.profiling.ranges": "Ranges Recorder mark_transform record_transforms",
    "speedproof.profiling.kineto": "CLOCK_MARK MARKS ClockMark convert_kineto",
    # The machine and the process: cores, GPU, conditions, start time, signals
    "speedproof.common.environment": "LAUNCHED_VARIABLE available_cores take_umask",
    "speedproof.measure.conditions": "describe_surroundings",
    "speedproof.measure.gpu_monitor": "describe_gpu list_gpu_uuids",
    "speedproof.common.children": "end_with_parent",
    "speedproof.common.signals": "StoppedError raising_when_stopped",
    "speedproof.common.image_file": "identify_image",
    # Command lines that end, log and show progress as the instrument's do
    "speedproof.cli.ending": "run_app",
    "speedproof.cli.options": "ConfigFiles LogFile one_of",
    "speedproof.cli.saying": "start_log",
    "speedproof.common.progress": "report_progress",
}

_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}

if TYPE_CHECKING:  # `X as X` marks a name as exported
    from speedproof.cli.ending import run_app as run_app
    from speedproof.cli.options import ConfigFiles as ConfigFiles
    from speedproof.cli.options import LogFile as LogFile
    from speedproof.cli.options import one_of as one_of
    from speedproof.cli.saying import start_log as start_log
    from speedproof.common.children import end_with_parent as end_with_parent
    from speedproof.common.environment import LAUNCHED_VARIABLE as LAUNCHED_VARIABLE
    from speedproof.common.environment import available_cores as available_cores
    from speedproof.common.environment import take_umask as take_umask
    from speedproof.common.errors import ConfigError as ConfigError
    from speedproof.common.errors import DataError as DataError
    from speedproof.common.errors import SpeedproofError as SpeedproofError
    from speedproof.common.errors import StorageError as StorageError
    from speedproof.common.errors import TrainingError as TrainingError
    from speedproof.common.image_file import identify_image as identify_image
    from speedproof.common.progress import report_progress as report_progress
    from speedproof.common.signals import StoppedError as StoppedError
    from speedproof.common.signals import raising_when_stopped as raising_when_stopped
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
    from speedproof.config.model import Completed as Completed
    from speedproof.config.model import Config as Config
    from speedproof.config.model import Side as Side
    from speedproof.config.plain import read_yaml as read_yaml
    from speedproof.config.problems import describe_problem as describe_problem
    from speedproof.config.schema import schema_text as schema_text
    from speedproof.fetch.download import fetch_unpacked as fetch_unpacked
    from speedproof.fetch.folders import Marker as Marker
    from speedproof.fetch.folders import check_free_space as check_free_space
    from speedproof.fetch.folders import make_once as make_once
    from speedproof.fetch.published import Published as Published
    from speedproof.fetch.published import fetch_published as fetch_published
    from speedproof.fetch.published import find_published as find_published
    from speedproof.fetch.published import take_published as take_published
    from speedproof.fetch.registry import find_entry as find_entry
    from speedproof.fetch.registry import read_registry as read_registry
    from speedproof.measure.conditions import describe_surroundings as describe_surroundings
    from speedproof.measure.gpu_monitor import describe_gpu as describe_gpu
    from speedproof.measure.gpu_monitor import list_gpu_uuids as list_gpu_uuids
    from speedproof.profiling.kineto import CLOCK_MARK as CLOCK_MARK
    from speedproof.profiling.kineto import MARKS as MARKS
    from speedproof.profiling.kineto import ClockMark as ClockMark
    from speedproof.profiling.kineto import convert_kineto as convert_kineto
    from speedproof.profiling.ranges import Ranges as Ranges
    from speedproof.profiling.ranges import Recorder as Recorder
    from speedproof.profiling.ranges import mark_transform as mark_transform
    from speedproof.profiling.ranges import record_transforms as record_transforms
    from speedproof.records.block import PreparedFolder as PreparedFolder
    from speedproof.records.checkpoint import CHECKPOINTS_FOLDER as CHECKPOINTS_FOLDER
    from speedproof.records.checkpoint import STATE_FILE as STATE_FILE
    from speedproof.records.checkpoint import BestQuality as BestQuality
    from speedproof.records.checkpoint import Checkpoint as Checkpoint
    from speedproof.records.checkpoint import describe_end as describe_end
    from speedproof.records.checkpoint import find_checkpoint as find_checkpoint
    from speedproof.records.checkpoint import list_checkpoints as list_checkpoints
    from speedproof.records.checkpoint import read_checkpoint as read_checkpoint
    from speedproof.records.checkpoint import seal_checkpoint as seal_checkpoint
    from speedproof.records.dataset import Case as Case
    from speedproof.records.dataset import Dataset as Dataset
    from speedproof.records.dataset import name_folder as name_folder
    from speedproof.records.doctor import Software as Software
    from speedproof.records.files import digest_of as digest_of
    from speedproof.records.files import read_record as read_record
    from speedproof.records.files import replacing as replacing
    from speedproof.records.files import sha256_of as sha256_of
    from speedproof.records.files import write_json as write_json
    from speedproof.records.files import write_text as write_text
    from speedproof.records.ranks import ENDING_FILE as ENDING_FILE
    from speedproof.records.ranks import Ending as Ending
    from speedproof.records.ranks import find_first_failure as find_first_failure
    from speedproof.records.ranks import rank_folder as rank_folder
    from speedproof.records.run import EPOCHS_FILE as EPOCHS_FILE
    from speedproof.records.run import LOG_FILE as LOG_FILE
    from speedproof.records.run import RUN_FILE as RUN_FILE
    from speedproof.records.run import TRACE_FOLDER as TRACE_FOLDER
    from speedproof.records.run import Arm as Arm
    from speedproof.records.run import Backend as Backend
    from speedproof.records.run import Clock as Clock
    from speedproof.records.run import Conditions as Conditions
    from speedproof.records.run import Gpu as Gpu
    from speedproof.records.run import Part as Part
    from speedproof.records.run import Rates as Rates
    from speedproof.records.run import Run as Run
    from speedproof.records.run import RunOutcome as RunOutcome
    from speedproof.records.run import Work as Work
    from speedproof.records.run import read_epochs as read_epochs
    from speedproof.records.run import read_run as read_run
    from speedproof.records.run import write_epochs as write_epochs
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
