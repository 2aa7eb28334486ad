"""What the time of a training epoch is called in a proof: a program's "epochs" may be steps, or intervals between lines."""

from speedproof.results.asked import Counted
from speedproof.results.quality import Quality
from speedproof.stats.metrics import METRICS, RATE, TRAINING_EPOCH

_TITLES: dict[Counted, tuple[str, str]] = {  # and what a faster variant does faster
    "step": ("step", "takes a step"),
    "interval": ("interval between lines", "gets from one line to the next"),
}


def title_metric(metric: str, title: str, counted: Counted, rate: str | None = None) -> str:
    """Return a metric's title, what was counted instead of training epochs, or how the program calls its rate."""
    if metric == RATE and rate:
        return rate
    return _TITLES[counted][0] if metric == TRAINING_EPOCH and counted != "epoch" else title


def title_target(metric: str, quality: Quality, target: float) -> str:
    """Return the title of a metric that needs a level of quality, with the level."""
    return METRICS[metric].title.format(quality=f"{quality.title} {target:g}")


def name_measure(metric: str, counted: Counted, title: str = "") -> str:
    """Return by what variants are compared, as in "measured by training epoch time"; by default the metric's `title`."""
    if metric == TRAINING_EPOCH and counted != "epoch":
        return "the time between lines" if counted == "interval" else "step time"
    return METRICS[metric].measure or title or METRICS[metric].title


def name_doing(metric: str, counted: Counted, title: str) -> str:
    """Return what a faster variant does faster; nothing if the metric, by its `title`, is no such time."""
    if metric == RATE and title != METRICS[RATE].title:  # whatever the rate is of
        return ""
    return _TITLES[counted][1] if metric == TRAINING_EPOCH and counted != "epoch" else METRICS[metric].verb
