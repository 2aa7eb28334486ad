"""What tests of workloads use of the instrument beyond `speedproof.api`: what it reads of a program, and how it starts one."""

from speedproof.config.workload import Workload, find_workload
from speedproof.measure.nodes import Node
from speedproof.measure.torchrun import rank_variables, torchrun_command
from speedproof.sides.program import program_command
from speedproof.sides.read_lines import LineClock, read_lines
from speedproof.sides.read_marks import read_marks
from speedproof.sides.working_folder import providing_marks
from speedproof.verdicts.claims_file import Level, Speedup, load_claims

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
