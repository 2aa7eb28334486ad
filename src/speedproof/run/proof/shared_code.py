"""What commits share or lack, whatever a run's folder holds: packages imported from the working folder, empty submodules."""

import json
import shlex
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import unquote, urlparse

from speedproof.run.commits import Commit
from speedproof.run.proof.request import ProofRequest

_ASK_EDITABLE = """
import importlib.metadata as m, json
found = {}
for one in m.distributions():
    text = one.read_text("direct_url.json")
    if text and json.loads(text).get("dir_info", {}).get("editable"):
        found[one.name] = json.loads(text)["url"]
print(json.dumps(found))
"""


def describe_shared_code(request: ProofRequest, source: Path, commits: Iterable[Commit]) -> list[str]:
    """Return a line for each package installed in editable mode from the working folder's repository, and one of submodules."""
    names = dict.fromkeys(name for commit in commits for name in commit.submodules)
    empty = [f"left empty, because they are submodules: {', '.join(names)}"] if names else []
    return [*_list_editable(request, source), *empty]


def _list_editable(request: ProofRequest, source: Path) -> list[str]:
    program = shutil.which(shlex.split(request.commands[0])[0])
    if request.container is not None or program is None or not Path(program).name.startswith("python"):
        return []
    try:
        done = subprocess.run([program, "-c", _ASK_EDITABLE], cwd="/", capture_output=True, text=True, timeout=60, check=True)
        found: dict[str, str] = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError):
        return []
    places = {name: Path(unquote(urlparse(url).path)).resolve() for name, url in found.items()}
    here = source.resolve()
    return [
        f"{name} is installed in editable mode from {place}: if the command imports it from there, all commits run the "
        "same code; see 'What both commits share' in docs/ci-gate.md"
        for name, place in sorted(places.items())
        if place.is_relative_to(here) or here.is_relative_to(place)
    ]
