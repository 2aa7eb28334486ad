"""nnU-Net's trainer with the loader and the augmentation on the device, and an accelerated network."""

from functools import cache
from typing import Any

import numpy as np
import torch
from batchgenerators.dataloading.nondet_multi_threaded_augmenter import NonDetMultiThreadedAugmenter
from batchgenerators.dataloading.single_threaded_augmenter import SingleThreadedAugmenter
from nnunetv2.training.dataloading.data_loader import nnUNetDataLoader
from nnunetv2.training.loss.deep_supervision import DeepSupervisionWrapper
from nnunetv2.utilities.default_n_proc_DA import get_allowed_n_proc_DA
from torch import Tensor, nn

from speedproof_accelerate import accelerate
from speedproof_accelerate.nnunet.augmentation.pipeline import Pipeline, UnsupportedTransformError, translate_pipeline
from speedproof_accelerate.nnunet.loading import AugmentedBatches, LateLoader, ResidentPatches
from speedproof_accelerate.nnunet.short_epochs import nnUNetTrainerShortEpochs
from speedproof_accelerate.nnunet.volumes import count_bytes, find_free_bytes, load_cases

_LARGEST_GRADIENT_NORM = 12  # as nnU-Net clips
_PADDING_LABEL = -1


class nnUNetTrainerSpeedproof(nnUNetTrainerShortEpochs):  # noqa: N801  # nnU-Net's naming
    """Plans, patches, loss, optimizer and schedule are nnU-Net's; batches are made, and augmented, on the device.

    Attributes:
        resident_share: cases stay on the device if they take at most this share of its free memory; otherwise patches are
            read by nnU-Net's worker processes.
    """

    resident_share = 0.4

    def __init__(self, plans: dict, configuration: str, fold: int, dataset_json: dict, device: Any = None) -> None:
        """Take what nnU-Net's trainer takes."""
        super().__init__(plans, configuration, fold, dataset_json, torch.device("cuda") if device is None else device)
        if self.is_ddp:
            raise RuntimeError("nnUNetTrainerSpeedproof trains on one GPU; omit -num_gpus")
        self._accelerated = False

    def _do_i_compile(self) -> bool:
        return False  # the network is accelerated instead

    def _build_loss(self) -> nn.Module:
        """Return nnU-Net's loss, compiled where nnU-Net compiles it."""
        loss = super()._build_loss()
        if super()._do_i_compile():
            inner = loss.loss if isinstance(loss, DeepSupervisionWrapper) else loss
            inner.dc = torch.compile(inner.dc)
        return loss

    def configure_optimizers(self) -> tuple[torch.optim.Optimizer, Any]:
        """Return nnU-Net's optimizer, which updates all parameters in one launch, and its schedule."""
        optimizer, schedule = super().configure_optimizers()
        if type(optimizer) is torch.optim.SGD and self.device.type in ("cuda", "cpu"):
            optimizer = schedule.optimizer = make_fused_sgd(optimizer)
        return optimizer, schedule

    def on_train_epoch_start(self) -> None:
        """Begin an epoch as nnU-Net does; the first one accelerates the network. There nnU-Net's own trainer compiles it."""
        super().on_train_epoch_start()
        if not self._accelerated:
            self._accelerate_network()

    def _accelerate_network(self) -> None:
        on_gpu = self.device.type == "cuda"
        shape = (self.batch_size, self.num_input_channels, *self.configuration_manager.patch_size)
        example = torch.randn(shape, device=self.device) if on_gpu else None
        report = accelerate(self.network, example, torch.float16 if on_gpu else None, graphs=on_gpu)
        self.print_to_log_file(report)
        lay_out_states(self.optimizer)
        if on_gpu:
            torch.cuda.empty_cache()  # what was measured with is free for cases
        self._accelerated = True

    def get_dataloaders(self) -> tuple[Any, Any]:
        """Return loaders of batches on the device; nnU-Net's own for what has no counterpart here.

        They are made for the first batch. By then the network is recorded: what memory that takes is known, and no thread that
        pins memory could disturb it.
        """
        made = cache(self._make_loaders)
        return LateLoader(lambda: made()[0]), LateLoader(lambda: made()[1])

    def _make_loaders(self) -> tuple[Any, Any]:
        try:
            if self.is_cascaded:
                raise UnsupportedTransformError("the previous stage's segmentation has no counterpart")
            pipelines = self._translate_pipelines()
        except UnsupportedTransformError as error:
            self.print_to_log_file(f"Augmentation runs in nnU-Net's worker processes: {error}.")
            return super().get_dataloaders()
        (training, larger), (validation, patch) = pipelines
        datasets = self.get_tr_and_val_datasets()
        needed, free = count_bytes(datasets), find_free_bytes(self.device)
        resident = needed <= self.resident_share * free
        place = f"stay on {self.device}" if resident else "are read by worker processes"
        self.print_to_log_file(f"Augmentation runs on {self.device}. Cases take {needed >> 20} MiB and {place}.")
        cases = load_cases(datasets, self.device) if resident else {}
        made = []
        for dataset, pipeline, size in zip(datasets, (training, validation), (larger, patch), strict=True):
            published = self._make_published_loader(dataset, size)
            halved = dataset is datasets[1]
            source = ResidentPatches(published, cases) if resident else self._start_workers(published, halved=halved)
            made.append(AugmentedBatches(source, pipeline, self.device))
        return made[0], made[1]

    def _translate_pipelines(self) -> tuple[tuple[Pipeline, Any], tuple[Pipeline, Any]]:
        """Return, for training and validation, the augmentation and the size of the patches that it starts from."""
        manager, patch = self.label_manager, self.configuration_manager.patch_size
        scales = self._get_deep_supervision_scales()
        labels_known = [_PADDING_LABEL, *manager.all_labels, *([manager.ignore_label] if manager.has_ignore_label else [])]
        shared = {
            "foreground_labels": manager.foreground_labels,
            "regions": manager.foreground_regions if manager.has_regions else None,
            "ignore_label": manager.ignore_label,
        }
        rotation, by_slices, larger, mirrored = self.configure_rotation_dummyDA_mirroring_and_inital_patch_size()
        masked = self.configuration_manager.use_mask_for_norm
        training = self.get_training_transforms(
            patch, rotation, scales, mirrored, by_slices, use_mask_for_norm=masked, is_cascaded=False, **shared
        )
        validation = self.get_validation_transforms(scales, is_cascaded=False, **shared)
        return (translate_pipeline(training, labels_known), larger), (translate_pipeline(validation, labels_known), patch)

    def _make_published_loader(self, dataset: Any, size: Any) -> nnUNetDataLoader:
        return nnUNetDataLoader(
            dataset,
            self.batch_size,
            size,
            self.configuration_manager.patch_size,
            self.label_manager,
            oversample_foreground_percent=self.oversample_foreground_percent,
            probabilistic_oversampling=self.probabilistic_oversampling,
        )

    def _start_workers(self, published: nnUNetDataLoader, *, halved: bool) -> Any:
        """Return a loader whose worker processes read patches, as many as nnU-Net starts, and half for validation."""
        workers = get_allowed_n_proc_DA()
        if workers == 0:
            return SingleThreadedAugmenter(published, None)
        workers = max(1, workers // 2) if halved else workers
        return NonDetMultiThreadedAugmenter(
            published, None, workers, num_cached=max(3, workers), pin_memory=self.device.type == "cuda", wait_time=0.002
        )

    def take_step(self, batch: dict) -> dict:
        """Take nnU-Net's training step without waiting for the device: the loss stays there."""
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast(self.device.type, enabled=self.device.type == "cuda"):
            loss = self.loss(self.network(batch["data"].to(self.device)), move_targets(batch["target"], self.device))
        scaler = self.grad_scaler
        (loss if scaler is None else scaler.scale(loss)).backward()
        if scaler is not None:
            scaler.unscale_(self.optimizer)
        nn.utils.clip_grad_norm_(self.network.parameters(), _LARGEST_GRADIENT_NORM)
        if scaler is None:
            self.optimizer.step()
        else:
            scaler.step(self.optimizer)
            scaler.update()
        return {"loss": loss.detach().clone()}

    def on_train_epoch_end(self, train_outputs: list[dict]) -> None:
        """Read all losses of the epoch at once."""
        losses = torch.stack([one["loss"] for one in train_outputs]).cpu().numpy()
        super().on_train_epoch_end([{"loss": np.asarray(loss)} for loss in losses])

    def load_checkpoint(self, filename_or_checkpoint: dict | str) -> None:
        """Continue from a checkpoint, also from one of a device on which weights had another memory order."""
        super().load_checkpoint(filename_or_checkpoint)
        lay_out_states(self.optimizer)

    def on_train_end(self) -> None:
        """Give nnU-Net the loaders whose processes it stops."""
        for name in ("dataloader_train", "dataloader_val"):
            loader = getattr(self, name)
            if isinstance(loader, LateLoader):
                loader = loader.made
            setattr(self, name, loader.source if isinstance(loader, AugmentedBatches) else loader)
        super().on_train_end()


def move_targets(targets: Tensor | list[Tensor], device: torch.device) -> Tensor | list[Tensor]:
    """Return targets on a device."""
    return [one.to(device) for one in targets] if isinstance(targets, list) else targets.to(device)


def lay_out_states(optimizer: torch.optim.Optimizer) -> None:
    """Give momenta, and what else is kept of each weight, the memory order of the weights, as a fused optimizer requires."""
    for parameter, state in optimizer.state.items():
        for name, kept in state.items():
            if isinstance(kept, Tensor) and kept.shape == parameter.shape and kept.stride() != parameter.stride():
                state[name] = torch.empty_like(parameter, dtype=kept.dtype).copy_(kept)


def make_fused_sgd(optimizer: torch.optim.SGD) -> torch.optim.SGD:
    """Return an optimizer with the same settings, of the same parameters, that updates all of them in one launch.

    Its momenta begin as zeros: torch would leave them uninitialized if the gradient scaler skipped the first step. nnU-Net's
    own trainer may continue from what it saves.
    """
    parameters = [one for group in optimizer.param_groups for one in group["params"]]
    fused = torch.optim.SGD(parameters, **{**optimizer.defaults, "foreach": None, "fused": True})
    for one in parameters:
        fused.state[one]["momentum_buffer"] = torch.zeros_like(one)
    fused.register_state_dict_post_hook(_save_for_any)
    fused.register_load_state_dict_post_hook(_fuse)
    return fused


def _save_for_any(_: torch.optim.Optimizer, saved: dict[str, Any]) -> dict[str, Any]:
    """Return an optimizer's state with tensors in plain memory order, and without its way of updating."""
    states = {
        number: {name: kept.contiguous() if isinstance(kept, Tensor) else kept for name, kept in state.items()}
        for number, state in saved["state"].items()
    }
    return {**saved, "state": states, "param_groups": [{**group, "fused": None} for group in saved["param_groups"]]}


def _fuse(optimizer: torch.optim.Optimizer) -> None:
    """Update in one launch, whatever saved the state that was loaded."""
    for group in optimizer.param_groups:
        group |= {"fused": True, "foreach": None}
    lay_out_states(optimizer)
