import os
import shutil
import stat
import subprocess
import sys
from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from speedproof.config.profiling import Profiling
from speedproof.profilers import nsys as nsys_module
from speedproof.profilers import selection as backend
from speedproof.profilers.nsys import (
    STATISTICS,
    TRIES,
    Capabilities,
    analyze_command,
    collect_statistics,
    export_command,
    export_report,
    profile_command,
    read_capabilities,
    run_profiled,
    stats_command,
)
from speedproof.profilers.nsys_export import convert_export
from speedproof.profilers.selection import select_backend
from speedproof.results.trace_tables import read_table
from speedproof.util.errors import LostTraceError, ProfilingError
from tests.leaks import find_leaks
from tests.profilers.exports import make_export, strings
from tests.profilers.program import EPOCHS, STEPS
from tests.profilers.sums import assert_sums_are_those_of_nsys
from tests.profilers.test_nsys_export import TRACES, nvtx

PROGRAM = Path(__file__).with_name("program.py")
OLD = frozenset({"--force-overwrite", "--sample", "--cpuctxsw", "--wait", "--kill"})
NEW = OLD | {"--trace-fork-before-exec", "--cuda-graph-trace"}


def test_the_profile_command_uses_what_the_version_understands():
    report = Path("run 1/report.nsys-rep")
    old = profile_command(Capabilities("nsys", "2021.1", OLD), report, ["cuda", "nvtx"], ["python", "-m", "x"])
    assert old == [
        "nsys", "profile", "--force-overwrite=true", "--sample=none", "--cpuctxsw=none", "--wait=primary", "--kill=none",
        "--trace=cuda,nvtx", "--output=run 1/report", "python", "-m", "x",
    ]  # fmt: skip
    new = profile_command(Capabilities("nsys", "2025.3", NEW), report, ["cuda", "nvtx"], ["python", "-m", "x"])
    assert set(new) - set(old) == {"--trace-fork-before-exec=true", "--cuda-graph-trace=node"}


def test_the_other_commands():
    nsys = Capabilities("/opt/my nsys", "1", NEW)
    assert export_command(nsys, Path("a.nsys-rep"), Path("a.sqlite")) == [
        "/opt/my nsys", "export", "--type=sqlite", "--force-overwrite=true", "--output=a.sqlite", "a.nsys-rep",
    ]  # fmt: skip
    assert stats_command(nsys, Path("a.sqlite"), ["nvtx_sum", "osrt_sum"], Path("out/stats")) == [
        "/opt/my nsys", "stats", "--report=nvtx_sum", "--report=osrt_sum", "--format=csv", "--force-overwrite=true",
        "--output=out/stats", "a.sqlite",
    ]  # fmt: skip
    assert analyze_command(nsys, Path("a.sqlite"), ["gpu_gaps"]) == [
        "/opt/my nsys", "analyze", "--rule=gpu_gaps", "--format=column", "--output=-", "a.sqlite",
    ]  # fmt: skip


@pytest.fixture
def fake_nsys(tmp_path):
    """Return a function that makes an nsys which answers its version and otherwise does what a shell script says."""

    def make(script):
        path = tmp_path / "nsys"
        path.write_text(
            f'#!/bin/sh\nif [ "$1" = --version ]; then echo "NVIDIA Nsight Systems version 2099.1.2.3-4"; exit; fi\n{script}'
        )
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return str(path)

    return make


def refused(error):
    text = str(error.value)
    assert "\n" not in text
    return text


def test_capabilities_come_from_the_program_itself(fake_nsys):
    nsys = read_capabilities(fake_nsys("printf '\\t-f, --force-overwrite=\\n\\n\\t--kill=\\n\\t   see --wait\\n'"))
    assert nsys.version == "2099.1.2.3"
    assert nsys.switches == {"--force-overwrite", "--kill"}


def test_a_missing_program_is_named(tmp_path):
    with pytest.raises(ProfilingError, match="not found; install Nsight Systems"):
        read_capabilities(str(tmp_path / "nsys"))


def test_success_without_a_report_is_a_failure_with_nsys_last_words(fake_nsys, tmp_path):
    nsys = read_capabilities(fake_nsys("echo 'Agent launcher failed.'; exit 0"))
    (tmp_path / "r.nsys-rep").write_text("of an earlier run")
    with pytest.raises(ProfilingError) as error:
        run_profiled(nsys, tmp_path / "r.nsys-rep", ["nvtx"], ["true"], tmp_path / "log.txt", os.environ)
    assert "Agent launcher failed." in refused(error)
    assert "exit code 0" in refused(error)
    assert not (tmp_path / "r.nsys-rep").exists()


def test_an_importer_that_writes_nothing_leaves_nothing(fake_nsys, tmp_path):
    nsys = read_capabilities(fake_nsys("echo 'Importer error: Not all events were merged.' >&2; exit 0"))
    with pytest.raises(ProfilingError) as error:
        export_report(nsys, tmp_path / "r.nsys-rep", tmp_path / "r.sqlite")
    assert "Not all events were merged" in refused(error)
    assert not list(tmp_path.glob("*.sqlite"))


@pytest.mark.parametrize("step", ["--help", "profile", "export", "stats"])
def test_an_nsys_that_hangs_is_killed_with_all_that_it_started(fake_nsys, tmp_path, monkeypatch, step):
    hang = f"sleep 597 & echo $! > {tmp_path}/child; wait"
    program = fake_nsys(f'if [ "$2" = --help ]; then set -- --help; fi; if [ "$1" = {step} ]; then {hang}; fi')
    monkeypatch.setattr(nsys_module, "_ANSWER_LIMIT_S", 1 if step == "--help" else 60)
    monkeypatch.setattr(nsys_module, "_WORK_LIMIT_S", 1)
    export = make_export(tmp_path / "full.sqlite", {"NVTX_EVENTS": [nvtx(0, 5, "epoch")]})
    with pytest.raises(ProfilingError, match="within 1 s") as error:
        nsys = read_capabilities(program)
        if step == "profile":
            monkeypatch.setattr(nsys_module, "_ANSWER_LIMIT_S", 1)
            run_profiled(nsys, tmp_path / "r.nsys-rep", ["nvtx"], ["true"], tmp_path / "log.txt", os.environ)
        elif step == "export":
            export_report(nsys, tmp_path / "r.nsys-rep", tmp_path / "r.sqlite")
        collect_statistics(nsys, export, tmp_path / "stats")
    refused(error)
    assert not Path("/proc", (tmp_path / "child").read_text().strip()).exists()


def test_an_empty_statistic_is_an_error_only_where_there_is_data(fake_nsys, tmp_path):
    nsys = read_capabilities(fake_nsys("echo 'Report crashed' >&2; exit 0"))
    empty = make_export(
        tmp_path / "empty.sqlite", {"StringIds": strings("x"), "NVTX_EVENTS": [nvtx(0, None, "domain", kind=75)]}
    )
    collect_statistics(nsys, empty, tmp_path / "stats")
    assert not (tmp_path / "stats").exists()
    full = make_export(tmp_path / "full.sqlite", {"NVTX_EVENTS": [nvtx(0, 5, "epoch")]})
    with pytest.raises(ProfilingError) as error:
        collect_statistics(nsys, full, tmp_path / "stats")
    assert "wrote no nvtx_sum though the data is there (Report crashed)" in refused(error)
    assert not (tmp_path / "stats" / "nvtx_sum.csv").exists()


@pytest.mark.parametrize("said", ["Connection to Agent lost.", "End of file", "= Local Endpoint is not available."])
def test_an_agent_that_nsys_lost_is_told_from_other_failures(fake_nsys, tmp_path, said):
    nsys = read_capabilities(fake_nsys(f"echo '{said}'; exit 1"))
    with pytest.raises(LostTraceError, match=rf"left no report \(exit code 1: {said}\)"):
        run_profiled(nsys, tmp_path / "r.nsys-rep", ["nvtx"], ["true"], tmp_path / "log.txt", os.environ)


def test_a_broken_nsys_is_refused_where_demanded_and_else_replaced(fake_nsys):
    broken = fake_nsys("exit 0")
    with pytest.raises(ProfilingError, match=r"tracing a small program failed: probe\.nsys-rep: nsys 2099\.\S+ left no report"):
        select_backend(Profiling(backend="nsys", nsys=broken))
    chosen = select_backend(Profiling(backend="auto", nsys=broken))
    assert (chosen.backend, chosen.nsys) == ("kineto", None)
    assert "left no report" in chosen.reason


def test_an_nsys_that_lost_its_agent_once_is_tried_again(fake_nsys, needs_nsys, tmp_path):
    lost = tmp_path / "lost"
    once = f'if [ "$1" = profile ] && [ "$2" != --help ] && [ ! -e {lost} ]; then touch {lost}; echo End of file; exit 1; fi'
    assert select_backend(Profiling(backend="nsys", nsys=fake_nsys(f'{once}\nexec nsys "$@"\n'))).backend == "nsys"
    assert lost.exists()


def test_kineto_is_taken_where_it_is_demanded(monkeypatch):
    monkeypatch.setattr(backend, "prove_nsys", lambda program: pytest.fail("must not be asked"))
    assert select_backend(Profiling(backend="kineto")).backend == "kineto"


@pytest.fixture
def nsys(needs_nsys) -> Capabilities:
    chosen = select_backend(Profiling(backend="nsys"))
    assert chosen.nsys is not None
    return chosen.nsys


def profile(nsys, folder, trace, *arguments, **variables):
    report, sqlite = folder / "report.nsys-rep", folder / "report.sqlite"
    environ = {**os.environ, **variables}
    run = partial(run_profiled, nsys, report, trace, [sys.executable, *map(str, arguments)], folder / "log.txt", environ)
    for tries_left in reversed(range(TRIES)):
        try:
            code = run()
            break
        except LostTraceError:  # as an experiment does
            if not tries_left:
                raise
    export_report(nsys, report, sqlite)
    convert_export(sqlite, folder / "trace")
    return code


def count_ranges(trace):
    rows = read_table(trace, "ranges", ["kind", "name"]).to_pylist()
    return Counter((row["kind"], row["name"]) for row in rows)


@pytest.mark.parametrize(("style", "workers"), [("start_end", 0), ("push_pop", 2)])
def test_both_profilers_see_the_same_ranges_the_same_number_of_times(nsys, tmp_path, style, workers):
    assert profile(nsys, tmp_path, ["cuda", "nvtx"], PROGRAM, style, workers) == 0
    subprocess.run([sys.executable, PROGRAM, style, str(workers), tmp_path / "kineto"], check=True)
    steps, volumes = EPOCHS * STEPS, 2 * STEPS
    expected = {
        (style, "epoch"): EPOCHS, (style, "dataload"): steps, (style, "forward"): steps, (style, "backward"): steps,
        ("push_pop", "ScaleIntensityd"): volumes, ("push_pop", "RandFlipd"): EPOCHS * volumes,
    }  # fmt: skip
    assert count_ranges(tmp_path / "kineto") == expected
    traced = count_ranges(tmp_path / "trace")
    if workers:  # nsys may lose what a worker process marked in its last tenth of a second
        expected.pop(("push_pop", "RandFlipd"))
        traced.pop(("push_pop", "RandFlipd"), None)
    assert traced == expected


def test_statistics_equal_the_trace_to_the_nanosecond(nsys, tmp_path):
    program = """import nvtx
for i in range(20):
    with nvtx.annotate('epoch'), nvtx.annotate(f'forward, {i}', domain='mine'):
        nvtx.end_range(nvtx.start_range('update'))
"""
    assert profile(nsys, tmp_path, ["nvtx", "osrt"], "-c", program) == 0
    collect_statistics(nsys, tmp_path / "report.sqlite", tmp_path / "stats")
    assert {path.name for path in (tmp_path / "stats").iterdir()} == {"nvtx_sum.csv", "osrt_sum.csv"}
    assert assert_sums_are_those_of_nsys(tmp_path / "trace", tmp_path / "stats", ("mine",)) == ["ranges", "osrt"]
    assert count_ranges(tmp_path / "trace")["start_end", "update"] == 20


def test_python_s_functions_are_sampled(nsys, tmp_path):
    if "--python-sampling" not in nsys.switches:
        pytest.skip(f"nsys {nsys.version} does not sample Python")
    (tmp_path / "program.py").write_text(
        """import threading, time
def spin(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass
spin(0.4)
thread = threading.Thread(target=spin, args=(0.3,))
thread.start()
thread.join()
"""
    )
    report, sqlite = tmp_path / "r.nsys-rep", tmp_path / "r.sqlite"
    switches = ["--trace=nvtx", "--sample=none", "--cpuctxsw=none", "--python-sampling=true", f"--output={report}"]
    subprocess.run([nsys.program, "profile", *switches, sys.executable, str(tmp_path / "program.py")], check=True)
    export_report(nsys, report, sqlite)
    (tmp_path / "trace").mkdir()
    assert convert_export(sqlite, tmp_path / "trace").warnings == []
    samples = read_table(tmp_path / "trace", "python_samples").to_pandas()
    counts = samples["name"].value_counts()
    # A thousand a second at best; a loaded machine takes fewer. The other thread spins, too, while the main one waits for it.
    assert counts["spin (program.py)"] > 30
    assert samples["thread"].nunique() == samples["process"].nunique() == 1
    waiting = samples["name"].str.fullmatch(r"(join|_?wait\w*) \(threading.py\)")
    assert waiting.sum() > 30 and (samples["name"][waiting.idxmax() :] != "spin (program.py)").all()


def test_an_nsys_that_gives_no_json_is_named(fake_nsys, tmp_path):
    made = make_export(tmp_path / "full.sqlite", {"NVTX_EVENTS": [nvtx(0, None, "Python Backtrace", kind=75)]})
    script = f"""for word; do case $word in --output=*) out=${{word#--output=}} ;; esac; done
case "$*" in *--type=json*) echo 'No such type.' >&2; exit 1 ;; esac; cp {made} "$out" """
    with pytest.raises(ProfilingError) as error:
        export_report(read_capabilities(fake_nsys(script)), tmp_path / "r.nsys-rep", tmp_path / "r.sqlite")
    assert "gave no JSON with Python's call stacks (No such type.)" in refused(error)
    assert not (tmp_path / "r.sqlite").exists()


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler (cc) is here")
def test_calls_of_libraries_are_read_but_no_word_of_nsys_about_itself(nsys, tmp_path):
    if not nsys.version.startswith("2023."):
        pytest.skip(f"which versions of cuBLAS and cuDNN nsys {nsys.version} hears in this way is not known")
    # Of these two nsys asks the version, by which it knows how to listen.
    parts = {
        "libcublas.so.11": "int cublasGetProperty(int which, int *value) { *value = which ? 2 : 11; return 0; }"
        " int cublasSgemm_v2(void) { return usleep(2000); }",
        "libcudnn.so.8": "unsigned long cudnnGetVersion(void) { return 8100; } int cudnnCreate(void) { return usleep(1000); }",
    }
    for name, text in parts.items():
        (tmp_path / "a.c").write_text(f"#include <unistd.h>\n{text}\n")
        words = ["cc", "-shared", "-fPIC", f"-Wl,-soname,{name}", "-o", name, "a.c"]
        subprocess.run(words, cwd=tmp_path, check=True)
    program = f"""import ctypes
ctypes.CDLL('{tmp_path}/libcudnn.so.8').cudnnCreate()
for _ in range(3):
    ctypes.CDLL('{tmp_path}/libcublas.so.11').cublasSgemm_v2()
"""
    assert profile(nsys, tmp_path, ["nvtx", "cudnn", "cublas"], "-c", program) == 0
    calls = read_table(tmp_path / "trace", "library").to_pandas()
    assert list(calls["name"]) == ["cudnnCreate", *["cublasSgemm_v2"] * 3]
    assert ((calls["end_ns"] - calls["start_ns"]) >= [1e6, *[2e6] * 3]).all()


@pytest.mark.parametrize("name", TRACES)
def test_statistics_of_strangers_traces_equal_the_trace(nsys, samples, tmp_path, name):
    sqlite = tmp_path / "export.sqlite"
    shutil.copy(samples / "traces" / f"{name}.sqlite", sqlite)
    sqlite.chmod(0o644)
    convert_export(sqlite, tmp_path / "trace")
    collect_statistics(nsys, sqlite, tmp_path / "stats")
    found = {path.stem for path in (tmp_path / "stats").iterdir()}
    kinds = ["kernels", "api", "copies", "sizes", "ranges"]
    system = ["osrt"] if "osrt_sum" in found else []
    assert assert_sums_are_those_of_nsys(tmp_path / "trace", tmp_path / "stats", ("CCCL",)) == kinds + system
    assert {*STATISTICS, "rules"} - found == (set() if system else {"osrt_sum"})
    rules = (tmp_path / "stats/rules.txt").read_text()
    assert "(cuda_memcpy_async)" in rules
    assert "Processing" not in rules


def test_the_program_s_exit_code_and_output_come_back(nsys, tmp_path):
    code = profile(nsys, tmp_path, ["nvtx"], "-c", "import nvtx; nvtx.mark('x'); print('last words'); raise SystemExit(3)")
    assert code == 3
    assert "last words" in (tmp_path / "log.txt").read_text()


def test_a_secret_of_the_environment_reaches_no_file(nsys, tmp_path):
    secret = "s3cr3t-of-the-environment"
    program = "import nvtx, os\nprint(sorted(os.environ))\nwith nvtx.annotate('epoch'): pass"
    profile(nsys, tmp_path, ["nvtx"], "-c", program, MY_API_TOKEN=secret, PLAIN=secret, SLURM_JOB_COMMENT=secret)
    collect_statistics(nsys, tmp_path / "report.sqlite", tmp_path / "stats")
    assert find_leaks(tmp_path, [secret]) == []
