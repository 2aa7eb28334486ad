"""What a fast training step on a GPU takes, apart from any one network: see the README beside this package."""

from speedproof_accelerate.replacing import accelerate
from speedproof_accelerate.report import Entry, Report

__all__ = ["Entry", "Report", "accelerate"]
