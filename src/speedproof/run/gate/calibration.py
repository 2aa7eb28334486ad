"""What a runner can detect: a commit against itself, and the smallest slowdown that a gate decides within its budget."""

from pathlib import Path

from speedproof.results.comparison import COMPARISON_FILE, Comparison
from speedproof.results.experiment import LOOKS
from speedproof.results.files import digest_of, read_record, write_json
from speedproof.results.gate_result import CALIBRATION_FILE, Calibration
from speedproof.run.commits import Commit, CommitTrees
from speedproof.run.conditions import digest_host
from speedproof.run.gate.gate_request import GateRequest
from speedproof.run.proof.find import RESULTS
from speedproof.run.proof.live_status import Status
from speedproof.run.proof.proof import prove_request
from speedproof.run.proof.request import BUDGET_MIN
from speedproof.run.stopping import find_last_look
from speedproof.stats.estimates import LEAST_PAIRS
from speedproof.stats.gating import detect_effect, read_deviation
from speedproof.stats.metrics import PROCESS
from speedproof.stats.sequential import Noise
from speedproof.util.errors import ConfigError, RecordError
from speedproof.util.numbers import format_duration

CALIBRATION_PAIRS = 12  # by default
_PROOF = "calibration"
# Keys that change neither what a run does nor how it is read.
_FREE = {
    *("base", "head", "regression", "improvement", "claim", "names", "rounds", "budget_min", "wait", "wait_for_quiet_min"),
    *("profiled", "profiler", "margin", "better"),
}


def calibrate(request: GateRequest, base: Commit, out: Path, source: Path, status: Status) -> Calibration:
    """Measure a commit against itself, and write what a gate can detect with this command here.

    Raises :class:`ConfigError` if the budget is too short for any gate.
    """
    rounds = request.rounds or CALIBRATION_PAIRS
    fixed = request.model_copy(update={"rounds": rounds, "budget_min": None, "claim": None, "names": ["base", "base again"]})
    trees = CommitTrees(dict.fromkeys("ab", base), request.build)
    verdict = prove_request(fixed, out / _PROOF, source, status, trees)
    (judged,) = verdict.candidates
    if judged.low is None or judged.high is None:
        raise RecordError(f"{out / _PROOF}: its runs give no interval, so nothing follows from them: {judged.sentence}")
    noise = Noise(read_deviation(judged.low, judged.high, judged.pairs), judged.pairs - 1)
    budget_min = request.budget_min or BUDGET_MIN
    round_s = _measure_round(out / _PROOF / RESULTS)
    found = Calibration(
        asked=_digest_asked(request),
        host=digest_host(),
        metric=verdict.metric,
        pairs=judged.pairs,
        deviation=noise.deviation,
        round_s=round_s,
        budget_min=budget_min,
        detectable=_detect(noise, round_s, budget_min),
    )
    write_json(out / CALIBRATION_FILE, found)
    return found


def check_calibration(request: GateRequest, out: Path) -> list[str]:
    """Check that this runner can decide the gate, if it was calibrated; return a line if its calibration does not apply.

    Raises :class:`ConfigError` if the gate asks for more than the runner detects.
    """
    path = out / CALIBRATION_FILE
    if not path.is_file():
        return []
    kept = read_record(path, Calibration)
    if kept.asked != _digest_asked(request):
        return [f"{path} is of another command or other options, so it is ignored"]
    if kept.host != digest_host():
        return [f"{path} is of another machine, or from before a restart, so it is ignored; calibrate again"]
    noise = Noise(kept.deviation, kept.pairs - 1)
    if request.fixed_rounds is not None:
        detectable, within = detect_effect(noise, request.fixed_rounds, repeated=False), f"{request.rounds} rounds"
    else:
        budget_min = request.budget or BUDGET_MIN
        detectable, within = _detect(noise, kept.round_s, budget_min), f"{budget_min:g} min"
    if request.improvement is None and request.limits.regression < detectable:
        raise ConfigError(
            f"--regression {request.regression}: below {100 * detectable:.6g} %, the smallest slowdown that this machine "
            f"detects within {within} ({path}); allow more, or measure longer (--budget)"
        )
    return []


def _detect(noise: Noise, round_s: float, budget_min: float) -> float:
    """Return the smallest slowdown that a gate decides at the last look that its budget allows."""
    look = find_last_look([round_s], max(LOOKS), budget_min)
    if look < LEAST_PAIRS:
        raise ConfigError(
            f"--budget {budget_min:g}: too short for {LEAST_PAIRS} rounds of {format_duration(round_s)} each; allow more"
        )
    return detect_effect(noise, look)


def _measure_round(results: Path) -> float:
    """Return how long a round took on average: both processes, one after the other."""
    comparison = read_record(results / COMPARISON_FILE, Comparison)
    timed = [level.centre for level in comparison.measured if (level.metric, level.mode) == (PROCESS, "timed")]
    return sum(timed)


def _digest_asked(request: GateRequest) -> str:
    return digest_of(request.model_dump(mode="json", exclude=_FREE))
