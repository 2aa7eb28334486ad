"""What tests of workloads use of the instrument beyond `speedproof.api`: what it reads of a program, and how it starts one."""

from speedproof.cluster.nodes import Node
from speedproof.cluster.torchrun import rank_variables, torchrun_command
from speedproof.config.workload import Workload, find_workload
from speedproof.run.command_words import program_command
from speedproof.run.printed_output import LineClock
from speedproof.run.read_lines import read_lines
from speedproof.run.read_marks import read_marks
from speedproof.run.working_folder import providing_marks
from speedproof.stats.claims_file import Level, Speedup, load_claims

__all__ = [
    "Level",
    "LineClock",
    "Node",
    "Speedup",
    "Workload",
    "find_workload",
    "load_claims",
    "program_command",
    "providing_marks",
    "rank_variables",
    "read_lines",
    "read_marks",
    "torchrun_command",
]
