"""The order of an experiment's runs: randomised, balanced over the rounds, and the same for the same configuration."""

import random

from speedproof.config.model import Config, Measurement
from speedproof.results.experiment import Plan, PlannedRun
from speedproof.results.run_record import Mode


def plan_experiment(config: Config, experiment: str) -> Plan:
    """Return the experiment's order.

    Runs come in rounds, each with every variant once, timed ones also with the control. Timed rounds come first, since a
    profiler's daemon may outlive its run. Seeds count up from round to round and from experiment to experiment. All variants of
    a round share its seed, and so does the profiled round of the same number, unless more rounds are profiled than timed. If
    rounds end once variants are decided, the order is drawn for the most rounds.
    """
    measurement = config.measurement
    rounds: dict[Mode, int] = {
        "timed": measurement.rounds,
        "profiled": measurement.profiled,
        "documented": measurement.documented,
    }
    before = config.experiments().index(experiment)
    order = [
        planned
        for mode, count in rounds.items()
        for number in range(count)
        for seed in [measurement.seed + before * max(measurement.rounds, count) + number]
        for planned in _plan_round(measurement, before * count + number, mode, number, seed)
    ]
    sources = {
        config.completed_variants[name].reads.source
        for name in measurement.all_variants()
        if config.completed_variants[name].command is not None
    }
    evaluations = [config.completed_variants[name].evaluation for name in measurement.all_variants()]
    return Plan(
        experiment=experiment,
        order=order,
        ablation=measurement.ablation,
        quality=measurement.quality,
        equivalence_margin=measurement.equivalence_margin,
        source=", ".join(sorted(sources)) or None,
        until=measurement.until,
        budget_min=measurement.budget_min,
        comparisons=measurement.comparisons,
        quality_files={word: digest for one in evaluations if one for word, digest in one.files.items()},
    )


def _plan_round(measurement: Measurement, position: int, mode: Mode, number: int, seed: int) -> list[PlannedRun]:
    """Return a round's runs in random order, which every second round reverses; `position` counts over all experiments.

    So of any two variants each comes first equally often, and a drift of the machine, however steep, meets both alike. A
    random order alone puts the same variant first in all of three rounds one time in four.
    """
    variants = [(name, False) for name in measurement.all_variants()]
    if measurement.control and mode == "timed":
        variants.append((measurement.variants[0], True))
    random.Random(f"{measurement.seed}/{mode}/{position // 2}").shuffle(variants)
    if position % 2:
        variants.reverse()
    return [PlannedRun(variant=name, mode=mode, round=number, seed=seed, control=control) for name, control in variants]
