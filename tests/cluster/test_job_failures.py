import pytest

from speedproof.cluster.slurm import explain_ending, explain_failures

# Each as a real Slurm 22.05 wrote it.
TIME = "slurmstepd-node1: error: *** JOB 4 ON node1 CANCELLED AT 2026-11-21T03:48:37 DUE TO TIME LIMIT ***"
MEMORY = """slurmstepd-node1: error: StepId=5.batch exceeded memory limit (178704384 > 157286400), being killed
slurmstepd-node1: error: *** JOB 5 ON node1 CANCELLED AT 2026-11-21T03:49:36 ***"""
OOM = "slurmstepd: error: Detected 1 oom_kill event in StepId=7.0. Some of the step tasks have been OOM Killed."
CANCELLED = "slurmstepd-node1: error: *** JOB 6 ON node1 CANCELLED AT 2026-11-21T03:50:44 ***"
PREEMPTED = "slurmstepd-node1: error: *** JOB 8 ON node1 CANCELLED AT 2026-11-21T03:52:56 DUE TO PREEMPTION ***"


@pytest.mark.parametrize(
    ("state", "log", "said"),
    [
        ("TIMEOUT", TIME, "time limit reached: raise its runtime_min"),
        ("TIMEOUT", "", "time limit reached"),
        ("FAILED", MEMORY, "out of memory: raise its memory_mib"),
        ("FAILED", OOM, "out of memory"),
        ("OUT_OF_MEMORY", "", "out of memory"),
        ("CANCELLED", CANCELLED, "cancelled with scancel"),
        ("CANCELLED", PREEMPTED, "preempted"),
        ("NODE_FAIL", "", "its node failed"),
        ("FAILED", "speedproof: loss is nan", "ended as FAILED; its log says why"),
    ],
)
def test_each_ending_has_its_cause(state, log, said):
    assert explain_ending(state, log).startswith(said)


def test_the_failed_jobs_of_a_run_are_explained_from_its_log(tmp_path):
    job_log = tmp_path / "a b" / "4.log"
    job_log.parent.mkdir()
    job_log.write_text(TIME)
    log = tmp_path / "snakemake.log"
    log.write_text(
        f"Job 3 has been submitted with SLURM jobid 4 (log: {job_log}).\n"
        "    message: SLURM-job '4' failed, SLURM status is: 'TIMEOUT'. Detailed failure reason unavailable\n"
    )
    (first,) = explain_failures([log])
    assert first.startswith("Slurm job 4: time limit reached")
    assert str(job_log) in first


def test_a_run_without_failed_slurm_jobs_says_nothing(tmp_path):
    assert explain_failures([tmp_path / "none.log"]) == []
