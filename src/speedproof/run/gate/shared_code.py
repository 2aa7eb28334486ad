"""Code that both commits would run: packages that are imported from the working folder, whatever a run's folder holds."""

import json
import shlex
import shutil
import subprocess
from pathlib import Path
from urllib.parse import unquote, urlparse

from speedproof.run.gate.gate_request import GateRequest

_ASK_EDITABLE = """
import importlib.metadata as m, json
found = {}
for one in m.distributions():
    text = one.read_text("direct_url.json")
    if text and json.loads(text).get("dir_info", {}).get("editable"):
        found[one.name] = json.loads(text)["url"]
print(json.dumps(found))
"""


def describe_shared_code(request: GateRequest, source: Path) -> list[str]:
    """Return a line for each package that is installed from the working folder's repository in editable mode."""
    program = shutil.which(shlex.split(request.command)[0])
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
        f"{name} is installed in editable mode from {place}: if the command imports it from there, both commits run the same "
        "code; see 'What both commits share' in docs/ci-gate.md"
        for name, place in sorted(places.items())
        if place.is_relative_to(here) or here.is_relative_to(place)
    ]
