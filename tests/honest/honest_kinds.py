"""Honest programs, and how prove reads each."""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from speedproof import marks
from tests.adversary.bench import Outside, Place, Proof, compare_outside, keep_history, placing, prove

PROGRAMS = Path(__file__).parent / "programs"
TIMES = ("--epoch-s", r"took (\S+) s")
# Two commands of one program: seconds of an epoch, and how many. By the clock the second is 1.5 times as fast.
SECONDS, EPOCHS = (0.030, 0.020), 6
MOST_ROUNDS = 6
# By how much epochs are longer in each try. Shortest epochs save 60 ms in all; on a busy machine start-up varies by as much.
_LONGER = (1, 2, 4, 8)
# Beside what the outside clock itself is unsure of: 1.4 ms for each epoch of 20 ms. 300 sleeps of 20 ms on two cores, idle or
# with two busy loops, took 0.1 to 0.2 ms longer on average, and 4 ms at most.
OUTSIDE_TOLERANCE = 1.07


@dataclass(frozen=True)
class Honest:
    """A program, how it is started, and the options of prove that read it."""

    name: str
    options: tuple[str, ...] = TIMES
    command: str = "python {name}.py"
    whole: bool = False  # whether whole processes are compared
    times_all: bool = True  # whether all of its epoch is in the time that it prints
    needs: str = ""


ROWS = ("--epoch-s", "seconds")
HONEST = [
    *(
        Honest(name)
        for name in (
            "plain",
            "progress_bar",
            "buffered",
            "buffers_the_slower",
            "validates_unreported",
            "compiles_first",
            "starts_slowly",
            "ends_slowly",
            "loader_workers",
            "prefetches",
            "ranks",
            "rounds",
            "keeps_a_cache",
            "shares_a_cache",
            "leaves_a_log",
            "starts_variably",
            "caches_and_logs",
            "writes_checkpoints",
            "talks",
            "reports_to_child",
            "rewrites_a_log",
            "replaces_its_checkpoint",
        )
    ),
    Honest("validates_longer_share", times_all=False),
    Honest("arrivals", ("--epoch", "^epoch")),
    Honest("every_tenth", ("--epoch-s", r"time (\S+)ms")),
    Honest("cumulative", ("--epoch-s", r"elapsed (\S+) s", "--cumulative")),
    Honest("rate", ("--rate", r"(\S+) tok/s")),
    Honest("rate_starts_slowly", ("--rate", r"(\S+) tok/s"), times_all=False),
    Honest("ranks_print", (*TIMES, "--gpus", "2")),
    Honest("leaves_a_helper", times_all=False),
    Honest("clock_time", ("--epoch-s", r"took (\S+)")),
    Honest("marks_epochs", ()),
    Honest("csv_appended", ("--file", "log.csv", *ROWS)),
    Honest("csv_at_end", ("--file", "log.csv", *ROWS)),
    Honest("json_lines", ("--file", "log.jsonl", *ROWS)),
    Honest("sleeps", (), whole=True),
    Honest("two_commands", ("--epoch", "^epoch"), "sh two_commands.sh"),
    Honest("sleep", TIMES, "./sleep", needs="cc"),
]


@dataclass(frozen=True)
class Examined:
    """What an outside clock and prove say of two commands of an honest program."""

    honest: Honest
    outside: Outside
    proof: Proof

    @property
    def agrees(self) -> bool:
        """Tell whether prove's interval meets what the outside clock says, or what was slept if that is not the whole epoch."""
        if self.proof.interval is None:
            return False
        low, high = self.proof.interval.low / OUTSIDE_TOLERANCE, self.proof.interval.high * OUTSIDE_TOLERANCE
        return self.outside.meets(low, high) if self.honest.times_all else low <= SECONDS[0] / SECONDS[1] <= high

    @property
    def too_noisy(self) -> bool:
        """Tell whether only noise kept prove from an outcome, or from noticing reports in time, as on a busy machine."""
        kinds = {one["kind"] for one in self.proof.objections if one["blocks"]}
        return bool(kinds) and kinds <= {"unsupported", "unobserved"}


def lay_out(honest: Honest, place: Place) -> None:
    """Put a program into a folder of its own."""
    if honest.needs == "cc":
        subprocess.run(["cc", "-O1", "-o", place.work / honest.name, PROGRAMS / f"{honest.name}.c"], check=True)
        return
    if honest.name in ("rewrites_a_log", "replaces_its_checkpoint"):
        (place.work / "kept").mkdir()
        (place.work / "kept/train.log").write_text("of an earlier run")
        (place.work / "kept/step-1.pt").touch()
        (place.work / ".gitignore").write_text("kept/\n")
        keep_history(place.work)
    (program,) = PROGRAMS.glob(f"{honest.name}.*")
    shutil.copyfile(program, place.work / program.name)
    shutil.copyfile(marks.__file__, place.work / "marks.py")


def examine_again(honest: Honest) -> Examined:
    """Examine a program, and again with longer epochs while the machine is too noisy for it, as the sentence advises."""
    for longer in _LONGER[:-1]:
        examined = examine(honest, longer)
        if not examined.too_noisy:
            return examined
    return examine(honest, _LONGER[-1])


def examine(honest: Honest, longer: int = 1) -> Examined:
    """Have both commands proved, and time them from outside until the shortest runs agree with that."""
    with placing() as place:
        lay_out(honest, place)
        command = honest.command.format(name=honest.name)
        commands = [f"{command} {longer * seconds:g} {EPOCHS}" for seconds in SECONDS]
        shortest = [] if honest.whole else [f"{command} {longer * seconds:g} 1" for seconds in SECONDS]
        proof = prove(place, commands, honest.options)
        rounds = compare_outside(place, [one.split() for one in commands], [one.split() for one in shortest])
        for number, outside in enumerate(rounds, start=1):
            examined = Examined(honest, outside, proof)
            if number == MOST_ROUNDS or examined.agrees:
                break
        return examined
