"""What a fast training step on a GPU takes, apart from any one network: see the README beside this package."""

from speedproof_accelerate.replacing import Entry, Report, accelerate

__all__ = ["Entry", "Report", "accelerate"]
