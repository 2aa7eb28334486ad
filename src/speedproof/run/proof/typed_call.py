"""A request as it is typed and as reports know it: its command line, and what it asked."""

from shlex import quote
from typing import Any

from speedproof.config.reading import Reading
from speedproof.results.asked import Asked
from speedproof.results.claim import read_claim
from speedproof.run.proof.plan_notes import find_counted, name_rate
from speedproof.run.proof.request import ProofRequest, name_option
from speedproof.util.secrets import scrub_command


def describe_asked(request: ProofRequest, metric: str, attempt: int, reading: Reading) -> Asked:
    """Return what a report is to know of a request; `attempt` counts the proofs of its commands."""
    claim = read_claim(request.claim) if request.claim else None
    asked = {"command": write_call(request), "metric": metric, "margin": request.margin, "claim": claim}
    return Asked(**asked, attempt=attempt, counted=find_counted(reading), rate=name_rate(reading))


def write_call(request: ProofRequest) -> str:
    """Return a request as a shell reads it, without secrets: its commands, and each option that differs from its default."""
    secret: dict[str, Any] = {"commands": [scrub_command(command) for command in request.commands]}
    if request.quality_command:
        secret["quality_command"] = scrub_command(request.quality_command)
    return " ".join(map(quote, ["speedproof", *list_call_words(request.model_copy(update=secret))]))


def list_call_words(request: ProofRequest) -> list[str]:
    """Return the words of the command line that asks a request, without the program's name and with its secrets."""
    words: list[str] = []
    for name, value in request.model_dump(mode="json", exclude_defaults=True, exclude={*request.derived, "job"}).items():
        option = name_option(name)
        for one in value if isinstance(value, list) else [value]:
            words += [option] if one is True else [option, str(one)]
    job = request.job.model_dump(exclude={"gpus"}, exclude_none=True) if request.job else {}
    words += [word for key, value in job.items() for word in ("--job", f"{key}={value}")]
    return request.place_words(words)
