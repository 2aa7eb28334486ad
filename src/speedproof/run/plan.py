"""The order of an experiment's runs: drawn from a seed, balanced over the rounds, and the same for the same configuration."""

import random
from collections.abc import Sequence

from speedproof.config.model import Config, Measurement
from speedproof.results.experiment import OrderDesign, Plan, PlannedRun
from speedproof.results.run_record import Mode

DESIGN: OrderDesign = "blocks of four"
BLOCK = 4  # rounds
Label = tuple[str, bool]  # a variant, and whether it is the control
# Which rounds of a block are reversed. Of the designs that benchmarks/simulate_orders.py compares, this one has the lowest
# worst case. If all blocks alternated, a run that is slower every fourth time would favour one variant; if all were doubled,
# one that is slower every fifth time would.
_ALTERNATING, _DOUBLED = (False, True, False, True), (False, False, True, True)


def plan_experiment(config: Config, experiment: str, design: OrderDesign = DESIGN) -> Plan:
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
        for planned in _plan_round(measurement, before * count + number, mode, number, seed, design)
    ]
    sources = {
        config.completed_variants[name].reads.source
        for name in measurement.all_variants()
        if config.completed_variants[name].command is not None
    }
    evaluations = [config.completed_variants[name].evaluation for name in measurement.all_variants()]
    return Plan(
        experiment=experiment,
        design=design,
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


def _plan_round(
    measurement: Measurement, position: int, mode: Mode, number: int, seed: int, design: OrderDesign
) -> list[PlannedRun]:
    """Return a round's runs in order; `position` counts over all experiments.

    Fewer rounds than a block are balanced over two, and so are profiled ones, of which one or two are usual.
    """
    variants: list[Label] = [(name, False) for name in measurement.all_variants()]
    if measurement.control and mode == "timed":
        variants.append((measurement.variants[0], True))
    drawn_by = f"{measurement.seed if measurement.order_seed is None else measurement.order_seed}/{mode}"
    blocks = mode == "timed" and measurement.experiments * measurement.rounds >= BLOCK
    order = (order_in_block if blocks and design == DESIGN else order_in_pair)(variants, drawn_by, position)
    return [PlannedRun(variant=name, mode=mode, round=number, seed=seed, control=control) for name, control in order]


def order_in_block(variants: Sequence[Label], drawn_by: str, position: int) -> list[Label]:
    """Return the order of a round in blocks of four, each of which runs a shuffled order twice and its reverse twice.

    Of two successive blocks one alternates the two orders, the other one doubles them; which comes first is drawn. So of any
    two variants each comes first equally often in each block, and a steady drift meets both alike. `drawn_by` is the seed.
    """
    number, place = divmod(position, BLOCK)
    order = list(variants)
    random.Random(f"{drawn_by}/block {number}").shuffle(order)
    first_alternates = random.Random(f"{drawn_by}/blocks {number // 2}").random() < 0.5
    turned = _ALTERNATING if first_alternates == (number % 2 == 0) else _DOUBLED
    return order[::-1] if turned[place] else order


def order_in_pair(variants: Sequence[Label], drawn_by: str, position: int) -> list[Label]:
    """Return the order of a round if every second round is the reverse of the one before it."""
    order = list(variants)
    random.Random(f"{drawn_by}/{position // 2}").shuffle(order)
    return order[::-1] if position % 2 else order
