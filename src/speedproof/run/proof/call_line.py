"""A request as it would be typed, so that a report says how exactly the same is measured again."""

from shlex import quote

from speedproof.results.asked import Asked
from speedproof.run.proof.request import ProofRequest, read_claim
from speedproof.util.secrets import scrub_secrets

# What is called otherwise on the command line than in the file.
_OPTIONS = {"budget_min": "--budget", "timeout_s": "--timeout", "passed": "--pass", "sources": "--source"}


def describe_asked(request: ProofRequest, metric: str) -> Asked:
    """Return what a report is to know of a request whose sides are compared by `metric`."""
    claim = read_claim(request.claim) if request.claim else None
    return Asked(command=scrub_secrets(write_call(request)), metric=metric, margin=request.margin, claim=claim)


def write_call(request: ProofRequest) -> str:
    """Return a request as a shell reads it: its commands, and each option that is not as it would be without."""
    words = ["speedproof", "prove", *request.commands]
    for name, value in request.model_dump(mode="json", exclude_defaults=True, exclude={"commands", "job"}).items():
        option = _OPTIONS.get(name, f"--{name.replace('_', '-')}")
        for one in value if isinstance(value, list) else [value]:
            words += [option] if one is True else [option, str(one)]
    job = request.job.model_dump(exclude={"gpus"}, exclude_none=True) if request.job else {}
    words += [word for key, value in job.items() for word in ("--job", f"{key}={value}")]
    return " ".join(map(quote, words))
