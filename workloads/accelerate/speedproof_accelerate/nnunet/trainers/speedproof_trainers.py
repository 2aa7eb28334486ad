"""The trainers that `nnUNetv2_train -tr` finds here."""

from speedproof_accelerate.nnunet.short_epochs import nnUNetTrainerShortEpochs
from speedproof_accelerate.nnunet.trainer import nnUNetTrainerSpeedproof

__all__ = ["nnUNetTrainerShortEpochs", "nnUNetTrainerSpeedproof"]
