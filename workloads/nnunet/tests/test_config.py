"""The configurations, variants and claims that are here fit each other."""

import json
import shlex
from importlib.util import find_spec
from pathlib import Path

import pytest

from speedproof.api import ConfigError, load_config
from speedproof_accelerate import nnunet
from speedproof_nnunet.folders import DATASET
from speedproof_nnunet.prepare import complete
from speedproof_nnunet.train import choose_variables, parse
from tests.instrument import LineClock, Workload, find_workload, load_claims, program_command, read_lines

FOLDER = Path(__file__).parents[1]
NETWORKS = ["resenc_l", "resenc_m", "plain", "two_d"]
VARIANTS = find_workload("nnunet").declared.variants


@pytest.mark.parametrize("name", ["full", *NETWORKS, "demo", "ci"])
def test_each_configuration_is_understood(name, monkeypatch):
    if name != "full":  # which alone is completed by a process
        monkeypatch.setattr(Workload, "ask", lambda _, command, origin, said: complete(json.loads(said), origin))
    config = load_config(FOLDER / "config/full.yaml", FOLDER / f"config/{name}.yaml")
    own, ours = config.measurement.variants
    assert ours == f"{own}_speedproof"
    assert own == name or name in ("full", "demo", "ci")
    options = f"--iterations {config.data['iterations']} --validation-iterations {config.data['validation_iterations']}"
    assert all(options in (variant.command or "") for variant in config.completed_variants.values())


@pytest.mark.parametrize("name", NETWORKS)
def test_the_two_variants_of_a_network_differ_in_the_trainer_alone(name):
    own, ours = VARIANTS[name], VARIANTS[f"{name}_speedproof"]
    assert own.command.replace("nnUNetTrainerShortEpochs", "nnUNetTrainerSpeedproof") == ours.command
    assert own.reads == ours.reads and own.epochs == ours.epochs
    assert {key for key in own.settings if own.settings[key] != ours.settings[key]} == {"trainer", "augmentation", "network"}


@pytest.mark.parametrize("name", VARIANTS)
def test_a_variant_trains_what_its_settings_state(name, tmp_path, monkeypatch):
    monkeypatch.setenv("SPEEDPROOF_EPOCHS", "3")
    words = program_command(find_workload("nnunet"), VARIANTS[name], tmp_path)
    asked = parse([*words[words.index("speedproof_nnunet.train") + 1 :], "--iterations", "7", "--validation-iterations", "2"])
    assert {key: VARIANTS[name].settings[key] for key in ("plans", "configuration", "trainer")}.items() <= vars(asked).items()
    variables = choose_variables(asked)
    assert variables["nnUNet_preprocessed"] == str(tmp_path / "nnUNet_preprocessed")
    assert variables["nnUNet_extTrainer"] == str(Path(nnunet.__file__).parent / "trainers")
    counts = {key: variables[f"SPEEDPROOF_NNUNET_{key}"] for key in ("ITERATIONS", "VALIDATION_ITERATIONS", "EPOCHS")}
    assert counts == {"ITERATIONS": "7", "VALIDATION_ITERATIONS": "2", "EPOCHS": "3"}
    assert variables["SPEEDPROOF_NNUNET_FINAL_VALIDATION"] == "0"
    assert "nnUNet_n_proc_DA" not in variables


def test_results_are_written_where_a_run_works(tmp_path, monkeypatch):
    asked = parse(shlex.split("--data d --plans p --configuration 2d --trainer t --iterations 1 --validation-iterations 1"))
    for run in ("one", "two"):
        (tmp_path / run).mkdir()
        monkeypatch.chdir(tmp_path / run)
        assert choose_variables(asked)["nnUNet_results"] == str(tmp_path / run / "nnUNet_results")


def test_options_of_the_data_are_those_of_a_training():
    words = shlex.split("--data d --plans p --configuration 2d --trainer t")
    variants = {"one": {"command": "train"}}
    values = {"data": {"augmentation_processes": 3, "final_validation": True}, "completed": {"variants": variants}}
    command = complete(values, "my.yaml")["completed"]["variants"]["one"]["command"]
    asked = parse(words + shlex.split(command)[1:])
    assert (asked.iterations, asked.validation_iterations, asked.augmentation_processes) == (250, 50, 3)
    assert asked.final_validation
    assert choose_variables(asked)["nnUNet_n_proc_DA"] == "3"


@pytest.mark.parametrize("printed", ["np.float32(0.25)", "0.25", "np.float32(0.25), np.float32(0.75)"])
def test_lines_of_nnunet_are_read(printed):
    clock = LineClock()
    for epoch, at_s in enumerate((20, 31), start=1):
        stamp = f"2026-11-27 17:39:{at_s}.142900"
        clock.take(f"{stamp}: train_loss 0.62 \n{stamp}: Pseudo dice [{printed}] \n".encode(), at_s - 0.001)
        clock.take(f"{stamp}: Epoch time: {8 + epoch}.5 s\n{stamp}: Yayy! New best EMA pseudo Dice: 0.1 \n".encode(), at_s)
    marks = read_lines(clock.close(40), VARIANTS["plain"].reads)
    assert [(epoch.train_s, epoch.quality) for epoch in marks.epochs] == [(9.5, 0.25), (10.5, 0.25)]


@pytest.mark.parametrize(
    ("data", "key"),
    [
        ({"iterations": 0}, "data.iterations"),
        ({"stand_in": {"size": "tiny", "cases": 9}}, "size `tiny` has 8"),
        ({"stand_in": {"cases": 4}}, "data.stand_in.cases"),
        ({"source": "local"}, "local_folder"),
    ],
)
def test_a_mistake_in_the_configuration_is_named_by_its_key(data, key):
    with pytest.raises(ConfigError) as caught:
        complete({"data": data, "completed": {}}, "my.yaml")
    assert key in str(caught.value)
    assert "\n" not in str(caught.value)


def test_documented_variants_are_as_the_claims_state_and_no_run_measures_them():
    file = load_claims(FOLDER / "claims.yaml")
    assert all(documented.items() <= VARIANTS[name].settings.items() for name, documented in file.variants.items())
    assert all(claim.quantity.missing for claim in file.claims)


def test_the_data_set_has_nnunets_name():
    assert DATASET == "Dataset009_Spleen"
    assert find_spec("speedproof_nnunet.train") is not None
