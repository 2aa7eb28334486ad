"""A trace's tables whose bytes are not those that were written."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from speedproof.results.trace_tables import read_table
from speedproof.util.errors import RecordError
from tests.fuzz.calling import speedproof
from tests.trace.handmade import two_epochs


def test_a_flipped_bit_in_a_trace_of_no_experiment_is_found(tmp_path):
    trace = two_epochs().write(tmp_path / "trace")
    path = trace / "kernels.parquet"
    times = pq.ParquetFile(path).metadata.row_group(0).column(0)
    content = bytearray(path.read_bytes())
    content[times.data_page_offset + times.total_compressed_size - 8] ^= 1
    path.write_bytes(content)
    ended = speedproof("trace", "analyze", trace, "--out", tmp_path / "out")
    assert (ended.code, "kernels.parquet: not a readable Parquet table" in ended.err) == (6, True)


def test_a_name_that_its_list_lacks_is_found(tmp_path, monkeypatch):
    trace = two_epochs().write(tmp_path / "trace")
    read = pq.ParquetFile.read

    def read_spoilt(file, columns):  # what Arrow makes of a file whose pages hold an index beyond the list of names
        found = read(file, columns)
        beyond = pa.DictionaryArray.from_arrays(pa.array([7] * len(found), pa.int32()), pa.array(["a"]), safe=False)
        return found.set_column(columns.index("name"), "name", beyond)

    monkeypatch.setattr(pq.ParquetFile, "read", read_spoilt)
    with pytest.raises(RecordError, match="not a readable Parquet table"):
        read_table(trace, "kernels")
