"""Each proof draws an order of its own, and keeps it as long as it measures the same."""

import shutil

from speedproof.results.experiment import PLAN_FILE, Plan
from speedproof.results.files import read_record
from speedproof.run.proof.attempts import ORDER_FILE, draw_order_seed
from speedproof.run.proof.executor import LocalExecutor
from speedproof.run.proof.left_files import DIGESTS
from speedproof.run.proof.live_status import Status
from speedproof.run.proof.proof import prove_request
from speedproof.run.proof.request import check_request
from tests.prove.recorded import leave_experiment


def proof_of(folder, content="0123  a.sh\n"):
    (folder / "programs").mkdir(parents=True, exist_ok=True)
    (folder / "programs" / DIGESTS).write_text(content)
    return folder


def test_a_seed_is_kept_for_the_same_commands_and_files_and_drawn_anew_for_others(tmp_path):
    out, commands = proof_of(tmp_path / "one"), [{"a": "sh a.sh 1"}]
    drawn = draw_order_seed(out, commands)
    assert draw_order_seed(out, commands) == drawn
    others = [draw_order_seed(out, [{"a": f"sh a.sh {number}"}]) for number in range(2, 12)]
    others += [draw_order_seed(proof_of(out, f"{number}  a.sh\n"), commands) for number in range(10)]
    others += [draw_order_seed(proof_of(tmp_path / str(number)), commands) for number in range(10)]
    assert len({drawn, *others}) == 31  # two alike: once in four million times


def test_a_seed_that_cannot_be_read_is_drawn_anew(tmp_path):
    out = proof_of(tmp_path / "one")
    for content in ("", "[]", '{"seed": -1, "measured": ""}'):
        (out / ORDER_FILE).write_text(content)
        assert draw_order_seed(out, []) == draw_order_seed(out, [])


def test_a_proof_that_goes_on_has_the_order_that_its_plan_names(place, monkeypatch):
    def leave(executor, measured, progress):
        shutil.rmtree(executor._out / "results", ignore_errors=True)
        return leave_experiment(executor._out, measured.config, lambda variant, number: 1.0)

    monkeypatch.setattr(LocalExecutor, "measure", leave)
    request = check_request({"commands": ["sh a.sh 2", "sh a.sh 1"], "rounds": 6, "epoch_s": r"took (\S+)"}, "test")
    said = []
    monkeypatch.setattr(Status, "say", lambda status, line: said.append(line))
    plans = []
    for _ in range(2):
        prove_request(request, place / "out", place, Status(quiet=True))
        plans.append(read_record(place / "out/results/experiments/experiment-1" / PLAN_FILE, Plan))
    assert plans[0] == plans[1] and plans[0].design == "blocks of four"
    shown = [line for line in said if "in random order (seed " in line]
    assert len(shown) == 2 and shown[0] == shown[1]
