"""Secrets that commands are given reach the programs, and nothing that a proof keeps."""

import zipfile

from typer.testing import CliRunner

from speedproof.cli.application import app

REFERENCE = "env AWS_SECRET_ACCESS_KEY=CANARY1 sh say.sh --auth CANARY2 --key=CANARY3 --pwd CANARY4"
CANDIDATE = (
    "sh say.sh -H 'Authorization: Bearer CANARY5' https://CANARY6@host/x --token \"-CANARY7\" --hf_token='CANARY8' "
    "GITHUB_PAT=CANARY9"
)


def call(*words):
    return CliRunner().invoke(app, list(words))


def test_no_secret_of_a_command_is_kept(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "say.sh").write_text('echo "$@" $AWS_SECRET_ACCESS_KEY >&2\n')
    asked = ("--rounds", "4", "--device", "cpu", "--out", "out")
    proven = call("prove", REFERENCE, CANDIDATE, *asked)
    assert (tmp_path / "out/verdict.json").exists(), proven.stderr
    assert "CANARY6@host/x --token -CANARY7" in (tmp_path / "out/warm-up/b.txt").read_text()  # the program has them
    assert (
        call("results", "archive", "--from", "out/results", "--claims", "out/programs/claims.yaml", "--out", "kept").exit_code
        == 0
    )
    kept = {path: path.read_bytes() for path in (tmp_path / "kept").rglob("*") if path.is_file()}
    with zipfile.ZipFile(tmp_path / "kept/evidence.zip") as archive:
        kept |= {name: archive.read(name) for name in archive.namelist()}
    shown = [
        "verdict.json",
        *(f"results/{name}" for name in ("report.html", "report.md", "report.svg", "comparison.json", "asked.json")),
    ]
    kept |= {name: (tmp_path / "out" / name).read_bytes() for name in shown}
    kept = {name: content for name, content in kept.items() if not str(name).endswith("log.txt")}
    assert len(kept) > 10 and not [name for name, content in kept.items() if b"CANARY" in content]
    assert b"GITHUB_PAT=&lt;secret&gt;" in kept["results/report.html"]
    assert "CANARY" not in proven.output
