"""Install requirements.txt into the base image, without replacing what the base image itself pins, torch above all.

Run while an image is built. Leaves `versions.json` beside itself: what the image must hold from now on (see check.py).
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path

HERE = Path(__file__).parent
VERSIONS_FILE = HERE / "versions.json"


def parse_pins(text: str) -> dict[str, str]:
    """Return the version that each `name==version` line pins, by the package's normalised name."""
    lines = (line.split("#")[0].split(";")[0].strip() for line in text.splitlines())
    pins = (line.split("==") for line in lines if "==" in line)
    return {re.sub(r"[-_.]+", "-", name).strip().lower(): version.strip() for name, version in pins}


def keep_base_pins(wanted: dict[str, str], base: dict[str, str]) -> list[str]:
    """Return the requirements to install: as wanted, except that a package the base pins takes the base's version."""
    return [f"{name}=={base.get(name, version)}" for name, version in wanted.items()]


def read_base_pins() -> dict[str, str]:
    """Return what the base image pins: its constraint file, and in any case the torch it comes with."""
    constraint = os.environ.get("PIP_CONSTRAINT")
    pins = parse_pins(Path(constraint).read_text(encoding="utf-8")) if constraint else {}
    return {**pins, "torch": metadata.version("torch")}


def main() -> None:
    """Install, and write down the versions that the image must hold."""
    base = read_base_pins()
    wanted = parse_pins((HERE / "requirements.txt").read_text(encoding="utf-8"))
    requirements = keep_base_pins(wanted, base)
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as torch_pin:
        torch_pin.write(f"torch=={base['torch']}\n")
        torch_pin.flush()
        pip = [sys.executable, "-m", "pip", "install", "--no-cache-dir", "--constraint", torch_pin.name]
        # An image has no other system to break.
        subprocess.run([*pip, *requirements], check=True, env={**os.environ, "PIP_BREAK_SYSTEM_PACKAGES": "1"})
    versions = {"torch": base["torch"], **parse_pins("\n".join(requirements))}
    VERSIONS_FILE.write_text(json.dumps(versions, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
