"""What torch.profiler never writes: memory and time stay in proportion to the file, and the refusal is one line."""

import gzip
import json
import re

import pytest

from speedproof.profilers import chrome_events
from speedproof.profilers.chrome_events import stream_events
from speedproof.profilers.convert import convert_input
from speedproof.results.trace_tables import read_table
from speedproof.util.errors import ProfilingError

EVENT = {"ph": "X", "cat": "cuda_runtime", "name": "k", "pid": 1, "tid": 1, "ts": 0, "dur": 5}
KERNEL = EVENT | {"cat": "kernel", "args": {"device": 0, "stream": 7}}


def write_events(path, *events):
    """Write a trace; a text is written as it is."""
    written = [event if isinstance(event, str) else json.dumps(event) for event in (EVENT, *events)]
    path.write_text('{"traceEvents": [' + ", ".join(written) + "]}")
    return path


def write_number(event, name, number):
    """Return an event as text, with a number that Python does not write itself."""
    return re.sub(f'"{name}": [0-9]+', f'"{name}": {number}', json.dumps(event))


@pytest.mark.parametrize(
    ("event", "why"),
    [
        (write_number(KERNEL, "device", "1e99999999"), "whose device is not a whole number"),
        (write_number(KERNEL, "stream", "1.5"), "whose stream is not a whole number"),
        (write_number(KERNEL, "stream", 2**63), "whose stream is not a whole number"),
        (write_number(KERNEL | {"args": {"correlation": 1}}, "correlation", "1e99999999"), "whose correlation is not"),
        (write_number(EVENT, "ts", "1e99999999"), "without a time"),
        (KERNEL | {"args": [1]}, r"an event whose args are not an object: \[1\]\); export it again"),
        (KERNEL | {"dur": True}, "an event without a time, dur: True"),
        (KERNEL | {"args": {"device": True}}, "whose device is not a whole number"),
        (write_number(EVENT, "ts", "1" * 5000), "a number has too many digits"),
        ('{"a": ' + "[" * 100_000 + "]" * 100_000 + "}", "nested too deeply"),
    ],
)
def test_numbers_and_nesting_without_end_are_refused(tmp_path, event, why):
    with pytest.raises(ProfilingError, match=why):
        convert_input(write_events(tmp_path / "a.json", event), tmp_path / "trace")


@pytest.mark.parametrize("pid", ["--5", "²", "1" * 5000])
def test_a_process_whose_number_is_none_is_not_known(tmp_path, pid):
    path = write_events(tmp_path / "a.json", EVENT | {"pid": pid, "ts": 9})
    assert convert_input(path, tmp_path / "trace").rows["api"] == 2


def test_whole_numbers_may_be_written_as_fractions(tmp_path):
    path = write_events(tmp_path / "a.json", write_number(KERNEL, "stream", "7.0"))
    convert_input(path, tmp_path / "trace")
    assert read_table(tmp_path / "trace", "kernels")["stream"].to_pylist() == [7]


def test_a_copy_of_half_a_byte_is_of_unknown_size(tmp_path):
    copies = [KERNEL | {"cat": "gpu_memcpy", "ts": at, "args": {"bytes": size}} for at, size in enumerate((0.5, "many", 7))]
    convert_input(write_events(tmp_path / "a.json", *copies), tmp_path / "trace")
    assert read_table(tmp_path / "trace", "copies")["bytes"].to_pylist() == [None, None, 7]


def test_a_packed_file_with_a_wrong_checksum_is_called_damaged(tmp_path):
    packed = bytearray(gzip.compress(write_events(tmp_path / "a.json").read_bytes()))
    packed[-8] ^= 1  # of the checksum
    (tmp_path / "a.json.gz").write_bytes(packed)
    with pytest.raises(ProfilingError, match=r"a.json.gz: not readable \(CRC check failed .*\); export it again"):
        convert_input(tmp_path / "a.json.gz", tmp_path / "trace")


def test_a_file_that_unpacks_to_far_more_than_its_size_is_refused(tmp_path):
    path = tmp_path / "a.json.gz"
    with gzip.open(path, "wb") as file:
        file.write(b'{"traceEvents": [')
        for _ in range(100):
            file.write(b" " * 2**20)
        file.write(b"]}")
    with pytest.raises(ProfilingError, match=r"more than 100 times its size; if it is a trace, unpack it first"):
        list(stream_events(path))
    (tmp_path / "a.json").write_bytes(gzip.decompress(path.read_bytes()))
    assert list(stream_events(tmp_path / "a.json")) == []


def test_an_event_of_many_pieces_is_decoded_a_few_times_only(tmp_path, monkeypatch):
    """Twice the text each time: of a thousand pieces, about ten tries; one for each piece would take quadratic time."""
    monkeypatch.setattr(chrome_events, "_CHUNK", 1000)
    tries = []

    class Decoder(json.JSONDecoder):
        def raw_decode(self, text, idx=0):
            tries.append(len(text))
            return super().raw_decode(text, idx)

    monkeypatch.setattr("json.JSONDecoder", Decoder)
    path = write_events(tmp_path / "a.json", {"name": "x" * 1_000_000})
    assert len(list(stream_events(path))) == 2
    assert len(tries) < 20


def test_an_event_that_never_ends_is_refused_before_the_file_ends(tmp_path, monkeypatch):
    monkeypatch.setattr(chrome_events, "_LONGEST_EVENT", 1 << 20)
    monkeypatch.setattr(chrome_events, "_CHUNK", 1 << 16)
    path = write_events(tmp_path / "a.json", '{"name": "' + "x" * 2**24)
    with pytest.raises(ProfilingError, match="an event is broken, or larger than 1 MiB"):
        list(stream_events(path))
