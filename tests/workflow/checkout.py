"""The workflow on a copy of the checkout whose sources a test may edit."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
# Stands in the environment of every run; a test looks for it in what the runs leave.
SECRET = "s3cr3t-that-nobody-may-see"
PLANNED = "planned by the planning program:\n"
PARTS = ["Snakefile", "config.yaml", "containers", "slurm", "src", "workflow", "workloads"]


@dataclass
class Checkout:
    """A copy of the workflow and a working folder beside it."""

    sources: Path
    folder: Path
    settings: tuple[str, ...] = ()
    configuration: str = "workflow/config/ci.yaml"  # of the sources, or a whole path

    @property
    def results(self) -> Path:
        return self.folder / "results" / "ci"

    def command(self, *arguments: str) -> list[str]:
        config = ["--configfile", str(self.sources / self.configuration)]
        settings = ["--config", *self.settings] if self.settings else []
        place = ["--snakefile", str(self.sources / "Snakefile"), "--directory", str(self.folder), "--cores", "2"]
        return [sys.executable, "-m", "snakemake", *place, *config, *settings, *arguments]

    def snakemake(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(self.command(*arguments), capture_output=True, text=True, env=self._environment())
        assert not check or done.returncode == 0, f"{done.stdout}\n{done.stderr}\n{self.logs()}"
        return done

    def _environment(self) -> dict[str, str]:
        path = os.pathsep.join([str(self._hide_slurm()), os.environ["PATH"]])
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        return environment | {"MY_API_KEY": SECRET, "PATH": path}

    def _hide_slurm(self) -> Path:
        """Return a folder of programs whose `scontrol` fails at once: Snakemake asks it, and waits 9 s if no Slurm runs."""
        programs = self.folder / ".programs"
        programs.mkdir(exist_ok=True)
        program = programs / "scontrol"
        program.write_text("#!/bin/sh\nexit 1\n")
        program.chmod(0o755)
        return programs

    def logs(self) -> str:
        return "\n".join(f"== {path}\n{path.read_text()}" for path in sorted(self.results.rglob("logs/*.log")))

    def plan_each(self, cases: list[tuple[str, list[str]]]) -> list[set[str]]:
        """Return which rules each run would execute now, with a source edited, or none, and with further arguments."""
        given = [(str(self.sources / edited) if edited else "", self.command("--dry-run", *more)[3:]) for edited, more in cases]
        command = [sys.executable, str(Path(__file__).with_name("planning_program.py")), json.dumps(given)]
        done = subprocess.run(command, capture_output=True, text=True, env=self._environment())
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        outputs = done.stdout.split(PLANNED)[1:]
        return [{line[5:].rstrip(":") for line in one.splitlines() if line.startswith("rule ")} for one in outputs]

    def record(self, *parts: str) -> dict:
        return json.loads(self.results.joinpath(*parts).read_text())


def plan_shell_scripts(folder: Path, **measurement: object) -> Checkout:
    """Return a working folder for two shell scripts that pause: what is around a program needs none that trains."""
    proof = {"case": str(ROOT / "tests/run/shell"), "results": "results/ci", "measurement": measurement}
    (folder / "proof.yaml").write_text(json.dumps(proof))
    return Checkout(ROOT, folder, configuration=str(folder / "proof.yaml"))


def plan_from_here(folder: Path, *settings: str) -> Checkout:
    """Return a working folder beside this checkout itself, for a test that edits no source and runs no job."""
    return Checkout(ROOT, folder, settings)


def check_out(folder: Path, *settings: str) -> Checkout:
    sources = folder / "checkout"
    for part in PARTS:
        source = ROOT / part
        if source.is_dir():
            shutil.copytree(source, sources / part)
        else:
            sources.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, sources / part)
    work = folder / "work"
    work.mkdir()
    return Checkout(sources, work, settings)
