"""Whether the metric that a request names can have values: asked before rounds are measured that would all lack them."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from speedproof.config.validation_errors import NameKey
from speedproof.results.run_record import EPOCHS_FILE
from speedproof.stats.metrics import METRICS
from speedproof.util.errors import ConfigError
from speedproof.util.text import suggest

if TYPE_CHECKING:
    from speedproof.run.proof.request import ProofRequest


def list_mistakes_of_metric(request: "ProofRequest", name: NameKey) -> list[str]:
    """Return why no run of a request has the metric that it names; `name` is how messages call keys."""
    known = [one for one, metric in METRICS.items() if metric.compared and metric.judged]
    if request.metric is None:
        return []
    if request.metric not in known:
        return [f"{name('metric')}: {request.metric!r:.40} is none of {', '.join(known)}{suggest(request.metric, known)}"]
    metric, head = METRICS[request.metric], f"{name('metric')} {request.metric}"
    is_named = request.epoch or request.epoch_s or request.epoch_range or request.file
    sources = ", ".join(map(name, ("epoch_s", "epoch", "file")))
    mistakes = []
    if request.device == "cpu" and "cpu" not in metric.devices:
        mistakes.append(f"{head}: is measured on a GPU; leave {name('device')} cpu out, or name another metric")
    if request.rate and metric.printed in ("epoch", "epochs"):
        mistakes.append(f"{head}: needs epochs, and {name('rate')} reads none; read them by {name('epoch_s')}, or leave it out")
    elif request.blind and not is_named and not request.rate and EPOCHS_FILE in metric.files:
        mistakes.append(f"{head}: needs epochs; name their source ({sources}), or leave it out")
    elif is_named and metric.printed == "rate" and not request.rate:
        mistakes.append(f"{head}: needs a rate ({name('rate')}) or marks; read one of them, or leave it out")
    elif is_named and metric.validates:
        mistakes.append(f"{head}: needs validations, which only marks have; mark them, or leave it out")
    return mistakes


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
    """Return the option by which a request needs a GPU; nothing if it needs none."""
    if request.device == "cuda":
        return "--device cuda"
    return f"--metric {request.metric}" if request.metric and "cpu" not in METRICS[request.metric].devices else ""
