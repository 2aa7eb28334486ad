"""The trainer trains as nnU-Net's own does, on a CPU, with real CTs preprocessed by nnU-Net."""

import multiprocessing
import os
import subprocess
import sys

import numpy as np
import pytest
import torch

pytest.importorskip("nnunetv2", reason="nnU-Net is not installed: make nnunet")

from batchgeneratorsv2.transforms.utils.compose import ComposeTransforms
from nnunetv2.training.logging.nnunet_logger import MetaLogger
from nnunetv2.training.nnUNetTrainer.nnUNetTrainer import nnUNetTrainer

from speedproof_accelerate.nnunet import trainer as trainer_module
from speedproof_accelerate.nnunet.loading import AugmentedBatches, ResidentPatches
from speedproof_accelerate.nnunet.short_epochs import SETTINGS, IterationRanges, nnUNetTrainerShortEpochs
from speedproof_accelerate.nnunet.trainer import lay_out_states, nnUNetTrainerSpeedproof
from speedproof_accelerate.nnunet.volumes import load_cases

CONFIGURATIONS = ["3d_fullres", "2d"]
pytestmark = pytest.mark.usefixtures("plain_torch")


@pytest.fixture
def plain_torch(monkeypatch):
    """Torch computes networks on a CPU: interpreted kernels take a second per call."""
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)


@pytest.fixture
def short(monkeypatch):
    """Two epochs of three iterations. Nothing is drawn after each."""
    for variable, value in zip(SETTINGS, ("3", "2", "2"), strict=True):
        monkeypatch.setenv(variable, value)
    monkeypatch.setattr(MetaLogger, "plot_progress_png", lambda logger, folder: None)


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_it_trains_and_its_checkpoint_fits_the_published_trainer(make_trainer, configuration, capsys):
    torch.manual_seed(0)
    trainer = make_trainer(nnUNetTrainerSpeedproof, configuration)
    trainer.run_training()
    printed = capsys.readouterr().out
    assert printed.count("Epoch time:") == 2
    assert "Augmentation runs on cpu" in printed
    losses = trainer.logger.get_value("train_losses", step=None)
    assert len(losses) == 2
    assert np.isfinite(losses).all()
    published = make_trainer(nnUNetTrainer, configuration)
    published.initialize()
    published.load_checkpoint(f"{trainer.output_folder}/checkpoint_final.pth")
    for ours, theirs in zip(trainer.network.parameters(), published.network.parameters(), strict=True):
        assert torch.equal(ours, theirs)


@pytest.mark.usefixtures("short")
def test_it_resumes_with_its_momenta(make_trainer):
    trainer = make_trainer(nnUNetTrainerSpeedproof)
    trainer.run_training()
    resumed = make_trainer(nnUNetTrainerSpeedproof)
    resumed.load_checkpoint(f"{trainer.output_folder}/checkpoint_final.pth")
    batch = next(trainer.get_dataloaders()[0])
    losses = [[float(one.train_step(batch)["loss"]) for _ in range(2)] for one in (trainer, resumed)]
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-6)


@pytest.mark.usefixtures("interpreted")
def test_momenta_have_the_memory_order_of_weights(make_trainer, monkeypatch, tmp_path):
    """With kernels, weights are channels last; without, as nnU-Net's own. A fused optimizer requires equal orders."""
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    saved = make_trainer(nnUNetTrainerSpeedproof)
    saved.initialize()
    before = [one.stride() for one in saved.network.parameters()]
    saved.on_train_epoch_start()
    assert before != [one.stride() for one in saved.network.parameters()]
    assert_same_order(saved)
    for parameter, state in saved.optimizer.state.items():
        state["momentum_buffer"].copy_(torch.randn(parameter.shape))
    saved.save_checkpoint(str(tmp_path / "checkpoint.pth"))
    monkeypatch.delenv("TRITON_INTERPRET")
    loaded = make_trainer(nnUNetTrainerSpeedproof)
    loaded.load_checkpoint(str(tmp_path / "checkpoint.pth"))
    assert_same_order(loaded)
    pairs = list(zip(saved.network.parameters(), loaded.network.parameters(), strict=True))
    assert any(one.stride() != other.stride() for one, other in pairs)
    for one, other in pairs:
        momenta = (saved.optimizer.state[one]["momentum_buffer"], loaded.optimizer.state[other]["momentum_buffer"])
        assert torch.equal(*momenta)


@pytest.mark.usefixtures("interpreted")
def test_nnunets_own_trainer_continues_from_its_checkpoint(make_trainer, monkeypatch, tmp_path):
    """Its weights are contiguous, and it does not update all in one launch."""
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    saved = make_trainer(nnUNetTrainerSpeedproof)
    saved.initialize()
    saved.on_train_epoch_start()
    for parameter, state in saved.optimizer.state.items():
        state["momentum_buffer"].copy_(torch.randn(parameter.shape))
    saved.save_checkpoint(str(tmp_path / "checkpoint.pth"))
    for kind in (nnUNetTrainer, nnUNetTrainerSpeedproof):
        loaded = make_trainer(kind)
        loaded.load_checkpoint(str(tmp_path / "checkpoint.pth"))
        assert_same_order(loaded)
        assert [group["fused"] for group in loaded.optimizer.param_groups] == [kind is nnUNetTrainerSpeedproof or None]
        for one, other in zip(saved.network.parameters(), loaded.network.parameters(), strict=True):
            momenta = (saved.optimizer.state[one]["momentum_buffer"], loaded.optimizer.state[other]["momentum_buffer"])
            assert torch.equal(*momenta)


def test_all_that_an_optimizer_keeps_of_a_weight_gets_its_memory_order():
    weight = torch.nn.Parameter(torch.randn(4, 3, 3, 3, 3))
    optimizer = torch.optim.Adam([weight], amsgrad=True)
    weight.sum().backward()
    optimizer.step()
    before = {name: kept.clone() for name, kept in optimizer.state[weight].items()}
    weight.data = weight.data.to(memory_format=torch.channels_last_3d)
    lay_out_states(optimizer)
    state = optimizer.state[weight]
    assert all(torch.equal(state[name], kept) for name, kept in before.items())
    assert {name for name, kept in state.items() if kept.stride() == weight.stride()} == {
        "exp_avg",
        "exp_avg_sq",
        "max_exp_avg_sq",
    }


@pytest.mark.usefixtures("short")
def test_the_network_is_accelerated_in_the_first_epoch_and_then_cases_are_loaded(make_trainer, monkeypatch):
    """What memory is free for cases is known only then. A trainer that takes steps of its own is accelerated, too."""
    done = []

    class WithOwnStep(nnUNetTrainerSpeedproof):
        def train_step(self, batch):
            done.append("step")
            return super().train_step(batch)

        def on_epoch_start(self):
            super().on_epoch_start()
            done.append("epoch")

    for name in ("accelerate", "find_free_bytes"):
        original = getattr(trainer_module, name)

        def note(*given, name=name, original=original, **named):
            done.append(name)
            return original(*given, **named)

        monkeypatch.setattr(trainer_module, name, note)
    make_trainer(WithOwnStep).run_training()
    assert done == ["epoch", "accelerate", "find_free_bytes", *["step"] * 3, "epoch", *["step"] * 3]


def assert_same_order(trainer):
    assert all(state["momentum_buffer"].stride() == one.stride() for one, state in trainer.optimizer.state.items())


@pytest.mark.usefixtures("short")
def test_worker_processes_read_patches_and_end_with_the_training(make_trainer, monkeypatch):
    monkeypatch.setenv("nnUNet_n_proc_DA", "2")
    monkeypatch.setattr(nnUNetTrainerSpeedproof, "resident_share", 0.0)
    trainer = make_trainer(nnUNetTrainerSpeedproof)
    trainer.run_training()
    assert np.isfinite(trainer.logger.get_value("train_losses", step=None)).all()
    assert multiprocessing.active_children() == []


@pytest.mark.usefixtures("short")
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU: CUDA graphs are recorded on one")
@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_on_a_gpu_it_trains_with_graphs(make_trainer, configuration, capsys):
    trainer = make_trainer(nnUNetTrainerSpeedproof, configuration, "cuda")
    trainer.run_training()
    printed = capsys.readouterr().out
    assert "Augmentation runs on cuda:0" in printed
    assert "Forward and backward are launched as a CUDA graph each." in printed
    assert np.isfinite(trainer.logger.get_value("train_losses", step=None)).all()
    trainer.perform_actual_validation()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU: nothing to wait for")
@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_on_a_gpu_the_cpu_waits_for_nothing_within_an_epoch(make_trainer, configuration):
    trainer = make_trainer(nnUNetTrainerSpeedproof, configuration, "cuda")
    trainer.initialize()
    trainer.on_train_epoch_start()
    loader = trainer.get_dataloaders()[0]
    for _ in range(4):  # libraries choose kernels, the optimizer and the scaler make their state
        trainer.train_step(next(loader))
    torch.cuda.set_sync_debug_mode("error")
    try:
        for _ in range(40):  # most transformations are drawn
            trainer.train_step(next(loader))
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.usefixtures("short")
def test_the_published_trainer_has_the_same_lengths(make_trainer):
    shorter = make_trainer(nnUNetTrainerShortEpochs)
    assert (shorter.num_iterations_per_epoch, shorter.num_val_iterations_per_epoch, shorter.num_epochs) == (3, 2, 2)
    assert type(shorter).get_dataloaders is nnUNetTrainer.get_dataloaders
    assert type(shorter).run_training is nnUNetTrainer.run_training


def test_each_iteration_of_an_epoch_is_in_a_range(monkeypatch):
    calls = []
    monkeypatch.setattr(torch.cuda.nvtx, "range_push", calls.append)
    monkeypatch.setattr(torch.cuda.nvtx, "range_pop", lambda: calls.append("end"))
    ranges = IterationRanges(torch.device("cuda"))
    ranges.end_step()  # a step outside of an epoch
    for _ in range(2):
        ranges.begin_epoch(2)
        ranges.end_step()
        ranges.end_step()
    assert calls == ["training iteration", "end"] * 4


@pytest.mark.parametrize("kind", [nnUNetTrainerShortEpochs, nnUNetTrainerSpeedproof])
def test_the_final_validation_can_be_skipped(make_trainer, monkeypatch, kind):
    done = []
    monkeypatch.setattr(nnUNetTrainer, "perform_actual_validation", lambda self, save: done.append(save))
    trainer = make_trainer(kind)
    trainer.perform_actual_validation(True)
    monkeypatch.setenv("SPEEDPROOF_NNUNET_FINAL_VALIDATION", "0")
    trainer.perform_actual_validation(True)
    assert done == [True]


@pytest.mark.parametrize("kind", [nnUNetTrainerShortEpochs, nnUNetTrainerSpeedproof])
def test_the_seed_decides_the_initial_weights(make_trainer, monkeypatch, kind):
    weights = []
    for seed in ("1", "2", "1"):
        monkeypatch.setenv("SPEEDPROOF_SEED", seed)
        trainer = make_trainer(kind)
        trainer.initialize()
        weights.append(next(trainer.network.parameters()).detach().clone())
    assert torch.equal(weights[0], weights[2])
    assert not torch.equal(weights[0], weights[1])


def test_a_length_that_is_no_number_is_refused(make_trainer, monkeypatch):
    monkeypatch.setenv("SPEEDPROOF_NNUNET_ITERATIONS", "few")
    with pytest.raises(ValueError, match="SPEEDPROOF_NNUNET_ITERATIONS is 'few'; set it to a positive integer"):
        make_trainer(nnUNetTrainerShortEpochs)


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_a_step_is_that_of_the_published_trainer(make_trainer, configuration):
    trainers = [make_trainer(kind, configuration) for kind in (nnUNetTrainerSpeedproof, nnUNetTrainer)]
    for trainer in trainers:
        torch.manual_seed(0)
        trainer.initialize()
    batch = next(trainers[0].get_dataloaders()[0])
    losses = [[float(trainer.train_step(batch)["loss"]) for _ in range(4)] for trainer in trainers]
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-5)
    for ours, theirs in zip(*(trainer.network.parameters() for trainer in trainers), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)


def keep_batches(trainer, count):
    """Return batches of both loaders, in double precision."""
    trainer.initialize()
    return [
        [{"data": one["data"].double(), "target": one["target"]} for one, _ in zip(loader, range(count), strict=False)]
        for loader in trainer.get_dataloaders()
    ]


def train_on(kind, batches, overflows):
    """Return a class of trainers in double precision that get these batches and note losses, scales and rates.

    A gradient is infinite in the steps with these numbers, and so large in step 2 that it is clipped.
    """
    factors = {2: 1e6, **dict.fromkeys(overflows, torch.inf)}

    class OnBatches(kind):
        def __init__(self, plans, configuration, fold, dataset_json, device):
            super().__init__(plans, configuration, fold, dataset_json, device)
            self.grad_scaler = torch.amp.GradScaler("cpu", growth_interval=4) if overflows else None
            self.noted, self.disable_checkpointing = [], True

        def initialize(self):
            torch.manual_seed(0)
            super().initialize()
            first = next(self.network.parameters())
            first.register_hook(lambda gradient: gradient * factors.get(len(self.noted), 1))

        @staticmethod
        def build_network_architecture(plans_manager, configuration_manager, *sizes):
            return kind.build_network_architecture(plans_manager, configuration_manager, *sizes).double()

        def get_dataloaders(self):
            return [({**one, "data": one["data"].clone()} for one in kept) for kept in batches]

        def train_step(self, batch):
            outputs = super().train_step(batch)
            scale = self.grad_scaler.get_scale() if overflows else 1.0
            self.noted.append((float(outputs["loss"]), scale, self.optimizer.param_groups[0]["lr"]))
            return outputs

    return OnBatches


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("overflows", [(), (0, 1, 4)], ids=["without a scaler", "with skipped steps"])
@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_a_training_is_that_of_the_published_trainer(make_trainer, configuration, overflows):
    """Double precision, so that rounding does not add up.

    Checks that no step is lost, doubled or taken at another rate, and that both clip gradients and skip steps alike.
    """
    batches = keep_batches(make_trainer(nnUNetTrainer, configuration), 6)
    trainers = [
        make_trainer(train_on(kind, batches, overflows), configuration)
        for kind in (nnUNetTrainerSpeedproof, nnUNetTrainerShortEpochs)
    ]
    for trainer in trainers:
        trainer.run_training()
    ours, theirs = (np.array(trainer.noted) for trainer in trainers)
    assert len(ours) == len(theirs) == 6
    np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)
    for logged in ("val_losses", "mean_fg_dice"):
        ours, theirs = (trainer.logger.get_value(logged, step=None) for trainer in trainers)
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_patches_are_those_of_the_published_loader(make_trainer, configuration):
    trainer = make_trainer(nnUNetTrainerSpeedproof, configuration)
    trainer.initialize()
    dataset = trainer.get_tr_and_val_datasets()[0]
    size = trainer.configure_rotation_dummyDA_mirroring_and_inital_patch_size()[2]
    published = trainer._make_published_loader(dataset, size)
    resident = ResidentPatches(published, load_cases([dataset], trainer.device))
    for _ in range(5):
        batches = []
        for loader in (resident, published):
            np.random.seed(4)  # noqa: NPY002  # nnU-Net draws from it
            batches.append(next(loader))
        assert list(batches[0]["keys"]) == list(batches[1]["keys"])
        assert torch.equal(batches[0]["data"], batches[1]["data"])
        assert torch.equal(batches[0]["target"], batches[1]["target"])


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_batches_of_streamed_cases_are_those_of_resident_ones(make_trainer, configuration):
    trainer = make_trainer(nnUNetTrainerSpeedproof, configuration)
    trainer.initialize()
    batches = []
    for share in (0.4, 0.0):
        trainer.resident_share = share
        loaders = trainer._make_loaders()
        assert all(isinstance(one, AugmentedBatches) for one in loaders)
        assert isinstance(loaders[0].source, ResidentPatches) == (share > 0)
        torch.manual_seed(2)
        np.random.seed(2)  # noqa: NPY002  # nnU-Net draws from it
        batches.append([next(loader) for loader in loaders])
    for ours, theirs in zip(*batches, strict=True):
        assert torch.equal(ours["data"], theirs["data"])
        assert all(torch.equal(one, other) for one, other in zip(ours["target"], theirs["target"], strict=True))


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_a_batch_has_the_published_form(make_trainer, configuration):
    batches = []
    for kind in (nnUNetTrainerSpeedproof, nnUNetTrainer):
        trainer = make_trainer(kind, configuration)
        trainer.initialize()
        batches.append([next(loader) for loader in trainer.get_dataloaders()])
    for ours, theirs in zip(*batches, strict=True):
        assert ours["data"].shape == theirs["data"].shape
        assert ours["data"].dtype == theirs["data"].dtype
        assert [(one.shape, one.dtype) for one in ours["target"]] == [(one.shape, one.dtype) for one in theirs["target"]]


def test_without_a_counterpart_the_published_loader_augments(make_trainer, capsys):
    class WithDeformation(nnUNetTrainerSpeedproof):
        @staticmethod
        def get_training_transforms(*arguments, **settings):
            published = nnUNetTrainer.get_training_transforms(*arguments, **settings)
            published.transforms[0].p_elastic_deform = 0.2
            return ComposeTransforms(published.transforms)

    trainer = make_trainer(WithDeformation)
    trainer.initialize()
    loaders = trainer._make_loaders()
    assert not any(isinstance(one, AugmentedBatches) for one in loaders)
    assert "SpatialTransform: elastic deformation has no counterpart" in capsys.readouterr().out


# The public index has a torchvision for CUDA. Beside torch's CPU build, it imports if these operators are known.
FIND = """
import sys, torch
try:
    import torchvision
except RuntimeError:
    for name in ("nms", "qnms"):
        torch.library.define(f"torchvision::{name}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
from nnunetv2.utilities.find_objects import recursive_find_trainer_class_by_name
print(recursive_find_trainer_class_by_name(sys.argv[1]).__name__)
"""


@pytest.mark.parametrize("name", ["nnUNetTrainerSpeedproof", "nnUNetTrainerShortEpochs"])
def test_nnunet_finds_the_trainer(name):
    """In a process of its own: nnU-Net fails if a module that it looks at imports another, as some do in this one."""
    folder = subprocess.run([sys.executable, "-m", "speedproof_accelerate.nnunet"], capture_output=True, text=True, check=True)
    variables = os.environ | {"nnUNet_extTrainer": folder.stdout.strip()}
    found = subprocess.run([sys.executable, "-c", FIND, name], capture_output=True, text=True, check=True, env=variables)
    assert found.stdout.splitlines()[-1] == name
