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
        path = os.pathsep.join([str(self._hide_slurm()), os.environ["PATH"]])
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        environment |= {"MY_API_KEY": SECRET, "PATH": path}
        done = subprocess.run(self.command(*arguments), capture_output=True, text=True, env=environment)
        assert not check or done.returncode == 0, f"{done.stdout}\n{done.stderr}\n{self.logs()}"
        return done

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

    def planned_rules(self, *arguments: str) -> set[str]:
        """Return which rules a run would execute now."""
        output = self.snakemake("--dry-run", *arguments).stdout
        return {line.removeprefix("rule ").rstrip(":") for line in output.splitlines() if line.startswith("rule ")}

    def record(self, *parts: str) -> dict:
        return json.loads(self.results.joinpath(*parts).read_text())


def plan_shell_scripts(folder: Path, **measurement: object) -> Checkout:
    """Return a working folder for two shell scripts that pause: what is around a program needs none that trains."""
    proof = {"case": str(ROOT / "tests/run/shell"), "results": "results/ci", "measurement": measurement}
    (folder / "proof.yaml").write_text(json.dumps(proof))
    return Checkout(ROOT, folder, configuration=str(folder / "proof.yaml"))


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
