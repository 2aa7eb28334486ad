"""Filling a variant's prepared folder, apart from any run, so that its runs start from volumes that are there."""

import logging

from speedproof.api import ConfigError, Dataset, PreparedFolder, TrainingError
from speedproof_spleen.config import SpleenConfig
from speedproof_spleen.segmentation import build_case
from speedproof_spleen.training.conditions import choose_device, seconds_since_process_start
from speedproof_spleen.training.loaders import build_store
from speedproof_spleen.training.preparation import prepare_volumes
from speedproof_spleen.training.rehearsal import rehearse

log = logging.getLogger("speedproof")


def fill_prepared_folder(config: SpleenConfig, dataset: Dataset, files: list[dict[str, str]], name: str) -> PreparedFolder:
    """Prepare all volumes of the variant `name` that its folder lacks, on the device that its runs use, and keep them there.

    Kernels are compiled, too, to where Triton's environment says.

    Raises:
        ConfigError: the variant has no `prepared_folder`.
        TrainingError: the folder could not keep them all.
    """
    variant = config.variants[name]
    device = choose_device(config.measurement.device, variant.gpus)
    case = build_case(config.case, config.workload, variant, device)
    store = build_store(case, variant, dataset, files, device)
    if store is None:
        raise ConfigError(f"variants.{name}: no `prepared_folder` to fill; name one")
    rehearse(case, variant, device)
    prepared = prepare_volumes(files, case.preparation_transform, device, store)
    if lacking := store.count_lacking(files):
        raise TrainingError(
            f"variants.{name}.prepared_folder: {store.folder}: {lacking} of {len(files)} volumes could not be kept there; "
            "make room, or name another folder"
        )
    seconds = seconds_since_process_start()
    log.info("%d volumes in %s after %.1f s; %d were there", len(files), store.folder, seconds, prepared.from_store)
    return PreparedFolder(variant=name, seconds=seconds, volumes=len(files), from_store=prepared.from_store)
