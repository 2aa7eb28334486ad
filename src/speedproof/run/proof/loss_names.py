"""Whether what a quality is called reads like a loss, of which lower is better."""

import re

# What stands for text that a pattern does not name: an escape such as `\s`, or a sign of the regular expression.
_UNNAMED = re.compile(r"\\.|[.*+?^$|{}\[\],;]")
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")  # also those of valLoss and val_loss
_LOSSES = frozenset((
    "loss", "losses", "error", "errors", "err", "perplexity", "ppl", "wer", "cer", "mae", "mse", "rmse", "mape", "nll", "bpb",
    "bpc", "bpd", "fid", "crossentropy",
))  # fmt: skip
_SCORES = frozenset((
    "accuracy", "acc", "score", "iou", "miou", "f", "auc", "auroc", "map", "bleu", "rouge", "psnr", "ssim",
    "precision", "recall", "reward",
))  # fmt: skip


def find_loss_name(quality: str, is_column: bool) -> str | None:
    """Return the word of a pattern or column that reads like a loss; None if there is none, or another one reads like a score.

    Of a pattern, the words right before its group count: in `loss (?:\\S+), acc (\\S+)` that is `acc`.
    """
    words = [word.lower() for word in _WORD.findall(quality if is_column else _take_label(quality))]
    if _SCORES.intersection(words):
        return None
    return next((word for word in words if word in _LOSSES), None)


def _take_label(pattern: str) -> str:
    """Return the text that a pattern names last before its group."""
    group = re.search(r"(?<!\\)\((?!\?)|\(\?P<", pattern)
    named = [text for text in _UNNAMED.split(pattern[: group.start()] if group else pattern) if _WORD.search(text)]
    return named[-1] if named else ""
