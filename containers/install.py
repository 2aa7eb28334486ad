"""Install requirements.txt into the base image, without replacing what the base image itself pins, torch above all.

Run while an image is built. What comes from requirements.txt is accepted by its hash only; what the base pins is the base's.
Leaves `versions.json` beside itself: what the image must hold from now on (see check.py).
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path

HERE = Path(__file__).parent
VERSIONS_FILE = HERE / "versions.json"
ENTRY = re.compile(r"(?P<name>[\w.-]+)==(?P<version>[^\s;#]+)\s*(?P<marker>;[^#]*?)?\s*(?P<hashes>(--hash=\S+\s*)*)(#.*)?$")


@dataclass(frozen=True)
class Pin:
    """One `name==version` entry of a requirements file."""

    name: str  # normalised
    version: str
    marker: str  # `; ...`, or nothing
    hashes: str  # `--hash=... --hash=...`, or nothing


def parse_pins(text: str) -> dict[str, Pin]:
    """Return the entries that pin a version, by the package's normalised name."""
    found = (ENTRY.match(line.strip()) for line in text.replace("\\\n", " ").splitlines())
    pins = (Pin(normalise(entry["name"]), entry["version"], entry["marker"] or "", entry["hashes"]) for entry in found if entry)
    return {pin.name: pin for pin in pins}


def normalise(name: str) -> str:
    """Return a package's name as pip compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def keep_base_pins(wanted: Iterable[Pin], base: Mapping[str, Pin]) -> list[Pin]:
    """Return the pins as wanted, except that a package the base pins takes the base's version, for which there is no hash."""
    return [replace(pin, version=base[pin.name].version, hashes="") if pin.name in base else pin for pin in wanted]


def read_base_pins() -> dict[str, Pin]:
    """Return what the base image pins: its constraint file, and in any case the torch it comes with."""
    constraint = os.environ.get("PIP_CONSTRAINT")
    pins = parse_pins(Path(constraint).read_text(encoding="utf-8")) if constraint else {}
    return {**pins, "torch": Pin("torch", metadata.version("torch"), "", "")}


def find_conflicts(said: str, names: Iterable[str]) -> list[str]:
    """Return the lines of `pip check` that are about these packages; what else a base image has wrong is its own matter."""
    ours = set(names)
    return [line for line in said.splitlines() if line and normalise(line.split()[0]) in ours]


def install(pins: Iterable[Pin], *options: str) -> None:
    """Install exactly these."""
    pip = [sys.executable, "-P", "-m", "pip", "install", "--no-cache-dir", "--no-deps", *options]
    # An image has no other system to break, and the base's own pins are kept above.
    environment = {**os.environ, "PIP_BREAK_SYSTEM_PACKAGES": "1", "PIP_CONSTRAINT": ""}
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.writelines(f"{pin.name}=={pin.version} {pin.marker} {pin.hashes}\n" for pin in pins)
        file.flush()
        subprocess.run([*pip, "--requirement", file.name], check=True, env=environment)


def main() -> None:
    """Install, and write down the versions that the image must hold."""
    base = read_base_pins()
    wanted = parse_pins((HERE / "requirements.txt").read_text(encoding="utf-8"))
    pins = keep_base_pins(wanted.values(), base)
    theirs = [pin for pin in pins if not pin.hashes]
    install([pin for pin in pins if pin.hashes], "--require-hashes")
    install(theirs)
    checked = subprocess.run([sys.executable, "-P", "-m", "pip", "check"], capture_output=True, text=True)
    if conflicts := find_conflicts(checked.stdout, wanted):
        sys.exit("\n".join(["what the base image pins and requirements.txt do not go together:", *conflicts]))
    installed = {normalise(found.metadata["Name"]) for found in metadata.distributions()}  # markers leave out other systems'
    versions = {pin.name: pin.version for pin in [*pins, base["torch"]] if pin.name in installed}
    VERSIONS_FILE.write_text(json.dumps(versions, indent=1) + "\n", encoding="utf-8")
    print(f"{len(pins) - len(theirs)} packages by their hash; as the base image pins them:", *(pin.name for pin in theirs))


if __name__ == "__main__":
    main()
