import json
from pathlib import Path

import pynvml
import pytest
from pydantic import ValidationError
from typer.testing import CliRunner

from speedproof.cli.application import app
from speedproof.cluster import doctor as module
from speedproof.cluster.doctor import describe_findings, diagnose
from speedproof.cluster.hardware_checks import check_clocks, check_cores, check_counters, check_cuda, check_gpu, check_memory
from speedproof.cluster.place_checks import check_container, check_scratch, check_slurm, describe_build_mode, file_system_of
from speedproof.cluster.profiler_checks import check_gpu_metrics, check_sampling, failed_checks
from speedproof.config.profiling import Profiling
from speedproof.results.diagnosis import Diagnosis, Finding, Software, read_diagnosis
from speedproof.results.run_record import Gpu
from tests.workflow.checkout import ROOT

H200 = Gpu(name="NVIDIA H200", uuid="GPU-1", driver="570.1", memory_mib=143771, max_sm_clock_mhz=1980)


@pytest.mark.parametrize(
    ("built_for", "driver", "state"),
    [
        ("12.8", (12, 8), "good"),
        ("12.8", (13, 0), "good"),
        ("12.9", (12, 8), "notice"),
        ("13.0", (12, 8), "problem"),
        ("13.0", None, "absent"),
        (None, (13, 0), "absent"),
    ],
)
def test_cuda_of_image_and_driver_are_compared(built_for, driver, state):
    assert check_cuda(Software(framework="torch 2.13", cuda=built_for, gpu=None), driver).state == state
    assert check_cuda(None, driver).state == "absent"


def test_clocks_that_are_not_locked_are_told():
    assert check_clocks(H200).state == "notice"
    assert check_clocks(H200.model_copy(update={"application_sm_clock_mhz": 1500})).found == "set to 1500 of 1980 MHz"
    assert check_clocks(None).state == "absent"


def test_no_gpu_is_a_problem_only_where_one_is_demanded(monkeypatch):
    blind = Software(framework="torch 2.13", cuda="13.0", gpu=None)
    monkeypatch.setattr("speedproof.cluster.hardware_checks.describe_gpu", lambda: None)
    assert check_gpu("auto", blind).state == "absent"
    assert check_gpu("cuda", blind).state == "problem"
    monkeypatch.setattr("speedproof.cluster.hardware_checks.describe_gpu", lambda: H200)
    assert check_gpu("auto", blind).state == "problem"  # there, and torch does not see it
    assert check_gpu("auto", None).state == "good"  # nobody's torch was asked


@pytest.mark.parametrize(("only_root", "user", "state"), [(0, 1000, "good"), (1, 1000, "absent"), (1, 0, "good")])
def test_counters_are_for_whom_the_driver_says(tmp_path, monkeypatch, only_root, user, state):
    monkeypatch.setattr("os.geteuid", lambda: user)
    (tmp_path / "params").write_text(f"ResmanDebugLevel: 0\nRmProfilingAdminOnly: {only_root}\n")
    assert check_counters(tmp_path / "params").state == state
    assert check_counters(tmp_path / "none").state == "absent"


@pytest.mark.parametrize(("level", "state"), [("-1", "good"), ("2", "good"), ("3", "absent"), ("4", "absent")])
def test_sampling_depends_on_the_kernels_level(tmp_path, monkeypatch, level, state):
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    (tmp_path / "level").write_text(level)
    assert check_sampling(Profiling(), tmp_path / "level").state == state
    asked = check_sampling(Profiling(cpu_samples=True), tmp_path / "level")
    assert asked.state == ("good" if state == "good" else "problem")


@pytest.mark.parametrize(("said", "asked", "state"), [
    ("0: NVIDIA H200", None, "good"), ("Insufficient privilege", None, "absent"), ("Insufficient privilege", 1000, "problem"),
])  # fmt: skip
def test_nsys_says_whether_it_may_sample_counters(tmp_path, said, asked, state):
    nsys = tmp_path / "nsys"
    nsys.write_text(f"""#!/bin/sh
case "$*" in
  --version) echo "NVIDIA Nsight Systems version 2099.1.2.3-4" ;;
  "profile --help") echo "	--gpu-metrics-devices=" ;;
  *) echo "{said}" >&2 ;;
esac
""")
    nsys.chmod(0o755)
    found = check_gpu_metrics(Profiling(nsys=str(nsys), gpu_metrics_per_s=asked))
    assert found.state == state
    assert state == "good" or "Insufficient privilege" in found.found


def test_what_nsys_finds_wrong_is_repeated():
    said = "CPU Profiling Environment Check\nLinux Kernel Paranoid Level = 4: Fail\nSampling trigger event available: OK\n"
    assert failed_checks(said) == ["Linux Kernel Paranoid Level = 4: Fail"]


def test_how_a_user_builds(tmp_path):
    namespaces, subuid = tmp_path / "namespaces", tmp_path / "subuid"
    namespaces.write_text("31000\n")
    assert describe_build_mode(namespaces, subuid, 4321) == "in a user namespace"
    subuid.write_text("4321:100000:65536\n")
    assert describe_build_mode(namespaces, subuid, 4321) == "with fakeroot"
    namespaces.write_text("0\n")
    assert describe_build_mode(namespaces, subuid, 4321) is None
    assert describe_build_mode(namespaces, subuid, 0) == "as root"


def test_inside_a_container_its_name_is_told_without_its_folder():
    assert check_container({"APPTAINER_CONTAINER": "/home/somebody/speedproof.sif"}).found == "inside speedproof.sif"


def test_a_slurm_job_says_what_it_got_and_not_whose_it_is():
    found = check_slurm({"SLURM_JOB_ID": "7", "SLURM_JOB_USER": "somebody", "SLURM_CPUS_ON_NODE": "16"}).found
    assert found == "a job, 16 cores"


def test_few_cores_and_little_shared_memory_are_told(tmp_path):
    assert check_cores(2, wanted=8).state == "notice"
    assert check_cores(8, wanted=8).state == "good"
    assert check_memory(tmp_path / "none").state == "notice"


def test_the_file_system_of_a_folder():
    assert file_system_of(Path("/proc/self")) == "proc"


def test_scratch_is_the_configured_disk_of_the_node(tmp_path):
    environ = {"NODE_DISK": str(tmp_path)}
    assert check_scratch("$NODE_DISK", environ).found.endswith(f"free on {file_system_of(tmp_path)}")
    unset = check_scratch("$OTHER", environ)
    assert (unset.state, unset.found.split(";")[0]) == ("problem", "resources.scratch: $OTHER is not set here")
    assert check_scratch("$NODE_DISK/none", environ).state == "problem"


def test_all_is_asked_even_where_a_check_fails(monkeypatch):
    def fail():
        raise pynvml.NVMLError_Unknown

    monkeypatch.setattr(module, "check_counters", fail)
    diagnosis = diagnose(Profiling(backend="kineto"), "auto")
    assert [finding.subject for finding in diagnosis.findings if "the check failed" in finding.found] == ["GPU counters"]
    assert len(diagnosis.findings) == len({finding.subject for finding in diagnosis.findings}) == 14


def test_a_demanded_profiler_that_is_missing_is_a_problem():
    findings = {f.subject: f for f in diagnose(Profiling(backend="nsys", nsys="no-such-nsys"), "auto").findings}
    assert findings["profiler"].state == "problem"
    assert "no-such-nsys" in findings["profiler"].found


def test_where_no_run_is_to_be_profiled_nobody_asks_for_a_profiler(tmp_path):
    path = tmp_path / "proof.json"
    measurement = {"variants": ["slow", "fast"], "profiled": 0, "device": "cpu"}
    wanted = {"case": str(ROOT / "tests/run/shell"), "profiling": {"backend": "nsys", "nsys": "no-such-nsys"}}
    path.write_text(json.dumps(wanted | {"measurement": measurement}))
    ended = CliRunner().invoke(app, ["doctor", "--config", str(path), "--json"])
    assert (ended.exit_code, "no-such-nsys" in ended.output) == (0, False)
    path.write_text(json.dumps(wanted | {"measurement": measurement | {"profiled": 1}}))
    ended = CliRunner().invoke(app, ["doctor", "--config", str(path), "--json"])
    assert (ended.exit_code, "no-such-nsys" in ended.output) == (1, True)


def test_whatever_is_not_good_has_a_hint():
    with pytest.raises(ValidationError):
        Finding(subject="GPU", state="absent", found="none")
    with pytest.raises(ValidationError):
        Finding(subject="GPU", state="good", found="one", hint="none")


@pytest.mark.parametrize(
    ("states", "said"),
    [
        ({"GPU": "absent", "profiler": "good"}, "can time programs; it cannot trace a GPU, because it has none."),
        ({"GPU": "good", "profiler": "good"}, "can time programs and trace its GPU."),
        ({"GPU": "good", "profiler": "notice"}, "can time programs; it can trace its GPU only for programs that use torch."),
        ({"GPU": "good"}, "can time programs on its GPU."),
        ({"GPU": "problem", "profiler": "good", "scratch": "problem"}, "cannot run what is asked: see GPU, scratch."),
    ],
)
def test_the_last_line_is_what_it_all_comes_to(states, said):
    findings = [
        Finding(subject=subject, state=state, found="x", hint=None if state == "good" else "y")
        for subject, state in states.items()
    ]
    assert describe_findings(Diagnosis(findings=findings))[-1] == f"This machine {said}"


def test_a_diagnosis_of_version_1_called_a_hint_a_cure(tmp_path):
    finding = {"subject": "cores", "state": "notice", "found": "2", "cure": "ask for more"}
    (tmp_path / "doctor.json").write_text(json.dumps({"schema_version": 1, "findings": [finding], "seal": None}))
    (read,) = read_diagnosis(tmp_path).findings
    assert read == Finding(subject="cores", state="notice", found="2", hint="ask for more")


def test_findings_read_as_lines_and_survive_a_file(tmp_path):
    finding = Finding(subject="cores", state="notice", found="2", hint="ask for more")
    diagnosis = Diagnosis(findings=[finding])
    assert describe_findings(diagnosis) == [
        "! cores: 2",
        "    ask for more",
        "This machine can time programs; it cannot trace a GPU, because it has none.",
    ]
    assert read_diagnosis(tmp_path) is None
    (tmp_path / "doctor.json").write_text(json.dumps(diagnosis.model_dump(mode="json")))
    assert read_diagnosis(tmp_path) == diagnosis
