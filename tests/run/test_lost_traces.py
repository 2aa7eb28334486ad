"""nsys loses its agent, or a whole report, now and then; an experiment does such a run again."""

import pytest

from speedproof.profilers.nsys import TRIES
from speedproof.run.run_experiment import run_experiment
from speedproof.util.errors import LostTraceError
from tests.run.jobs import QUICK, make_job, make_program_job

LOST_AGENT = "echo \"Connection to Agent lost. Internal reason: 'End of file'.\"; exit 1"
LOST_RANGES = 'for w; do shift; case $w in --trace=*) w=--trace=osrt ;; esac; set -- "$@" "$w"; done; exec nsys "$@"'
LOST_REPORT = 'nsys "$@" && rm -f "$report"; exit 0'


@pytest.fixture
def job_under(tmp_path, needs_nsys):
    """Return a function that makes an experiment of one profiled run, whose nsys fails as a shell script says, some times."""

    def make(failure, times, trains=False):
        nsys, failures = tmp_path / "nsys", tmp_path / "failures"
        nsys.write_text(f"""#!/bin/sh
for word in "$@"; do case $word in --output=*/report) report=${{word#--output=}}.nsys-rep ;; esac; done
if [ "$1" = profile ] && [ "$report" ] && [ "$(wc -l < {failures})" -lt {times} ]; then
    echo lost >> {failures}
    {failure}
fi
exec nsys "$@"
""")
        nsys.chmod(0o755)
        failures.touch()
        profiling = {"backend": "nsys", "nsys": str(nsys)}
        if trains:  # of its traces it is known which ranges they have
            return make_job(tmp_path, profiling, {"quick": QUICK}, variants=["quick"], rounds=0)
        return make_program_job(tmp_path, profiling)

    return make


@pytest.mark.parametrize("failure", [LOST_AGENT, LOST_REPORT], ids=["agent", "report"])
def test_a_run_whose_trace_was_lost_is_done_again(job_under, failure, caplog):
    job, conditions = job_under(failure, times=1)
    (run,) = run_experiment(job, conditions).runs
    assert (job.folder / "runs" / run / "trace" / "ranges.parquet").exists()
    assert "running it again" in caplog.text


def test_a_trace_without_ranges_is_lost_too_and_leaves_no_run_that_counts_as_whole(job_under, caplog, monkeypatch):
    monkeypatch.setattr("speedproof.run.run_experiment.TRIES", 2)  # each trains, seconds
    job, conditions = job_under(LOST_RANGES, times=2, trains=True)
    with pytest.raises(LostTraceError, match="holds no ranges"):
        run_experiment(job, conditions)
    assert "running it again" in caplog.text
    (run,) = (job.folder / "runs").iterdir()
    assert (run / "run.json").exists() and not (run / "trace").exists()


def test_a_trace_lost_each_time_ends_the_experiment(job_under):
    job, conditions = job_under(LOST_AGENT, times=TRIES)
    with pytest.raises(LostTraceError, match="01-tiny-profiled: exit status 1"):
        run_experiment(job, conditions)
