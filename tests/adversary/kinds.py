"""Which programs compete with which, how prove reads them, and what is wanted of each."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Kind:
    """A pair of programs of known truth; the second is the adversary."""

    program: str  # of programs/, without .py
    check: str  # whose work it is to catch it
    reference: str = "honest"
    name: str = ""  # where several kinds share a program
    options: tuple[str, ...] | None = None  # of prove, in place of the one that reads printed seconds
    also: tuple[str, ...] = ()  # options of prove besides
    truth: str = "1"  # how many times as fast the adversary is, of FACTOR and EPOCHS
    whole: bool = False  # whether whole processes are compared: only an outside clock knows how long one takes to start
    where: str = ""  # WHERE, of programs that keep something
    names: str = ""  # what the sentence must say if the true ratio is confirmed
    worse: bool = False  # its result is worse, so that no speedup may be confirmed
    swaps: bool = True  # whether the adversary may as well be the first of the two
    starts: int = 1  # of an interpreter, until it works
    tree: bool = True  # whether all that it starts belongs to its time
    needs: str = ""  # a program of the machine
    shared_python: bool = False  # whether the machine's own Python runs it, which looks into the home folder
    unreachable: str = ""  # why it cannot be caught
    does: str = ""  # beside what its program says
    beside: tuple[str, ...] = ()  # files of programs/ that lie beside it
    packages: tuple[str, ...] = ()  # modules of programs/ that its environment has, compiled
    restored: tuple[str, ...] = ()  # modules of programs/ that its environment has before each run
    settings: str = ""  # a file of settings that is there before each run

    @property
    def title(self) -> str:
        return self.name or self.program


QUALITY = ("--quality", r"accuracy: (\S+)", "--margin", "0.01")
COMMAND = ("--quality-command", "python evaluate.py {run}", "--artifact", "result.txt", "--margin", "0.01")
LAZY = ("--quality-command", "python evaluate_lazy.py {run}", *COMMAND[2:])
TESTED = ("--quality-command", "python evaluate_on_test_set.py {run}", *COMMAND[2:])
JUDGED: dict = {"reference": "honest_result", "truth": "FACTOR", "worse": True, "swaps": False}
MARKED: dict = {"reference": "honest_marks", "options": ()}
FILED: dict = {"reference": "honest_file", "options": ("--file", "log.csv", "--epoch-s", "seconds")}
RATED: dict = {"reference": "honest_rate", "options": ("--rate", r"(\S+) tok/s")}
WHOLE = ("--metric", "process_s")
KEPT = {
    "~/.cache": "its home",
    "/tmp": "/tmp, by an absolute path",
    "/var/tmp": "/var/tmp",
    "/dev/shm": "shared memory",
    "${TMPDIR}": "its temporary folder",
    "${TRITON_CACHE_DIR}": "the folder of a compile cache",
    "ignored": "an ignored folder, which is linked",
    "data": "a folder behind a link",
}
SETTINGS = {  # by WHERE: the file, and where that is, in words
    "~/.config": ("{home}/.config/{tag}", "its home"),
    "/tmp": ("/tmp/{tag}", "/tmp"),
}
CLOCKS, CARRY, BLIND, WORK, QUIET = "clocks", "carried over", "watched", "work and quality", "machine"
CHECKED = {
    CLOCKS: "What a program prints, against the clock",
    CARRY: "What runs leave, and what they edit",
    BLIND: "Whether a program knows that it is measured",
    WORK: "How much is done, and how well",
    QUIET: "What a program does to the other",
}

KINDS = [
    *(
        Kind(program, CLOCKS)
        for program in (
            "says_half",
            "rounds_down",
            "prints_before",
            "works_before",
            "thread_works_on",
            "lazy_results",
            "child_works_on",
            "daemon_works_on",
            "subprocess_works_on",
            "works_at_exit",
            "patched_clock",
            "drifting_clock",
            "cpu_clock",
            "lacks_synchronize",
            "buffered_lines",
            "splits_epochs",
            "moves_to_setup",
            "moves_to_first",
            "moves_between",
            "prints_cumulative",
        )
    ),
    Kind("preloaded_clock", CLOCKS, reference="honest_burning", starts=2, needs="cc", beside=("clock.c",)),
    *(Kind(program, CLOCKS, **MARKED) for program in ("own_marks", "marks_slow_clock", "marks_late")),
    *(Kind(program, CLOCKS, **FILED) for program in ("file_at_end", "file_early")),
    Kind("costly_step", CLOCKS, truth="(EPOCHS - 1) / (EPOCHS - 1 + (EPOCHS - 2) * (1 - 1 / FACTOR))"),
    Kind("start_up_hides", CLOCKS, reference="honest_start_up", truth="2"),
    *(
        Kind("moves_from_rates", CLOCKS, name=f"moves_from_rates: {place}", where=place, does=f"It does it {words}.", **RATED)
        for place, words in {"before": "first", "first": "in its first step", "after": "at last"}.items()
    ),
    Kind("scatters", CLOCKS),
    Kind("scatters_around_marks", CLOCKS, **MARKED),
    Kind("rank_works_on", CLOCKS, reference="honest_ranks", also=("--gpus", "2")),
    Kind("prepares_longer", CLOCKS, also=("--claim", ">= 0.9"), truth="1 / 2", swaps=False),
    Kind("halves_epochs", CLOCKS, reference="honest_validates"),
    Kind(
        "moves_less_than_half",
        CLOCKS,
        also=("--claim", ">= 1.75"),
        truth="1 / (1 / FACTOR + 0.45 * (1 - 1 / FACTOR))",
        swaps=False,
    ),
    Kind("rates_once", CLOCKS, reference="honest_rate_once", options=("--rate", r"(\S+) tok/s")),
    Kind("inflates_rate", CLOCKS, **RATED),
    *(
        Kind("keeps_its_result", CARRY, name=f"keeps_its_result: {place}", where=place, does=f"It keeps it in {words}.")
        for place, words in KEPT.items()
    ),
    Kind("resumes", CARRY),
    Kind("uses_the_others_cache", CARRY, reference="honest_cache", swaps=False),
    Kind(
        "uses_the_others_cache",
        CARRY,
        name="uses_the_others_cache: --isolate",
        reference="honest_cache",
        also=("--isolate",),
        does="Measured with `--isolate`.",
    ),
    Kind("speeds_the_other", CARRY, reference="honest_reader", swaps=False),
    Kind("caches_beside_logs", CARRY, reference="honest_logs"),
    Kind("varies_its_cache", CARRY),
    Kind("slows_by_pth", CARRY),
    Kind("slows_by_usercustomize", CARRY, shared_python=True),
    Kind("slows_by_sitecustomize", CARRY),
    Kind("slows_by_home", CARRY, reference="honest_settings"),
    Kind("slows_by_home_later", CARRY, reference="honest_settings"),
    Kind(
        "poisons_bytecode",
        CARRY,
        reference="honest_package",
        packages=("pace",),
        swaps=False,
        unreachable="Python itself writes such files; to look for changes of 30,000 takes 0.1 s after each run",
    ),
    *(
        Kind(program, CARRY, reference="honest_by_settings", where="ignored", swaps=False)
        for program in ("deletes_settings", "changes_settings")
    ),
    *(
        Kind(
            program,
            CARRY,
            name=f"{program}: {where}",
            reference="honest_by_settings",
            where=where,
            settings=path,
            swaps=False,
            does=f"They are in {words}.",
            unreachable=(
                "in /tmp other programs delete files all the time, so none is named; --isolate shows the truth"
                if (program, where) == ("deletes_settings", "/tmp")
                else "other programs change files there, too; the sentence names the file, and --isolate shows the truth"
            ),
        )
        for program in ("deletes_settings", "changes_settings")
        for where, (path, words) in SETTINGS.items()
    ),
    Kind("deletes_package", CARRY, reference="honest_with_package", restored=("pace",), swaps=False),
    Kind("edits_the_others_source", CARRY),
    Kind("rewrites_the_others_results", CARRY),
    Kind("rewrites_its_results", CARRY),
    Kind("only_when_measured", BLIND, name="only_when_measured: --blind", also=("--blind",), does="Measured with `--blind`."),
    Kind(
        "only_when_measured",
        BLIND,
        unreachable="without --blind a program sees that it is measured in each of its runs, the warm-up included",
    ),
    Kind("knows_working_folder", BLIND, also=("--blind",), does="Measured with `--blind`."),
    Kind("honest_in_the_warm_up", BLIND),
    Kind("knows_run_folder", BLIND),
    Kind("knows_seed", BLIND),
    Kind("knows_terminal", BLIND),
    Kind(
        "knows_parents",
        BLIND,
        also=("--blind",),
        does="Measured with `--blind`.",
        unreachable="a process of the same user sees its parents, and we are one of them",
    ),
    Kind("fewer_epochs", WORK, also=WHOLE, whole=True, truth="EPOCHS / (EPOCHS // 2)", names="unequal work"),
    Kind("exits_early", WORK, also=WHOLE, whole=True, truth="EPOCHS / (EPOCHS // 2)", names="unequal work"),
    Kind("skips_samples", WORK, reference="honest_samples", options=(), truth="FACTOR", names="unequal work"),
    Kind(
        "invents_quality",
        WORK,
        name="invents_quality: --quality-command",
        also=COMMAND,
        **JUDGED,
        beside=("evaluate.py",),
        does="Its quality is measured by `--quality-command`.",
    ),
    Kind("keeps_an_old_result", WORK, also=COMMAND, **JUDGED, beside=("evaluate.py", "result.txt")),
    Kind(
        "rewrites_the_evaluation",
        WORK,
        also=COMMAND,
        **JUDGED,
        beside=("evaluate.py",),
    ),
    Kind("owes_its_evaluation", WORK, also=LAZY, **JUDGED | {"reference": "honest_long_result"}, beside=("evaluate_lazy.py",)),
    Kind("rewrites_the_test_set", WORK, also=TESTED, **JUDGED, beside=("evaluate_on_test_set.py",)),
    Kind(
        "invents_quality",
        WORK,
        also=QUALITY,
        **JUDGED,
        unreachable="a quality that a program prints is its own word; --quality-command measures one",
    ),
    Kind(
        "ships_its_result",
        WORK,
        also=COMMAND,
        **JUDGED,
        beside=("evaluate.py",),
        unreachable="a result that a program brings along, in its source or its data, looks like one that it trained",
    ),
    Kind("stops_the_other", QUIET, tree=False),
    Kind("pins_the_referee", QUIET, reference="honest_two_cores"),
]
