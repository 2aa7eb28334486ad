"""No record is accused: what speaks against the ratios of all of them, by all checks."""

from pathlib import Path

from speedproof.results.folder import read_results
from speedproof.stats.measurements import measure_ratio

RECORDS = sorted(path for path in (Path(__file__).parents[2] / "records").iterdir() if path.is_dir())
COMPARED = ("training_epoch_s", "process_s")
# Honest programs, of which some ratio is rightly contested.
CONTESTED = {
    "2026-11-27-h100-nnunet-resenc-l",  # so short that a longer start costs more than the epochs save
    "2026-11-27-h100-published-turbo",  # 50 epochs against 30 of less work, in one of its two experiments
    "2026-11-28-h200-tumour-to-dice",  # 8 epochs against 3 of other work, in one of its three experiments
}


def list_ratios(record):
    results = read_results(record, summaries=False)
    return [
        ratio
        for reference, candidate in results.compared_pairs
        for metric in COMPARED
        for ratio in measure_ratio(results, reference, candidate, "timed", metric)
    ]


def test_no_ratio_of_a_record_is_contested():
    ratios = {record.name: list_ratios(record) for record in RECORDS}
    assert sum(map(bool, ratios.values())) > len(RECORDS) / 2  # others are of one variant, or on different numbers of GPUs
    contested = {
        name: [objection for ratio in found for objection in ratio.objections if objection.blocks]
        for name, found in ratios.items()
    }
    assert {name for name, found in contested.items() if found} == CONTESTED
