import copy
from pathlib import Path

import pytest
import yaml

from speedproof.config.load import schema_text
from speedproof.config.model import Config
from speedproof.util.errors import ConfigError
from speedproof_spleen.config import SpleenConfig, check_config, load_config

ROOT = Path(__file__).parents[2]
VALUES = yaml.safe_load((ROOT / "config.yaml").read_text())


def test_the_shipped_configurations_are_sound():
    assert load_config(ROOT / "config.yaml").data.source == "msd"
    overlays = sorted((ROOT / "workflow/config").glob("*.yaml"))
    assert len(overlays) > 4
    for overlay in overlays:
        config = load_config(ROOT / "config.yaml", overlay)
        assert config.variants.keys() >= VALUES["variants"].keys()


def test_the_ablation_leads_from_the_regular_variant_to_turbo_without_changing_what_they_do():
    shipped = load_config(ROOT / "config.yaml")
    config = load_config(ROOT / "config.yaml", ROOT / "workflow/config/ablation.yaml")
    ablation = config.measurement.ablation
    assert (ablation[0], ablation[-1]) == ("regular", "turbo")
    regular, turbo = (
        config.changed_techniques(config.completed_variants[name].settings, shipped.completed_variants[name].settings)
        for name in (ablation[0], ablation[-1])
    )
    assert regular == []
    assert turbo == ["cache copies", "foreground index", "loader", "pinned memory"]  # which a resident cache does not use


def test_turbo_is_measured_beside_the_documented_variants_and_on_its_way_to_a_dice():
    shipped, variants, way = (
        load_config(ROOT / "config.yaml", *(ROOT / f"workflow/config/{name}.yaml" for name in names))
        for names in ([], ["turbo"], ["turbo_convergence"])
    )
    assert variants.measurement.control and not variants.measurement.ablation
    for config in (variants, way):
        for name in config.measurement.variants:
            base = shipped.completed_variants[name.removesuffix("_warm")]
            warm = ["prepared volumes"] if name.endswith("_warm") else []
            assert config.changed_techniques(base.settings, config.completed_variants[name].settings) == warm
    assert way.measurement.rounds == 5
    assert {way.epochs_of(name) for name in ("turbo", "turbo_warm")} == {shipped.variants["turbo"].epochs}


def test_the_schema_is_the_models():
    assert (ROOT / "workflow/schemas/config.schema.yaml").read_text() == schema_text(Config, "`speedproof schema`")
    spleens = schema_text(SpleenConfig, "`python -m speedproof_spleen schema`")
    assert (ROOT / "workloads/spleen/config.schema.yaml").read_text() == spleens


def test_every_key_of_the_model_stands_in_config_yaml():
    """A user looks for keys in config.yaml: what the model has, the file shows; what of quality, the workload's."""
    shown = check_config(VALUES).model_dump(mode="json", exclude={"variants", "completed"})
    quality = shown["measurement"].pop("quality")
    assert _keys(quality) == _keys(yaml.safe_load((ROOT / "workloads/spleen/workload.yaml").read_text())["quality"])
    assert _keys({key: value for key, value in VALUES.items() if key != "variants"}) - {("measurement", "quality")} == _keys(
        shown
    )


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (["variants", "fast", "cash"], "gpu", ["variants.fast.cash", "unknown key", "cache"]),
        (["dat"], {}, ["dat", "unknown key", "data"]),
        (["variants", "fast", "cache"], "disk", ["variants.fast.cache", "'disk'"]),
        (["variants", "fast", "batch_size"], "four", ["variants.fast.batch_size", "'four'"]),
        (["variants", "fast", "optimizer", "name"], "adagrad", ["variants.fast.optimizer", "adagrad"]),
        (["measurement", "variants"], ["baseline", "turbo9"], ["measurement.variants", "turbo9", "baseline"]),
        (["measurement", "pairs"], [["fast", "regular"]], ["measurement", "pairs: `regular` is not one of", "baseline, fast"]),
        (["measurement", "rounds"], -1, ["measurement.rounds"]),
        (["measurement", "repeats"], 4, ["measurement", "`repeats` is now `rounds`"]),
        (["measurement", "ladder"], ["fast"], ["measurement", "`ladder` is now `ablation`"]),
        (["resources", "block"], {"gpus": 1}, ["resources", "`block` is now `experiment`"]),
        (["measurement", "quality", "dice_targets"], [0.9], ["measurement.quality", "`dice_targets` is now `targets`"]),
        (["measurement", "quality", "dice_margin"], 0.1, ["measurement.quality", "`dice_margin` is now `margin`"]),
        (["measurement", "quality", "targets"], [0.9, 94], ["measurement.quality", "94 cannot be reached"]),
        (["measurement", "quality", "better"], "up", ["measurement.quality.better", "'up'"]),
        (["data", "source"], "local", ["data", "local_folder"]),
        (["variants", "fast", "workers"], 2, ["variants.fast", "workers: 0"]),
        (["results"], "../elsewhere", ["results", "below the working folder"]),
        (["variants", "fast", "gpus"], 0, ["variants.fast.gpus"]),
        (["variants", "fast_tutorial", "optimizer"], {"name": "sgd", "learning_rate": 1, "nesterov": True}, ["`momentum`"]),
        (["variants", "fast", "schedule"], {"name": "warm_up_decay"}, ["variants.fast.schedule", "warm_up_epochs"]),
        (["variants", "fast", "shard"], False, ["variants.fast", "`gpus` above 1"]),
        (["variants", "fast", "overlap"], 0.5, ["variants.fast", "`gpus` above 1, and `kernels`"]),
        (["variants", "fast", "kernels"], ["norm"], ["variants.fast", "`kernels` need `toolkit: torch`"]),
        (["variants", "fast", "kernels"], ["crops"], ["variants.fast", "set `cache: resident`, or leave out `crops`"]),
        (["variants", "turbo", "kernels"], ["convolution"], ["variants.turbo.kernels", "'convolution'"]),
        (["variants", "turbo", "precision"], "fp32", ["variants.turbo", "adam needs `precision: fp16` or `bf16`"]),
        (
            ["variants", "turbo", "optimizer"],
            {"name": "adamw", "learning_rate": 0.1, "fused": True},
            ["variants.turbo", "that of `optimizer: {name: adam, fused: true}`"],
        ),
        (["variants", "turbo", "kernels"], ["convolutions"], ["variants.turbo", "name `norm`, too"]),
        (["variants", "turbo", "network"], {"dropout": 0.1}, ["variants.turbo", "`network.dropout: 0`"]),
        (
            ["variants", "turbo", "network"],
            {"channels": [4, 8, 16]},
            ["variants.turbo", "set 8 or more in each of `network.channels`, or leave out `convolutions`"],
        ),
        (["variants", "turbo", "network"], {"channels": [16, 1, 32]}, ["variants.turbo", "leave out `convolutions`"]),
        (["variants", "fast", "network"], {"channels": [16]}, ["variants.fast.network.channels", "at least 2 entries"]),
        (
            ["variants", "turbo", "loss"],
            {"name": "dice"},
            ["variants.turbo", "`loss: {name: dice_ce, include_background: true}`"],
        ),
        (
            ["variants", "turbo", "loss"],
            {"name": "dice_ce", "include_background": False},
            ["variants.turbo", "the loss kernel"],
        ),
        (["variants", "turbo", "compile"], "default", ["variants.turbo.compile", "unknown key"]),
        (["variants", "turbo", "launch"], "graph", ["variants.turbo.launch", "'graph'"]),
        (["variants", "turbo", "step_log"], True, ["variants.turbo", "`launch: graphs` needs", "`step_log: false`"]),
        (["variants", "fast", "launch"], "graphs", ["variants.fast", "`launch: graphs` needs `cache: resident`"]),
        (["variants", "turbo", "optimizer", "fused"], False, ["variants.turbo", "`fused: true`"]),
        (["variants", "turbo", "optimizer"], {"name": "sgd", "learning_rate": 0.1}, ["variants.turbo", "`fused: true`"]),
    ],
)
def test_a_mistake_is_named_by_its_key_in_one_line(path, value, said):
    values = copy.deepcopy(VALUES)
    parent = values
    for key in path[:-1]:
        parent = parent[key]
    parent[path[-1]] = value
    with pytest.raises(ConfigError) as caught:
        check_config(values, "config.yaml")
    text = str(caught.value)
    assert "\n" not in text
    for word in ["config.yaml", *said]:
        assert word in text


@pytest.mark.parametrize("key", ["patch_size", "window_size"])
def test_a_network_needs_variants_that_it_can_halve(key):
    """Five levels halve a side four times: 80 is a multiple of 16, while 97 and 88 are not. Four levels take 88."""
    values = copy.deepcopy(VALUES)
    values["measurement"]["variants"] = ["turbo"]
    values["workload"][key] = [80, 80, 97]
    with pytest.raises(ConfigError, match=rf"workload\.{key}: .*`turbo` halves each size 4 times; .*multiples of 16$"):
        check_config(values)
    values["workload"][key] = [80, 88, 80]
    with pytest.raises(ConfigError, match=rf"workload\.{key}"):
        check_config(values)
    values["variants"]["turbo"]["network"] = {"channels": [16, 32, 64, 128]}
    check_config(values)
    values["measurement"]["variants"] = ["fast"]  # nobody's kernels, and the same network
    with pytest.raises(ConfigError, match="`fast` halves"):
        check_config(values)


def test_a_later_file_lies_over_an_earlier_one(tmp_path):
    (tmp_path / "over.yaml").write_text("measurement: {rounds: 7}\n")
    config = load_config(ROOT / "config.yaml", tmp_path / "over.yaml")
    assert config.measurement.rounds == 7
    assert config.measurement.epochs == VALUES["measurement"]["epochs"]


@pytest.mark.parametrize("content", ["a: [1", "- 1", "\x00"])
def test_a_file_that_is_no_mapping_is_named(tmp_path, content):
    (tmp_path / "broken.yaml").write_text(content)
    with pytest.raises(ConfigError, match=r"broken\.yaml"):
        load_config(tmp_path / "broken.yaml")


def _keys(values, path=()):
    found = set()
    for key, value in values.items():
        found.add((*path, key))
        if isinstance(value, dict):
            found |= _keys(value, (*path, key))
    return found


@pytest.mark.parametrize("scratch", ["$(id)", "/a/$", "", "${TMPDIR"])
def test_a_scratch_folder_names_variables_and_executes_nothing(scratch):
    values = load_config(ROOT / "config.yaml").model_dump(mode="json")
    values["resources"]["scratch"] = scratch
    with pytest.raises(ConfigError, match=r"resources\.scratch: must be a folder's path"):
        check_config(values)


@pytest.mark.parametrize(
    ("capture", "said"),
    [
        ("7-8", "trains 6 epochs, and 8 was asked for"),
        ("2-3", "some validate: take whole intervals, such as 3-4"),
        ("3-4", None),
        (3, None),
    ],
)
def test_captured_epochs_are_trained_and_whole_intervals(capture, said):
    values = copy.deepcopy(VALUES)
    values["profiling"]["capture"] = capture
    values["measurement"] |= {"epochs": 6, "validate_every": 2, "profiled": 1}
    if said is None:
        assert check_config(values).profiling.capture == str(capture)
    else:
        with pytest.raises(ConfigError, match=said):
            check_config(values)
