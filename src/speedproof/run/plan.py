"""The order of a block's runs: randomised, balanced over the rounds, and the same for the same configuration."""

import random

from speedproof.config.model import Config, Measurement
from speedproof.results.block import Plan, PlannedRun
from speedproof.results.run_record import Arm


def plan_block(config: Config, block: str) -> Plan:
    """Return the block's order.

    Runs come in rounds, each with every variant once, timed ones also with the control. Timed rounds come first, since a
    profiler's daemon may outlive its run. Seeds count up from round to round and from block to block; they are the same for all
    variants of a round and, where profiled rounds are no more than timed ones, for those of the same repeat. Where rounds end
    once sides are decided, the order is drawn to the longest.
    """
    measurement = config.measurement
    rounds: dict[Arm, int] = {
        "timed": measurement.repeats,
        "profiled": measurement.profiled,
        "documented": measurement.documented,
    }
    before = config.blocks().index(block)
    order = [
        planned
        for arm, count in rounds.items()
        for repeat in range(count)
        for seed in [measurement.seed + before * max(measurement.repeats, count) + repeat]
        for planned in _plan_round(measurement, before * count + repeat, arm, repeat, seed)
    ]
    sources = {config.sides[name].reads.source for name in measurement.sides() if config.sides[name].command is not None}
    return Plan(
        block=block,
        order=order,
        ladder=measurement.ladder,
        quality=measurement.quality,
        same_margin=measurement.same_margin,
        source=", ".join(sorted(sources)) or None,
        until=measurement.until,
        budget_min=measurement.budget_min,
    )


def _plan_round(measurement: Measurement, number: int, arm: Arm, repeat: int, seed: int) -> list[PlannedRun]:
    """Return the runs of an arm's round, of that number over all blocks, in random order that every second round turns round.

    So of any two variants each comes first equally often, and a drift of the machine, however steep, meets both alike. A
    random order alone puts the same variant first in all of three rounds one time in four.
    """
    sides = [(name, False) for name in measurement.sides()]
    if measurement.control and arm == "timed":
        sides.append((measurement.variants[0], True))
    random.Random(f"{measurement.seed}/{arm}/{number // 2}").shuffle(sides)
    if number % 2:
        sides.reverse()
    return [PlannedRun(variant=name, arm=arm, repeat=repeat, seed=seed, control=control) for name, control in sides]
