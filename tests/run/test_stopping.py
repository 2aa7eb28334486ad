"""When the timed rounds of an experiment end, and that an interrupted one ends where it would have ended."""

import json
import math
import random
from types import SimpleNamespace

import pandas as pd
import pytest

from speedproof.config.model import Measurement
from speedproof.report.findings import describe_limits
from speedproof.results.experiment import PLAN_FILE, Plan, PlannedRun, is_control
from speedproof.results.files import read_record, write_json
from speedproof.results.run_record import EPOCH_COLUMNS, EPOCHS_FILE, GPU_COLUMNS, GPU_FILE, LOG_FILE, RUN_FILE, write_csv
from speedproof.run import run_experiment as measuring
from speedproof.run.archive.close import close_experiment
from speedproof.run.archive.record import write_record
from speedproof.run.plan import order_in_block, plan_experiment
from speedproof.run.run_experiment import Job, run_experiment
from speedproof.run.staleness import check_current
from speedproof.run.stopping import Asking, RunValue, count_fixed, find_last_look, overruns
from speedproof.stats.compare import compare_experiments
from speedproof.stats.limits import list_stops
from speedproof.stats.metrics import read_compared
from speedproof.stats.sequential import CRITICAL
from speedproof.util.errors import ConfigError, RecordError, TrainingError
from speedproof_spleen.config import check_config
from tests.report.example import CLAIMS
from tests.run.test_resume import CONDITIONS, CONFIG, run_under


def config_with(**measurement):
    values = CONFIG.model_dump(mode="json")
    asked = {"variants": ["baseline", "fast"], "control": False, "documented": 0, "until": "decided", "rounds": 24}
    values["measurement"] |= asked | measurement
    return check_config(values)


def rounds_of(ratios):
    return [{"a": RunValue(ratio), "b": RunValue(1.0)} for ratio in ratios]


def judge(rounds, pair=("a", "b"), reachable=24, **measurement):
    """Return whether a pair is decided, if the last look is after `reachable` rounds."""
    asked = {"variants": ["a", "b"], "until": "decided", "rounds": 24} | measurement
    order = [
        PlannedRun(variant=name, mode="timed", round=number, seed=number)
        for number, found in enumerate(rounds)
        for name, _ in order_in_block([(name, False) for name in found], "0/timed", number)
    ]
    return Asking(rounds, order, pair, Measurement.model_validate(asked)).judge(reachable)


def test_a_pair_is_decided_by_the_repeated_interval():
    # Logs 0.1 ± 0.01: deviation 0.01 √(4/3) = 0.011547; at four pairs ± 6.21 × 0.011547 / 2 = 0.03585.
    quiet = [math.exp(0.11), math.exp(0.09)] * 12
    assert [judge(rounds_of(quiet[:count])) for count in (4, 6)] == ["decided", "decided"]
    # About 0.02 the interval of four pairs holds 1, though Student's would not: 3.182 × 0.011547 / 2 = 0.0184.
    near = [ratio * math.exp(-0.08) for ratio in quiet]
    # Six: deviation 0.010954, ± 4.65 × 0.010954 / √6 = 0.0208; eight: ± 3.88 × 0.01069 / √8 = 0.01466.
    found = [judge(rounds_of(near[:count]), equivalence_margin=0.005) for count in (4, 6, 8)]
    assert found == ["open", "open", "decided"]


def test_several_candidates_are_decided_by_joint_intervals():
    # Logs 0.05 ± 0.01: ± 6.21 × 0.011547 / 2 = 0.0359 of one, ± 9.12 × 0.011547 / 2 = 0.0527 of three together.
    rounds = [{"a": RunValue(math.exp(0.05 + sign)), **dict.fromkeys("bcd", RunValue(1.0))} for sign in (0.01, -0.01) * 2]
    assert judge(rounds) == "decided"
    assert judge(rounds, variants=["a", "b", "c", "d"]) == "open"


def test_what_was_saved_is_counted_against_a_plan_of_the_first_four_rounds_noise():
    # Deviation 0.011547; its upper 80 % limit is √(3 / 1.005) times that, 0.0199, about log 1.02: an effect of one deviation,
    # which 13 pairs find nine times in ten (G*Power 3.1, paired t test, two-sided), and an even number is planned.
    quiet = [math.exp(0.11), math.exp(0.09)] * 12
    pair = [("a", "b")]
    assert count_fixed(rounds_of(quiet[:6]), pair, 0.02) == 14
    three = [{"a": RunValue(ratio), "b": RunValue(1.0), "c": RunValue(1.0)} for ratio in quiet]
    assert count_fixed(three, [*pair, ("b", "c")], 0.02) == 14  # two that never differ need four
    assert count_fixed(rounds_of(quiet[:3]), pair, 0.02) is None


def test_equivalent_is_decided_too():
    assert judge(rounds_of([math.exp(0.001), math.exp(-0.001)] * 2)) == "decided"


def test_of_a_claimed_ratio_its_variant_is_decided_and_nothing_else():
    quiet = rounds_of([1.50, 1.51, 1.49, 1.50])  # 1.50 within 1.7 %
    assert judge(quiet) == "decided"
    assert [judge(quiet, claim=f">= {least}") for least in (1.4, 1.5, 1.6)] == ["decided", "open", "decided"]


def test_what_a_program_does_not_tell_is_never_decided():
    assert judge([{"a": RunValue(None), "b": RunValue(1.0)}] * 4) == "open"
    assert judge([{"a": RunValue(0.0), "b": RunValue(1.0)}] * 4) == "open"


def with_quality(*qualities):
    """Return rounds in which b is 1.5 times as fast as a, of these qualities of a and b."""
    return [{"a": RunValue(1.5, quality=one), "b": RunValue(1.0, quality=other)} for one, other in qualities]


def test_rounds_go_on_until_the_quality_is_decided():
    rule = {"quality": {"margin": 0.01}}
    # Differences ± 0.001: deviation 0.001 √(4/3) = 0.0011547, ± 6.21 × 0.0011547 / 2 = 0.0036.
    close = with_quality((0.9, 0.901), (0.91, 0.909)) * 2
    assert [judge(close, **rule), judge(close)] == ["decided", "decided"]
    # ± 0.004: ± 0.0143 of four, and of eight, by a deviation of 0.004276, ± 3.88 × 0.004276 / √8 = 0.0059.
    apart = with_quality((0.9, 0.904), (0.91, 0.906)) * 4
    assert [judge(apart[:4], **rule), judge(apart[:4]), judge(apart, **rule)] == ["open", "decided", "decided"]
    assert judge(with_quality((0.9, 0.8), (0.91, 0.81)) * 2, **rule) == "decided"  # worse


def test_a_quality_that_no_number_of_rounds_decides_ends_none():
    rule = {"quality": {"margin": 0.01}}
    assert judge(with_quality(*[(0.9, 0.9)] * 4), **rule) == "decided"
    assert judge(with_quality(*[(0.9, None)] * 4), **rule) == "decided"


def test_the_quality_of_the_variant_that_a_claim_is_about_decides():
    # b is slower, and its quality is better by 0.02 ± 0.004: whether a's is worse is known, and so is that b's is not.
    rounds = [
        {"a": RunValue(1.0, quality=0.9 + sign + both), "b": RunValue(1.5, quality=0.92 + both)}
        for sign, both in zip((0.004, -0.004) * 2, (0.001, 0.001, 0.0, 0.0), strict=True)
    ]
    rule = {"quality": {"margin": 0.01}}
    assert judge(rounds, **rule) == "open"  # ± 0.0143 about -0.02 reaches beyond -0.01
    assert judge(rounds, **rule, claim=">= 0.5") == "decided"
    assert judge(rounds, **rule, claim="<= 0.8") == "open"
    assert judge(rounds, **rule, claim=">= 0.8") == "decided"  # the claim fails, at whatever quality


def test_rounds_that_would_hardly_decide_are_futile():
    # Logs 0 ± 0.2: sixteen pairs have a deviation of 0.2066, or at least √(15 / 19.31) of it. So an interval of 24 extends by
    # 2.51 × 0.182 / √24 = 0.0933, and their mean varies by 0.2066 × √(1/16 - 1/24) = 0.0298: t(15) is beyond 3.13 in 0.7 %.
    noisy = rounds_of([math.exp(0.2), math.exp(-0.2)] * 8)
    assert [judge(noisy[:4]), judge(noisy)] == ["open", "futile"]
    assert judge(noisy[:4], reachable=6) == "futile"  # the budget allows two more
    assert judge(noisy, claim=">= 1.3") == "decided"


def test_a_budget_is_kept_as_if_the_next_round_took_as_long_as_the_longest():
    assert not overruns([60, 50], 3.0)
    assert overruns([60, 50], 2.8)
    assert find_last_look([60, 60, 60, 50], 24, 6.0) == 6  # 130 s are left, two rounds of 50 s
    assert find_last_look([60, 60, 60, 50], 24, 5.0) == 4
    assert find_last_look([60, 60, 60, 50], 12, None) == 12


def test_the_plan_is_drawn_to_the_longest_and_names_runs_by_variant_and_round():
    plan = plan_experiment(config_with(profiled=1, control=True, budget_min=30), "experiment-1")
    assert (plan.until, plan.budget_min, len(plan.order)) == ("decided", 30, 24 * 3 + 2)
    fixed = plan_experiment(config_with(profiled=1, control=True, until=None), "experiment-1")
    assert plan.order == fixed.order and fixed.folders()[0].startswith("01-")
    assert {"baseline-timed-01", "baseline-control-24", "fast-timed-24", "fast-profiled-01"} <= set(plan.folders())
    assert set(plan.runs(rounds=2)) == {
        *(f"{variant}-{number}" for variant in ("baseline-timed", "baseline-control", "fast-timed") for number in ("01", "02")),
        "baseline-profiled-01",
        "fast-profiled-01",
    }


@pytest.mark.parametrize("until", [None, "decided"])
def test_a_control_is_told_by_the_name_of_its_folder(until):
    plan = plan_experiment(config_with(control=True, profiled=1, until=until), "experiment-1")
    assert {name for name in plan.folders() if is_control(name)} == {name for name, run in plan.runs().items() if run.control}
    assert not is_control("01-control-timed") and not is_control("control-timed-01")


@pytest.mark.parametrize(
    ("measurement", "message"),
    [
        ({"rounds": 5}, "checks after 4, 6, 8, 10, 12, 16, 20, 24 rounds; set `rounds`"),
        ({"until": None, "budget_min": 3}, "`budget_min` needs `until: decided`"),
        ({"variants": ["fast"]}, "nothing is compared"),
        ({"until": "bored"}, "until"),
    ],
)
def test_what_cannot_end_is_refused(measurement, message):
    with pytest.raises(ConfigError, match=message):
        config_with(**measurement)


class Machine:
    """Does runs in no time: a training epoch takes a second times its factor, `fast`'s less."""

    def __init__(self, tmp_path, monkeypatch, speedup, breaks_at=None):
        self.results = tmp_path / "results"
        self.speedup = speedup
        self.breaks_at = breaks_at
        self.done = []
        monkeypatch.setattr(measuring, "_do_run_again_if_lost", self.run)
        monkeypatch.setattr(measuring, "_choose_profiler", lambda config, plan: None)
        monkeypatch.setattr(measuring, "fill_prepared_folders", lambda *_: [])

    def experiment(self, **measurement):
        config = config_with(profiled=0, **measurement)
        write_json(self.results / "config.json", config)
        job = Job(config, [], self.results / "dataset.json", "experiment-1", self.results / "experiments/experiment-1")
        return run_experiment(job, CONDITIONS)

    def run(self, job, number, planned: PlannedRun, selection, folder, fingerprint):
        if len(self.done) == self.breaks_at:
            raise TrainingError("the machine went down")
        self.done.append(folder.name)
        settings = {"variant": planned.variant, "round": planned.round, "seed": planned.seed, "run": folder.name}
        settings |= {"techniques": job.config.variants[planned.variant].model_dump(mode="json")}
        run = run_under(CONDITIONS).model_copy(update=settings)
        epoch_s = 1.0 if planned.variant == "baseline" else (1.01, 0.99)[planned.round % 2] / self.speedup
        table = pd.DataFrame(
            {"epoch": range(1, run.epochs + 1), "train_s": epoch_s, "steps": 4, "samples_per_s": 1.0}, columns=EPOCH_COLUMNS
        )
        write_csv(folder / EPOCHS_FILE, table)
        write_csv(folder / GPU_FILE, pd.DataFrame(columns=GPU_COLUMNS))
        write_json(folder / RUN_FILE, run)
        (folder / LOG_FILE).write_text("made by the tests\n")
        return run


def test_an_experiment_ends_when_its_variants_are_decided(tmp_path, monkeypatch):
    machine = Machine(tmp_path, monkeypatch, speedup=1.3)
    experiment = machine.experiment()
    assert (experiment.stopped.reason, experiment.stopped.rounds, experiment.stopped.most) == ("decided", 4, 24)
    assert experiment.stopped.fixed >= 4
    assert machine.done == experiment.runs == list(plan_experiment(config_with(profiled=0), "experiment-1").runs(rounds=4))
    folder = machine.results / "experiments/experiment-1"
    assert len(read_record(folder / PLAN_FILE, Plan).order) == 48
    check_current(machine.results)
    (ratio,) = (row for row in compare_experiments(machine.results, CLAIMS).ratios if row.metric == "training_epoch_s")
    assert (ratio.pairs, ratio.outcome) == (4, "faster")
    # Logs of 1.3 / 1.01 and 1.3 / 0.99, twice each: deviation 0.0100003 × √(4/3) about their mean.
    half_width = CRITICAL[4] * math.log(1.01 / 0.99) / 2 * math.sqrt(4 / 3) / 2
    assert math.log(ratio.high / ratio.centre) == pytest.approx(half_width, rel=1e-4)
    write_record([machine.results], CLAIMS, tmp_path / "record")
    report = (tmp_path / "record/report.md").read_text()
    assert (
        "experiment-1 was to run until all compared variants are decided: 4 of at most 24 timed rounds ran; then all "
        "were decided." in report
    )


def test_who_asks_for_more_goes_on_with_the_rounds_that_there_are(tmp_path, monkeypatch):
    machine = Machine(tmp_path, monkeypatch, speedup=1.3)
    machine.experiment(rounds=4)
    write_json(machine.results / "config.json", config_with(profiled=0, claim=">= 1.29"))
    with pytest.raises(RecordError, match="the limits of `measurement`"):
        check_current(machine.results)
    # 1.3 within 1 % is above 1.29 after more than four rounds.
    experiment = machine.experiment(claim=">= 1.29")
    assert len(experiment.kept) == 8 and experiment.stopped.rounds > 4
    assert len(set(machine.done)) == len(machine.done)


def test_an_experiment_keeps_the_intervals_of_its_plan(tmp_path, monkeypatch):
    machine = Machine(tmp_path, monkeypatch, speedup=1.3)
    experiment = machine.experiment(variants=["baseline", "fast", "regular"], until=None, rounds=4)
    assert experiment.comparisons == 2

    def find_half_width():
        ratios = compare_experiments(machine.results, CLAIMS).ratios
        ratio = next(row for row in ratios if (row.metric, row.candidate) == ("training_epoch_s", "fast"))
        return ratio.comparisons, math.log(ratio.high / ratio.centre)

    # Logs of 1.3 / 1.01 and 1.3 / 0.99, twice each: deviation 0.0100003 × √(4/3); quantiles of t(3) at 5 % / 2 and 5 %.
    standard_error = math.log(1.01 / 0.99) / 2 * math.sqrt(4 / 3) / 2
    assert find_half_width() == (2, pytest.approx(4.176535 * standard_error, rel=1e-4))
    # One of a version that had no joint intervals.
    for path in (machine.results / "experiments/experiment-1").glob("*.json"):
        before = json.loads(path.read_text())
        write_json(path, {key: value for key, value in before.items() if key not in ("comparisons", "plan", "seal")})
    assert find_half_width() == (1, pytest.approx(3.182446 * standard_error, rel=1e-4))


def test_an_interrupted_experiment_goes_on_in_the_same_order_and_ends_where_it_would_have(tmp_path, monkeypatch):
    machine = Machine(tmp_path, monkeypatch, speedup=1.018, breaks_at=9)  # 1.8 % faster: "the same" once within 2 %
    with pytest.raises(TrainingError):
        machine.experiment()
    before, machine.breaks_at = list(machine.done), None
    experiment = machine.experiment()
    assert machine.done[:9] == before and len(set(machine.done)) == len(machine.done)
    assert set(experiment.kept) == set(before)
    whole = Machine(tmp_path / "whole", monkeypatch, speedup=1.018)
    assert whole.experiment().runs == experiment.runs
    assert experiment.stopped.reason == "decided" and experiment.stopped.rounds > 4


def test_runs_of_another_order_are_repeated(tmp_path, monkeypatch):
    machine = Machine(tmp_path, monkeypatch, speedup=1.3, breaks_at=5)
    with pytest.raises(TrainingError):
        machine.experiment(order_seed=1)
    machine.breaks_at = None
    assert machine.experiment(order_seed=2).kept == []
    assert machine.experiment(order_seed=2).kept != []


def test_rounds_go_on_while_a_gain_seems_to_rest_on_what_ran_before():
    asked = Measurement(variants=["a", "b"], until="decided", rounds=24, order_seed=3)
    honest, profits = (run_rounds(asked, only_after_other=profits) for profits in (False, True))
    assert (honest.reason, honest.rounds) == ("decided", 4)
    assert (profits.reason, profits.rounds) == ("longest", 24)


def run_rounds(asked, only_after_other):
    """Have `b` take 10 % less than `a`, always or only if the run before was one of `a`; noise is 0.5 %."""
    watch, before, noise = measuring.Watch(asked), None, random.Random(0)
    for number in range(24):
        for name, _ in order_in_block([("a", False), ("b", False)], "3/timed", number):
            faster = name == "b" and (before == "a" or not only_after_other)
            value = (0.9 if faster else 1.0) * (1 + noise.uniform(-0.005, 0.005))
            if watch.stopped is None:
                watch.add(PlannedRun(variant=name, mode="timed", round=number, seed=number), RunValue(value), 1.0)
            before = name
    return watch.stopped


def test_an_experiment_that_was_closed_between_looks_has_the_interval_of_who_looked(tmp_path, monkeypatch):
    machine = Machine(tmp_path, monkeypatch, speedup=1.018, breaks_at=11)
    with pytest.raises(TrainingError):
        machine.experiment()
    closed = close_experiment(machine.results / "experiments/experiment-1", config_with(profiled=0))
    assert (closed.stopped.reason, closed.stopped.rounds) == ("closed", 5)
    (ratio,) = (row for row in compare_experiments(machine.results, CLAIMS).ratios if row.metric == "training_epoch_s")
    assert (ratio.pairs, ratio.outcome) == (4, "inconclusive")
    assert "repeated interval" in ratio.origin.expression


def test_an_experiment_ends_at_its_longest_and_says_what_it_knows(tmp_path, monkeypatch):
    machine = Machine(tmp_path, monkeypatch, speedup=1.02)
    experiment = machine.experiment(rounds=6)
    assert (experiment.stopped.reason, experiment.stopped.rounds) == ("longest", 6)
    comparison = compare_experiments(machine.results, CLAIMS)
    (ratio,) = (row for row in comparison.ratios if row.metric == "training_epoch_s")
    assert (ratio.pairs, ratio.outcome) == (6, "inconclusive")
    assert ratio.needed.pairs in CRITICAL
    assert comparison.stopped[0].reason == "longest"
    (said,) = describe_limits(list_stops(comparison))
    assert (
        "6 of at most 6 timed rounds ran; not all were decided, and no more rounds were planned." in said
        and "saved" not in said
    )


def test_a_budget_ends_an_experiment_that_no_further_look_would_follow(tmp_path, monkeypatch):
    machine = Machine(tmp_path, monkeypatch, speedup=1.0005)
    clock = iter(range(0, 100_000, 30))  # each run takes half a minute
    monkeypatch.setattr(measuring, "time", SimpleNamespace(monotonic=clock.__next__))
    experiment = machine.experiment(equivalence_margin=0.001, budget_min=5.5)
    assert (experiment.stopped.reason, experiment.stopped.rounds, experiment.stopped.budget_min) == ("budget", 4, 5.5)
    (ratio,) = (row for row in compare_experiments(machine.results, CLAIMS).ratios if row.metric == "training_epoch_s")
    assert ratio.pairs == 4  # those of the latest look


def test_programs_that_tell_no_epochs_are_decided_by_their_processes(tmp_path):
    watch = measuring.Watch(Measurement(variants=["a", "b"], until="decided", rounds=4))
    write_csv(tmp_path / EPOCHS_FILE, pd.DataFrame(columns=EPOCH_COLUMNS))
    for repeat in range(4):
        for name, process_s in (("a", 2.0), ("b", 1.0 + repeat / 100)):
            planned = PlannedRun(variant=name, mode="timed", round=repeat, seed=0)
            run = run_under(CONDITIONS).model_copy(update={"process_s": process_s, "epochs": 0})
            watch.add(planned, RunValue(read_compared(tmp_path, run, watch.metric).cost), 1.0)
    assert watch.stopped.reason == "decided"


def test_control_runs_decide_nothing():
    asked = Measurement(variants=["a", "b"], control=True, until="decided", rounds=4)
    watch = measuring.Watch(asked)
    for repeat in range(4):
        for name, control, value in (("a", False, 1.1), ("a", True, 5.0 + repeat), ("b", False, 1.0)):
            assert watch.stopped is None
            watch.add(PlannedRun(variant=name, mode="timed", round=repeat, seed=0, control=control), RunValue(value), 1.0)
    assert watch.stopped.reason == "decided"


@pytest.mark.parametrize(
    ("metric", "cost", "resolution"),
    # Epochs 2 and 3 count: 2 s and 4 s with 20 and 120 samples; a digit of 0.1 s.
    [(None, 3.0, 0.05 / 3), ("samples_per_s", 6 / 140, 0.05 / 3), ("process_s", 9.0, 0.0), ("first_epoch_s", 1.0, 0.05)],
)
def test_rounds_are_decided_by_the_metric_that_is_compared(tmp_path, metric, cost, resolution):
    folder = tmp_path / "experiments/experiment-1/runs/01-a-timed"
    folder.mkdir(parents=True)
    rows = {"epoch": [1, 2, 3], "train_s": [1.0, 2.0, 4.0], "samples_per_s": [5.0, 10.0, 30.0]}
    write_csv(folder / EPOCHS_FILE, pd.DataFrame(rows, columns=EPOCH_COLUMNS))
    run = run_under(CONDITIONS).model_copy(update={"epochs": 3, "process_s": 9.0, "resolution_s": 0.05, "mode": "timed"})
    found = read_compared(folder, run, metric)
    assert (found.cost, found.resolution) == (pytest.approx(cost), pytest.approx(resolution))
