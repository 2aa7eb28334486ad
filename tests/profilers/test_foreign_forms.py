"""Files of other tools: read if they hold a timeline, refused by their own name if not, and told where they are broken."""

import gzip
import io
import json
import tarfile
import zipfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from speedproof.profilers.convert import convert_input
from speedproof.profilers.formats import find_format
from speedproof.profilers.xplane_format import XPLANE_TRACE
from speedproof.results.trace_tables import TABLES, read_table
from speedproof.trace.summarize import analyze_trace
from speedproof.util.errors import ProfilingError, RecordError, SpeedproofError
from tests.profilers.exports import MAIN, make_export, strings
from tests.profilers.test_inputs import PID, ZERO_US, chrome_events


def write_json(path, content):
    text = json.dumps(content).encode()
    path.write_bytes(gzip.compress(text, mtime=0) if path.suffix == ".gz" else text)
    return path


def same_tables(one, other):
    return all(read_table(one, name).equals(read_table(other, name)) for name in TABLES)


@pytest.mark.parametrize("end", ["]", "", ",\n", " ]garbage"])
def test_a_bare_list_of_events_is_the_object_that_has_them(tmp_path, end):
    """As Chrome writes it, and kineto did in 2020; the list needs no end."""
    convert_input(write_json(tmp_path / "object.json", {"traceEvents": chrome_events()}), tmp_path / "one")
    (tmp_path / "list.json").write_text("\ufeff" + json.dumps(chrome_events())[:-1] + end)
    convert_input(tmp_path / "list.json", tmp_path / "other")
    assert same_tables(tmp_path / "one", tmp_path / "other")


def test_packed_is_what_is_packed_whatever_its_name(tmp_path):
    """Browsers unpack what they download, and keep its name."""
    plain = write_json(tmp_path / "a.json", {"traceEvents": chrome_events()})
    plain.rename(tmp_path / "a.json.gz")
    packed = write_json(tmp_path / "b.gz", {"traceEvents": chrome_events()}).rename(tmp_path / "b.json")
    convert_input(tmp_path / "a.json.gz", tmp_path / "one")
    convert_input(packed, tmp_path / "other")
    assert same_tables(tmp_path / "one", tmp_path / "other")


HOST, GPU = 701, 1


def xla_events(device="/device:GPU:0"):
    """Four steps of 100 us, counted from 7: a launch, its kernel of 50 on stream 13, and a copy of 10 on stream 14."""
    named = [
        ("process_name", GPU, None, device),
        ("process_name", HOST, None, "/host:CPU"),
        ("thread_name", GPU, 13, "Stream #13(Compute)"),
        ("thread_name", GPU, 14, "Stream #14(MemcpyH2D)"),
        ("thread_name", GPU, 99, "XLA Ops"),
        ("thread_name", HOST, 5, "python3"),
    ]
    events = [{"ph": "M", "pid": pid, "tid": tid or 0, "name": kind, "args": {"name": name}} for kind, pid, tid, name in named]

    def add(pid, tid, name, at, length, **args):
        events.append({"ph": "X", "pid": pid, "tid": tid, "name": name, "ts": at, "dur": length, "args": args})

    for step in range(4):
        at = 100 * step
        add(HOST, 5, "train", at, 90, step_num=str(7 + step))
        add(HOST, 5, "$loop.py:12 main", at, 90)
        add(HOST, 5, "PjitFunction(f)", at + 2, 10)
        add(HOST, 5, "cuLaunchKernel", at + 5, 5, correlation_id=str(step + 1))
        add(GPU, 13, "fusion_1", at + 20, 50, correlation_id=str(step + 1), hlo_op="fusion.1")
        add(GPU, 14, "MemcpyH2D", at + 75, 10, memcpy_details="kind_src:pinned kind_dst:device size:64 dest:0 async:1")
        add(GPU, 99, "fusion.1", at + 20, 50)
    return events


def test_xlas_streams_are_the_gpus_work(tmp_path):
    path = write_json(tmp_path / "host.trace.json.gz", {"displayTimeUnit": "ns", "traceEvents": xla_events()})
    info = convert_input(path, tmp_path / "trace")
    assert (info.profiler, info.rows["kernels"], info.rows["copies"], info.rows["ranges"]) == ("xla", 4, 4, 8)
    kernel, copy = (read_table(tmp_path / "trace", name).to_pylist()[0] for name in ("kernels", "copies"))
    assert [kernel[name] for name in ("name", "device", "stream", "start_ns", "end_ns", "correlation")] == [
        "fusion_1", 0, 13, 20_000, 70_000, 1,
    ]  # fmt: skip
    assert [copy[name] for name in ("kind", "stream", "bytes", "source_memory", "target_memory")] == [
        "HtoD", 14, 64, "pinned", "device",
    ]  # fmt: skip
    summary = analyze_trace(tmp_path / "trace")
    assert (summary.found.unit, summary.found.name, len(summary.epochs)) == ("iteration", "train #", 4)
    assert {round(one.kernel_busy_fraction, 6) for one in summary.epochs} == {round(50 / 90, 6)}
    # All kernels are launched in the one phase; the copies, a sixth of the GPU's time, have no launch.
    assert [(phase.name, round(1e6 * phase.kernel_busy_s)) for phase in summary.phases] == [("PjitFunction(f)", 200)]
    assert summary.unattributed_fraction == pytest.approx(1 / 6)


def test_amds_streams_and_calls_have_names_of_their_own(tmp_path):
    text = json.dumps(xla_events()).replace("Stream #13(Compute)", "Stream #2").replace("cuLaunchKernel", "hipLaunchKernel")
    other = {"ph": "M", "pid": 2, "name": "process_name", "args": {"name": "/host:metadata"}}
    write_json(tmp_path / "a.json", [other, *json.loads(text)])
    info = convert_input(tmp_path / "a.json", tmp_path / "trace")
    assert (info.profiler, info.rows["kernels"], info.rows["api"]) == ("xla", 4, 4)
    assert {row["stream"] for row in read_table(tmp_path / "trace", "kernels").to_pylist()} == {2}
    assert analyze_trace(tmp_path / "trace").launches.calls == 3  # the first iteration warms up


@pytest.mark.parametrize("device", ["/device:TPU:0", "/device:CUSTOM:Trace"])
def test_the_work_of_an_accelerator_that_is_no_gpu_is_named(tmp_path, device):
    path = write_json(tmp_path / "a.trace.json", {"traceEvents": xla_events(device)})
    convert_input(path, tmp_path / "trace")
    summary = analyze_trace(tmp_path / "trace")
    assert (summary.has_gpu, summary.gpu_untraced) == (False, "unread")
    assert f"12 events of {device} are not read: only GPUs are" in summary.warnings


def test_operators_alone_are_a_stretch_in_which_each_has_its_time(tmp_path):
    """Ten times two operators of 300 and 100 us, back to back; a third is called by the second, and no time of its own."""
    events = []
    for number in range(10):
        for name, at, length in (("aten::linear", 0, 300), ("aten::relu", 300, 100), ("aten::clamp_min", 310, 80)):
            place = {"pid": PID, "tid": PID, "ts": ZERO_US + 400 * number + at}
            events.append({"ph": "X", "cat": "cpu_op", "name": name, "dur": length, **place})
    for devices, untraced in (([{"id": 0}], "unknown"), ([], "unseen")):
        path = write_json(tmp_path / "a.json", {"deviceProperties": devices, "traceEvents": events})
        convert_input(path, tmp_path / "trace")
        summary = analyze_trace(tmp_path / "trace")
        assert (summary.found.unit, summary.has_gpu, summary.gpu_untraced) == ("stretch", False, untraced)
        assert {phase.name: round(1e6 * phase.wall_s) for phase in summary.phases} == {"aten::linear": 3000, "aten::relu": 1000}


def test_kernels_whose_time_was_lost_are_counted_and_left_out(tmp_path):
    lost = [event | {"ts": 0, "dur": 0} for event in chrome_events() if event.get("cat") == "kernel"]
    path = write_json(tmp_path / "a.json", {"traceEvents": [*lost, *chrome_events()]})
    info = convert_input(path, tmp_path / "trace")
    assert info.warnings == ["3 GPU events have no time, which the profiler lost: they are left out"]
    assert info.rows["kernels"] == 3
    assert len(analyze_trace(tmp_path / "trace").epochs) == 3


def test_categories_that_are_not_read_are_the_reason_of_an_empty_trace(tmp_path):
    event = {"ph": "X", "cat": "FEE", "name": "main (a.py:1)", "pid": 1, "tid": 1, "ts": 5, "dur": 5}
    convert_input(write_json(tmp_path / "a.json", {"traceEvents": [event, event]}), tmp_path / "trace")
    with pytest.raises(RecordError, match="none of its 2 events is of a kind that is read; there are `FEE`; mend that"):
        analyze_trace(tmp_path / "trace")


@pytest.mark.parametrize("category", ["hpu_op", "privateuse1_runtime"])
def test_another_accelerators_events_are_counted(tmp_path, category):
    other = {"ph": "X", "cat": category, "name": "op", "pid": PID, "tid": PID, "ts": ZERO_US, "dur": 5}
    events = [event for event in chrome_events() if event.get("cat") == "user_annotation"]
    convert_input(write_json(tmp_path / "a.json", {"traceEvents": [*events, other]}), tmp_path / "trace")
    summary = analyze_trace(tmp_path / "trace")
    assert summary.gpu_untraced == "unread"
    assert f"1 events of another accelerator are not read: `{category}`" in summary.warnings


STEPS = [(1000 * step, 1000 * step + 900) for step in range(4)]


def nsightful_events():
    events = []

    def add(category, name, start_ns, end_ns, pid, tid, **args):
        times = {"ts": start_ns / 1000, "dur": (end_ns - start_ns) / 1000}
        events.append({"name": name, "ph": "X", "cat": category, "tid": tid, "pid": pid, "args": args, **times})

    for number, (start, end) in enumerate(STEPS):
        add("cuda", "gemm", start + 300, end, "Device 0", "CUDA API 7", NVTXRegions=["step"])
        add("nvtx", "step", start, end, "Host 0", "NVTX 500")
        add("cuda_api", "cudaLaunchKernel_v7000", start + 100, start + 200, "Host 0", "CUDA API 500", correlationId=number)
        add("nvtx-kernel", "step", start + 300, end, "Device 0", "NVTX 500")
    return sorted(events, key=lambda event: (event["pid"], event["tid"]))


def test_nsightfuls_json_is_the_export_that_it_was_made_of(tmp_path):
    tables = {
        "StringIds": strings("step", "gemm", "cudaLaunchKernel_v7000"),
        "NVTX_EVENTS": [
            {"start": at, "end": end, "eventType": 59, "globalTid": MAIN | 500, "textId": 10, "text": None} for at, end in STEPS
        ],
        "CUPTI_ACTIVITY_KIND_KERNEL": [
            {"start": at + 300, "end": end, "globalPid": MAIN, "deviceId": 0, "streamId": 7, "shortName": 20}
            for at, end in STEPS
        ],
        "CUPTI_ACTIVITY_KIND_RUNTIME": [
            {"start": at + 100, "end": at + 200, "globalTid": MAIN | 500, "correlationId": number, "nameId": 30}
            for number, (at, _) in enumerate(STEPS)
        ],
    }
    convert_input(make_export(tmp_path / "a.sqlite", tables), tmp_path / "one")
    info = convert_input(write_json(tmp_path / "a.json", nsightful_events()), tmp_path / "other")
    assert info.profiler == "nsightful"
    for name in ("ranges", "api", "kernels"):
        assert read_table(tmp_path / "other", name).to_pylist() == read_table(tmp_path / "one", name).to_pylist(), name
    assert [one.kernel_busy_fraction for one in analyze_trace(tmp_path / "other").epochs] == pytest.approx([600 / 900] * 4)


def make_archive(kind):
    content = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(content, "w") as archive:
            archive.writestr("a.json", "{}")
    else:
        with tarfile.open(fileobj=content, mode=kind) as archive:
            archive.addfile(tarfile.TarInfo("a.json"))
    return content.getvalue()


# A packet (field 1) with its clocks (6), or time (8).
PACKETS = [b"\x0a\x06\x32\x04\x0a\x02\x08\x01" * 9, b"\x0a\x04\x40\x01\x50\x02" * 9]


# XSpace: a plane (field 1) with its number (1) and name (2).
@pytest.mark.parametrize(
    "content", [b"\x0a\x10\x12\x0d/device:GPU:0" + bytes(64), b"\x0a\x0f\x08\x01\x12\x0b/host:CPU:0" + bytes(9)]
)
def test_an_xplane_is_known_by_its_content(tmp_path, content):
    (tmp_path / "renamed.bin").write_bytes(content)
    assert find_format(tmp_path / "renamed.bin") is XPLANE_TRACE


@pytest.mark.parametrize(
    ("name", "content", "what", "remedy"),
    [
        *(("a.pftrace", content, "a Perfetto trace", "traceconv json") for content in PACKETS),
        ("a.tar", make_archive("w"), "a tar archive", "tar -xf"),
        ("a.json.gz", make_archive("w:gz"), "a tar archive", "tar -xf"),
        ("a.zip", make_archive("zip"), "a zip archive", "unzip"),
        ("a.nsys-rep", make_archive("zip"), "a zip archive", "unzip"),
        ("a.gz", gzip.compress(b"epoch 1"), "a gzip file of something else", "gunzip"),
        ("a.zst", b"\x28\xb5\x2f\xfd0", "a zstd file", "unzstd"),
        ("a.ncu-rep", b"NVR\x00\x08\x01", "a report of Nsight Compute", "nsys profile"),
        ("a.qdstrm", b"anything", "what Nsight Systems recorded, not yet a report", "QdstrmImporter -i"),
        ("a.csv", b'"Kind","Agent_Id","Queue_Id"\n', "a table of rocprof", "rocprofv3 --runtime-trace --output-format json"),
        ("a.csv", b"Time (%),Total Time (ns),Instances\n", "a table of Nsight Systems' or", "nsys export --type=sqlite"),
        ("et.json", b'{"schema": "1.1.1-chakra.0.0.4", "pid": 1, "nodes": []}', "an execution trace", "export_chrome_trace"),
        (
            "a.json",
            b'{"$schema": "https://www.speedscope.app/file-format-schema.json"}',
            "a profile of samples",
            "nsys profile",
        ),
        ("a.pickle", b"\x80\x04\x95", "a pickle of Python", "export_chrome_trace"),
        ("a.sqlite", b"version https://git-lfs.github.com/spec/v1\n", "a Git LFS pointer", "git lfs pull"),
        ("a.json", b"<!DOCTYPE html>\n<html>", "a web page", "raw file"),
        ("a.json", b"", "an empty file", "copy or record it again"),
    ],
    ids=lambda value: "content" if isinstance(value, bytes) else None,  # packed bytes hold the time at which they were made
)
def test_what_is_no_trace_is_named_with_the_way_to_one(tmp_path, name, content, what, remedy):
    """By its content, not by its name, and never with a key of our configuration."""
    (tmp_path / name).write_bytes(content)
    with pytest.raises(RecordError) as caught:
        convert_input(tmp_path / name, tmp_path / "trace")
    said = str(caught.value)
    assert said.startswith(f"{tmp_path / name}: {what}") and remedy in said
    assert "profiling." not in said and "\n" not in said


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{\n "traceEvents": [\n  {"ph": "X",\n   "ts" 5, "dur": 5}' + " " * 40 + "]}", "line 4, column 9: invalid JSON"),
        ('{\n "traceEvents": [\n  {"ph": "X"},\n  {"ph": "X", "ts": 5', "line 4, column 22: breaks off after 1 events"),
        ('{\n "traceEvents": [{"ph": "X"}, 7, {}]}', "line 2, column 32: 7 in place of an event"),
        ('{"schemaVersion": 1,\n "deviceProperties": [}', "line 2, column 23: invalid JSON"),
        ('{"one": 1}\n{"two": 2}\n', "JSON lines, or several values, without `traceEvents`"),
        ('{"some": 1, "keys": []}', "JSON without events (it has no `traceEvents` but some, keys)"),
    ],
)
def test_broken_json_is_refused_with_its_place(tmp_path, text, why):
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(ProfilingError) as caught:
        convert_input(tmp_path / "a.json", tmp_path / "trace")
    assert (f"a.json: {why}" in str(caught.value) and "again" in str(caught.value)) or "give a" in str(caught.value)


def test_a_place_is_counted_through_all_pieces_of_a_file(tmp_path, monkeypatch):
    monkeypatch.setattr("speedproof.profilers.chrome_events._CHUNK", 64)
    lines = json.dumps({"traceEvents": chrome_events()}, indent=1).splitlines()
    (tmp_path / "a.json").write_text("\n".join([*lines[:100], '  "ts": : 5,', *lines[100:]]))
    with pytest.raises(ProfilingError, match="line 101, column 9: invalid JSON"):
        convert_input(tmp_path / "a.json", tmp_path / "trace")


FORMS = {
    "torch": ({"schemaVersion": 1, "traceEvents": chrome_events()}, "kineto"),
    "list": (chrome_events(), "kineto"),
    "xla": ({"displayTimeUnit": "ns", "traceEvents": xla_events()}, "xla"),
    "nsightful": (nsightful_events(), "nsightful"),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_form_is_known_by_its_content(tmp_path, form):
    content, profiler = FORMS[form]
    for name in ("a.json", "b.json.gz", "c"):
        found = find_format(write_json(tmp_path / name, content))
        assert found is not None and found.profiler.name == profiler


@settings(max_examples=30)
@given(form=st.sampled_from(["torch", "xla"]), share=st.floats(0, 0.99), packed=st.booleans())
def test_a_file_that_is_cut_off_anywhere_says_so(tmp_path_factory, form, share, packed):
    folder = tmp_path_factory.mktemp("cut")
    path = write_json(folder / ("a.json.gz" if packed else "a.json"), FORMS[form][0])
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(SpeedproofError) as caught:
        convert_input(path, folder / "trace")
    said = str(caught.value)
    assert any(word in said for word in ("breaks off", "truncated", "empty file", "invalid JSON", "not JSON")), said
    assert (said.startswith(str(path)) and "\n" not in said and "again" in said) or "give a trace" in said


def test_a_category_that_is_no_text_is_nobodys(tmp_path):
    content = json.loads(json.dumps(FORMS["torch"][0]))
    content["traceEvents"].append({**content["traceEvents"][-1], "ph": "X", "cat": []})
    convert_input(write_json(tmp_path / "a.json", content), tmp_path / "trace")
    analyze_trace(tmp_path / "trace")


STRANGE = st.sampled_from([None, -1, 2**70, 1.5, "x", "5", [], {}, True, "Device", "Stream #", 1e300])


@settings(max_examples=25)
@given(form=st.sampled_from(list(FORMS)), data=st.data())
def test_strange_values_are_read_or_refused_in_one_line(tmp_path_factory, form, data):
    content = json.loads(json.dumps(FORMS[form][0]))
    events = content if isinstance(content, list) else content["traceEvents"]
    for _ in range(data.draw(st.integers(1, 4))):
        event = data.draw(st.sampled_from(events))
        target = data.draw(st.sampled_from([part for part in (event, event.get("args")) if isinstance(part, dict) and part]))
        target[data.draw(st.sampled_from(sorted(target)))] = data.draw(STRANGE)
    folder = tmp_path_factory.mktemp("strange")
    try:
        convert_input(write_json(folder / "a.json", content), folder / "trace")
        analyze_trace(folder / "trace")
    except SpeedproofError as error:
        assert "\n" not in str(error)


BEGINNINGS = st.sampled_from(
    [b"", b"\x0a", b"\x0a\x10\x12", b"\x1f\x8b", b"{", b"[{", b'{"traceEvents": [', b"SQLite format 3\0", b"PK\x03\x04"]
)


@settings(max_examples=80)
@given(begin=BEGINNINGS, rest=st.binary(max_size=300), name=st.sampled_from(["a", "a.json", "a.json.gz", "a.sqlite", "a.pb"]))
def test_any_bytes_are_refused_in_one_line(tmp_path_factory, begin, rest, name):
    folder = tmp_path_factory.mktemp("bytes")
    (folder / name).write_bytes(begin + rest)
    with pytest.raises(SpeedproofError) as caught:
        convert_input(folder / name, folder / "trace")
    assert str(caught.value).startswith(str(folder / name)) and "\n" not in str(caught.value)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-8-sig"])
@pytest.mark.parametrize("make", [chrome_events, xla_events, nsightful_events])
def test_json_in_another_encoding_is_the_same_trace(tmp_path, encoding, make):
    """PowerShell's `>` writes UTF-16, some editors a mark in front of UTF-8; packed or not, and whatever the name."""
    content = {"traceEvents": make()}
    convert_input(write_json(tmp_path / "a.json", content), tmp_path / "one")
    (tmp_path / "b.json.gz").write_bytes(gzip.compress(json.dumps(content).encode(encoding), mtime=0))
    (tmp_path / "c.bin").write_bytes(json.dumps(content).encode(encoding))
    for name in ("b.json.gz", "c.bin"):
        convert_input(tmp_path / name, tmp_path / "other")
        assert same_tables(tmp_path / "one", tmp_path / "other")


@pytest.mark.parametrize(
    ("one", "other", "why"),
    [
        (chrome_events, xla_events, "holds events of XLA's profiler and of torch.profiler"),
        (xla_events, chrome_events, "holds events of XLA's profiler and of torch.profiler"),
        (chrome_events, nsightful_events, "holds events of nsightful and of torch.profiler"),
        (xla_events, nsightful_events, "holds events of nsightful and of XLA's profiler"),
    ],
)
def test_events_of_two_profilers_are_refused(tmp_path, one, other, why):
    path = write_json(tmp_path / "a.json", {"traceEvents": [*one(), *other()]})
    with pytest.raises(ProfilingError, match=f"a.json: {why}, whose times do not belong together; give a file of one"):
        convert_input(path, tmp_path / "trace")


def test_an_object_with_other_lists_is_read_and_one_with_two_traces_is_not(tmp_path):
    events = chrome_events()
    convert_input(write_json(tmp_path / "a.json", {"traceEvents": events}), tmp_path / "one")
    others = {"nodes": [{"id": 1}], "note": 'a "traceEvents": [ in a text', "samples": [], "why": "rocprofiler-sdk-tool"}
    convert_input(write_json(tmp_path / "b.json", others | {"traceEvents": events, "stackFrames": [1]}), tmp_path / "other")
    assert same_tables(tmp_path / "one", tmp_path / "other")
    ranks = {name: {"traceEvents": events} for name in ("rank0", "rank1")}
    with pytest.raises(ProfilingError, match=r"column \d+: a second list `traceEvents`; give a file for each of them"):
        convert_input(write_json(tmp_path / "c.json", ranks), tmp_path / "trace")


def test_events_that_are_there_twice_are_refused(tmp_path):
    with pytest.raises(ProfilingError, match="holds the same kernels twice or more"):
        convert_input(write_json(tmp_path / "a.json", {"traceEvents": 2 * chrome_events()}), tmp_path / "trace")


def test_events_in_another_form_are_named_by_it(tmp_path):
    events = [event | {"ph": "B"} if event["ph"] == "X" else event for event in chrome_events()]
    convert_input(write_json(tmp_path / "a.json", {"traceEvents": events}), tmp_path / "trace")
    with pytest.raises(RecordError, match="there are `user_annotation, ph B`, `cpu_op, ph B`"):
        analyze_trace(tmp_path / "trace")
