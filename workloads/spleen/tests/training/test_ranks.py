"""Two processes that train together over gloo on a processor, started by torchrun as an experiment starts them."""

import json
import os
import subprocess
import sys
from itertools import chain, pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from monai.metrics import DiceMetric

from speedproof.api import TrainingError, read_epochs, read_run, write_json
from speedproof_spleen.config import check_config
from speedproof_spleen.segmentation.spleen import Spleen
from speedproof_spleen.training.loop import EpochResult
from speedproof_spleen.training.ranks import Ranks, merge_epochs, read_ranks
from tests.instrument import Node, rank_variables, torchrun_command

PROGRAM = Path(__file__).with_name("ranks_program.py")


def two_ranks(ci_config):
    """Two processes, two cases to train on, three to validate on: the shares of these differ by one."""
    values = ci_config.model_dump(mode="json")
    variants = values["variants"]
    variants["two"] = variants["baseline"] | {"title": "Two", "gpus": 2}
    variants["own"] = variants["turbo"] | {"title": "Own", "gpus": 2, "overlap": 0.7}
    variants["failing"] = variants["turbo"] | {"title": "Failing", "gpus": 2, "kernels": []}
    values["workload"]["validation_cases"] = 3
    values["measurement"] |= {"variants": ["two"], "epochs": 2, "validate_every": 2, "device": "cpu"}
    return check_config(values)


@pytest.fixture(scope="module")
def trained(ci_config, volumes, tmp_path_factory):
    """Three runs, by one start of torchrun: to import all that they need takes each process seconds. The last one fails."""
    config, folder = two_ranks(ci_config), tmp_path_factory.mktemp("ranks")
    write_json(folder / "config.json", config)
    (folder / "files.json").write_text(json.dumps(volumes))
    variant = config.variants["two"]
    environment = os.environ | rank_variables(variant, 2, os.environ) | {"PYTHONPATH": os.pathsep.join(sys.path)}
    program = [sys.executable, str(PROGRAM), "config.json", "files.json", "two", "own", "failing"]
    command = [*torchrun_command(variant, Node(), 1), *program]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    assert (folder / "failing/run.json").exists(), done.stderr
    kept = {
        name: [torch.load(folder / f"{name}-kept{rank}.pt", weights_only=True) for rank in range(2)] for name in ("two", "own")
    }
    return SimpleNamespace(
        config=config, folder=folder, run=folder / "two", kept=kept["two"], own=kept["own"], code=done.returncode
    )


def assert_weights_are_equal(kept, run):
    first, second = (one["weights"] for one in kept)
    assert all(torch.equal(first[name], second[name]) for name in first)
    checkpoint = torch.load(run / "best.pt", weights_only=True)
    assert all(torch.equal(checkpoint[name], first[name]) for name in first)


def test_weights_are_equal_on_both_ranks(trained):
    assert_weights_are_equal(trained.kept, trained.run)


def test_weights_are_equal_where_a_step_averages_the_gradients_itself(trained):
    assert trained.config.variants["own"].averages_itself and not trained.config.variants["two"].averages_itself
    assert_weights_are_equal(trained.own, trained.folder / "own")


# Overlaps of which gradients are averaged in pieces: which of the network's four had come when one was sent, and its values.
WHOLE = [([True] * 4, [21])]
PIECES = {0.0: WHOLE, 0.2: [([False, False, True, True], [5]), ([True] * 4, [16])], 0.95: WHOLE}


@pytest.mark.parametrize("overlap", [None, *PIECES])
def test_the_gradient_is_the_mean_over_ranks(trained, overlap):
    first, second = (kept["gradients"][overlap] for kept in trained.kept)
    assert not torch.allclose(first["own"], second["own"])
    mean = (first["own"] + second["own"]) / 2
    for gradients in (first, second):
        torch.testing.assert_close(gradients["averaged"], mean, rtol=1e-12, atol=1e-12)
        assert gradients["sent"] == PIECES.get(overlap, [])


def test_ranks_meet_before_an_epoch_is_timed(trained):
    for kept in trained.kept:
        first_of_epochs = [after for before, after in pairwise(kept["order"]) if before == "meet"]
        assert first_of_epochs == ["clock", "clock"]
        assert kept["order"][0] == "meet"


def test_each_case_is_cached_once_over_all_ranks(trained, volumes):
    seen = [kept["seen"] for kept in trained.kept]
    assert [len(cases) for cases in seen] == [1, 1]
    assert sorted(chain(*seen)) == sorted(volume["image"] for volume in volumes[:2])
    validated = [kept["validated"] for kept in trained.kept]
    assert [len(cases) for cases in validated] == [2, 1]
    assert sorted(chain(*validated)) == sorted(volume["image"] for volume in volumes[2:])


def test_ranks_draw_different_random_numbers(trained):
    assert trained.kept[0]["random"] != trained.kept[1]["random"]


def test_the_shared_validation_is_that_of_one_process(trained, volumes):
    case = Spleen(trained.config.workload, trained.config.variants["two"], torch.device("cpu"))
    network = case.network()
    network.load_state_dict(torch.load(trained.run / "best.pt", weights_only=True))
    network.eval()
    transform, metric = case.validation_transform(), DiceMetric(include_background=True, reduction="mean_batch")
    with torch.no_grad():
        for volume in volumes[2:]:
            item = transform(volume)
            predictions, references = case.discretize(case.predict(network, item["image"][None]), item["label"][None])
            metric(y_pred=predictions, y=references)
    last = read_epochs(trained.run).iloc[-1]
    assert last.quality == pytest.approx(float(metric.aggregate()[1]), abs=1e-6)
    assert last.quality_with_background == pytest.approx(float(metric.aggregate().mean()), abs=1e-6)


def test_the_metric_on_the_device_counts_all_ranks_volumes(trained):
    for kept in trained.kept:
        assert kept["dice"].tolist() == pytest.approx([(1 + 4 / 5 + 0) / 3, (1 + 2 / 3 + 0) / 3])


def test_the_record_is_rank_zeros_and_each_rank_has_its_own_tables(trained):
    run = read_run(trained.run)
    assert (run.ranks, run.outcome) == (2, "completed")
    whole, own = read_epochs(trained.run), [read_epochs(trained.run / f"rank{rank}") for rank in range(2)]
    assert [len(table) for table in (whole, *own)] == [2, 2, 2]
    np.testing.assert_array_equal(whole.train_s, np.maximum(own[0].train_s, own[1].train_s))
    patches = trained.config.workload.patches_per_volume
    assert (whole.samples_per_s * whole.train_s).tolist() == pytest.approx([2 * patches] * 2, rel=1e-4)
    for rank in range(2):
        assert "epoch 2/2" in (trained.run / f"rank{rank}" / "log.txt").read_text()
    assert "epoch 2/2" in (trained.run / "log.txt").read_text()


def test_the_run_ends_as_the_rank_that_failed_first(trained):
    assert trained.code != 0
    run = read_run(trained.folder / "failing")
    assert run.outcome == "out_of_memory"
    assert run.reason == "rank 1: no memory is left for this rank"


def test_shares_are_equal_where_every_rank_must_take_as_many_steps():
    ranks = [Ranks(rank, 3) for rank in range(3)]
    assert [one.share_evenly("abcdefg") for one in ranks] == [["a", "d", "g"], ["b", "e", "a"], ["c", "f", "b"]]
    assert [one.share_evenly("a") for one in ranks] == [["a"]] * 3
    assert [one.share("abcdefg") for one in ranks] == [["a", "d", "g"], ["b", "e"], ["c", "f"]]
    assert Ranks().share_evenly("abc") == Ranks().share("abc") == ["a", "b", "c"]


def test_a_process_alone_has_the_seed_it_was_given_and_the_runs_own_folder():
    assert Ranks().seed(5) == Ranks(0, 2).seed(5) == 5
    assert Ranks(1, 2).seed(5) != Ranks(1, 2).seed(6)
    assert Ranks().folder(Path("run")) == Path("run")
    assert Ranks(1, 2).folder(Path("run")) == Path("run/rank1")


def test_an_epoch_of_all_ranks_is_as_long_as_the_slowest():
    one = EpochResult(1, 2.0, 1.0, 0.5, 0.9, 4, 32.0, 10.0, quality_with_background=0.95)
    other = EpochResult(1, 4.0, 0.5, 0.7, 0.9, 4, 16.0, 12.0, quality_with_background=0.95)
    merged = merge_epochs([one, other])
    assert merged == EpochResult(1, 4.0, 1.0, 0.6, 0.9, 4, 32.0, 12.0, quality_with_background=0.95)


def test_torchruns_environment_gives_the_place():
    environ = {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4"}
    assert read_ranks(environ, "fast", SimpleNamespace(gpus=4, nodes=2, ranks=8)) == Ranks(5, 8, 1)
    assert read_ranks({}, "fast", SimpleNamespace(gpus=1, nodes=1, ranks=1)) == Ranks()


@pytest.mark.parametrize("environ", [{}, {"RANK": "0", "WORLD_SIZE": "4", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "4"}])
def test_another_number_of_processes_is_one_line_with_the_command(environ):
    with pytest.raises(TrainingError, match=r"gpus: 2.*--nproc-per-node=2"):
        read_ranks(environ, "fast", SimpleNamespace(gpus=2, nodes=1, ranks=2))
