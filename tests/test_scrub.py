import zipfile

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from speedproof.util.errors import RecordError
from speedproof.util.scrub import Identity, profiled_environment, read_texts, scrub_text
from tests.leaks import find_leaks

ADA = Identity(("node7.cluster.example", "node7"), "ada", "/home/ada")


def test_the_profiled_environment_keeps_what_training_needs_and_nothing_else():
    needed = {
        "PATH": "/bin", "LC_ALL": "C", "OMP_NUM_THREADS": "4", "CUDA_VISIBLE_DEVICES": "0", "NCCL_DEBUG": "WARN",
        "TORCH_HOME": "/t", "NVSHMEM_X": "1", "SLURM_JOB_ID": "7",
    }  # fmt: skip
    secrets = {
        "AWS_SECRET_ACCESS_KEY": "x", "MY_TOKEN": "x", "GITHUB_TOKEN": "x", "SLURM_JOB_USER": "ada",
        "SLURM_SUBMIT_DIR": "/home/ada",
        "SLURM_SUBMIT_HOST": "login1", "SSH_CONNECTION": "x", "USER": "ada", "HOSTNAME": "node7", "TORCH_HUB_TOKEN": "x",
    }  # fmt: skip
    assert profiled_environment({**needed, **secrets}) == needed


@pytest.mark.parametrize(
    "name",
    ["CUDA_CREDENTIALS", "SLURM_DB_PASS", "SLURM_PASSWD", "NCCL_AUTH", "TORCH_HUB_token", "MKL_apikey", "OMP_KEY_FILE",
     "SLURM_COOKIE", "SPEEDPROOF_PASSPHRASE", "TRITON_JWT", "PYTORCH_secret", "CUDA_PRIVATE"],
)  # fmt: skip
def test_what_reads_like_a_secret_is_dropped_however_it_is_written(name):
    assert profiled_environment({name: "x"}) == {}


@pytest.mark.parametrize(
    "name",
    ["NCCL_IB_PKEY", "CUDA_CACHE_PATH", "CUDA_DEVICE_MAX_CONNECTIONS", "TORCHINDUCTOR_CACHE_DIR", "PYTORCH_CUDA_ALLOC_CONF",
     "PYTHONSAFEPATH", "CUBLAS_WORKSPACE_CONFIG", "KMP_AFFINITY", "SPEEDPROOF_LOCKS", "CXX"],
)  # fmt: skip
def test_what_training_needs_is_kept(name):
    assert profiled_environment({name: "x"}) == {name: "x"}


@pytest.mark.parametrize(
    ("text", "scrubbed"),
    [
        ("read /home/ada/data/x.nii.gz now", "read <path> now"),
        ("Processing [/tmp/scratch/probe.sqlite]", "Processing [<path>]"),
        ('"/opt/tool/bin/run",3', '"<path>",3'),
        ("on node7.cluster.example or node7", "on <host> or <host>"),
        ("node77 is another", "node77 is another"),
        ("ada@node7", "<user>@<host>"),
        ("adam optimizer", "adam optimizer"),
        ("epoch 1/2, 3 it/s, a / b", "epoch 1/2, 3 it/s, a / b"),
        ("void at::native::(anonymous namespace)::f<int, 4>(T1 *)", "void at::native::(anonymous namespace)::f<int, 4>(T1 *)"),
    ],
)
def test_identities_and_paths_disappear_and_the_rest_stays(text, scrubbed):
    assert scrub_text(text, ADA) == scrubbed


def test_root_and_unknown_users_are_left_alone():
    assert scrub_text("the root of all", Identity((), "root", "/root")) == "the root of all"
    assert scrub_text("text", Identity((), "", "/")) == "text"


words = st.text(alphabet="abcdefghijklmnopqrstuvwxyz_.-0123456789", min_size=1, max_size=8)


@given(st.lists(words, min_size=2, max_size=5), st.sampled_from(["", "see ", "'", '"', "(", "[", "=", ",", "\n"]))
def test_no_absolute_path_survives(parts, before):
    path = "/" + "/".join(parts)
    assert path not in scrub_text(before + path, ADA)


def test_leaks_are_found_in_text_in_bytes_in_compressed_tables_and_in_archives(tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "run.json").write_text('{"host": "node7"}')
    (tmp_path / "deep" / "blob.bin").write_bytes(b"\0\1s3cret\0")
    column = pa.array(["clean", "s3cret", None] * 1000).dictionary_encode()
    pq.write_table(pa.table({"name": column, "number": range(3000)}), tmp_path / "deep" / "a.parquet", compression="zstd")
    pq.write_table(pa.table({"name": ["clean"]}), tmp_path / "clean.parquet", compression="zstd")
    with zipfile.ZipFile(tmp_path / "evidence.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(tmp_path / "deep" / "a.parquet", "experiments/b.parquet")
        archive.writestr("log.txt", "clean" * 1000 + "on node7")
    found = {(leak.path.name, leak.needle) for leak in find_leaks(tmp_path, ["node7", "s3cret", "absent"])}
    packed = {("b.parquet", "s3cret"), ("log.txt", "node7")}
    assert found == {("run.json", "node7"), ("blob.bin", "s3cret"), ("a.parquet", "s3cret"), *packed}


def test_a_damaged_table_is_named(tmp_path):
    path = tmp_path / "threads.parquet"
    pq.write_table(pa.table({"name": ["one", "two"] * 500}), path, compression="zstd")
    content = bytearray(path.read_bytes())
    content[30:60] = bytes(30)
    path.write_bytes(bytes(content))
    with pytest.raises(RecordError, match=r"threads\.parquet: not readable as Parquet"):
        read_texts(path)
