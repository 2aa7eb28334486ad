"""Whether the metric that a request names can have values: asked before rounds are measured that would all lack them."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from speedproof.config.validation_errors import NameKey
from speedproof.results.run_record import EPOCHS_FILE
from speedproof.stats.metrics import METRIC_WORDS, METRICS, Metric
from speedproof.util.errors import ConfigError
from speedproof.util.text import suggest

if TYPE_CHECKING:
    from speedproof.run.proof.request import ProofRequest


def list_mistakes_of_metric(request: "ProofRequest", name: NameKey) -> list[str]:
    """Return why no run of a request has the metric that it names; `name` is how messages call keys."""
    known = [*(one for one, metric in METRICS.items() if metric.compared and metric.judged), *METRIC_WORDS]
    if request.metric is None:
        return []
    if request.metric not in known:
        return [f"{name('metric')}: {request.metric!r:.40} is not one of {', '.join(known)}{suggest(request.metric, known)}"]
    head, mistakes = f"{name('metric')} {request.metric}", []
    if request.device == "cpu" and "cpu" not in METRICS[request.metric].devices:
        mistakes.append(f"is measured on a GPU; leave {name('device')} cpu out, or name another metric")
    if lacking := _name_what_source_lacks(request, METRICS[request.metric], name):
        mistakes.append(f"{lacking}, or leave it out")
    return [f"{head}: {mistake}" for mistake in mistakes]


def _name_what_source_lacks(request: "ProofRequest", metric: Metric, name: NameKey) -> str:
    """Return what a metric needs that the source of epochs which a request names does not have; nothing if it has all."""
    is_named = request.epoch or request.epoch_s or request.epoch_range or request.file
    if request.rate:
        of_epochs = metric.printed in ("epoch", "epochs")
        return f"needs epochs, and {name('rate')} reads none; read them by {name('epoch_s')}" if of_epochs else ""
    if not is_named:
        sources = ", ".join(map(name, ("epoch_s", "epoch", "file")))
        return f"needs epochs; name their source ({sources})" if request.blind and EPOCHS_FILE in metric.files else ""
    if metric.printed == "rate":
        return f"needs a rate ({name('rate')}) or marks; read one of them"
    return "needs validations, which only marks have; mark them" if metric.validates else ""


def check_epochs(request: "ProofRequest", epochs: Mapping[str, int]) -> None:
    """Check that all variants reported epochs in their warm-ups if the metric that is named needs some.

    Raises :class:`ConfigError` if one did not.
    """
    if request.metric is None or EPOCHS_FILE not in METRICS[request.metric].files or all(epochs.values()):
        return
    raise ConfigError(
        f"--metric {request.metric}: needs epochs, and not all commands report them; mark them (speedproof/marks.py), name "
        "their source (--epoch-s, --epoch, --file, --epoch-range), or leave it out"
    )


def name_gpu_need(request: "ProofRequest") -> str:
    if request.device == "cuda":
        return "--device cuda"
    if request.device == "auto" and request.gpus > 1:
        return f"--gpus {request.gpus}"
    return f"--metric {request.metric}" if request.metric and "cpu" not in METRICS[request.metric].devices else ""
