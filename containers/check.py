"""Check an image: the versions that its build wrote down, torch as the base brought it, and a working nsys."""

import json
import subprocess
import sys
from importlib import metadata
from pathlib import Path


def compare_versions(expected: dict[str, str], installed: dict[str, str | None]) -> list[str]:
    """Return one line for each package that is missing or of another version."""
    return [
        f"{name}: {installed[name] or 'missing'}, expected {version}"
        for name, version in expected.items()
        if installed[name] != version
    ]


def installed_version(name: str) -> str | None:
    """Return the version of an installed package; None where it is missing."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def check_nsys() -> list[str]:
    """Return one line where nsys does not answer."""
    try:
        subprocess.run(["nsys", "--version"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        return [f"nsys: {error}"]
    return []


def main() -> None:
    """Print what is wrong with the image and exit with 1, or say that it is sound."""
    expected = json.loads((Path(__file__).parent / "versions.json").read_text(encoding="utf-8"))
    problems = compare_versions(expected, {name: installed_version(name) for name in expected}) + check_nsys()
    if problems:
        sys.exit("\n".join(problems))
    print(f"sound: torch {expected['torch']} of the base image, MONAI {expected['monai']}, nsys")


if __name__ == "__main__":
    main()
