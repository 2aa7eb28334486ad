"""A trace's tables whose bytes are not those that were written."""

import pyarrow.parquet as pq

from tests.analysis.handmade import two_epochs
from tests.fuzz.calling import speedproof


def test_a_flipped_bit_in_a_trace_of_no_block_is_found(tmp_path):
    trace = two_epochs().write(tmp_path / "trace")
    path = trace / "kernels.parquet"
    times = pq.ParquetFile(path).metadata.row_group(0).column(0)
    content = bytearray(path.read_bytes())
    content[times.data_page_offset + times.total_compressed_size - 8] ^= 1
    path.write_bytes(content)
    ended = speedproof("analyze", trace, "--out", tmp_path / "out")
    assert (ended.code, "kernels.parquet: not a readable Parquet table" in ended.err) == (6, True)
