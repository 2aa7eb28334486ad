"""What must not leave the machine: other people's environment, host and user names, and where things lie.

Profiler reports hold all of it as plain text. So the profiled process starts with little, tables are cleaned before they are
written, and `.nsys-rep` and `.sqlite` stay under `results/`.
"""

import ast
import getpass
import re
import socket
from collections.abc import Collection, Mapping
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from speedproof.util.errors import RecordError
from speedproof.util.secrets import scrub_secrets

# Variables a profiled process may see, as shell patterns; whatever is not named here, it does not.
ALLOWED_VARIABLES = [
    # Finding programs, libraries and this package; where scratch files and caches go.
    "PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "PYTHONSAFEPATH", "PYTHONNOUSERSITE", "VIRTUAL_ENV", "HOME", "TMPDIR",
    # The compilers: torch.compile reuses what it compiled with one of another name only by its own.
    "CC", "CXX", "CUDAHOSTCXX",
    # The same text and time formats as outside.
    "LANG", "LC_*", "TZ", "PYTHONUTF8", "PYTHONHASHSEED", "PYTHONUNBUFFERED",
    # How much runs at once, and how: these change what is measured.
    "OMP_*", "MKL_*", "KMP_*", "CUBLAS_*", "CUDNN_*", "CUDA_*", "NCCL_*", "GLOO_*", "NVSHMEM_*", "TORCH_*",
    "TORCHINDUCTOR_*", "PYTORCH_*", "TRITON_*", "NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES", "NVIDIA_TF32_OVERRIDE",
    # Several processes finding each other.
    "MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE",
    # The place a cluster gave to the job.
    "SLURM_*",
    # What a container's own start-up set.
    "APPTAINER_CONTAINER", "APPTAINER_NAME", "SINGULARITY_CONTAINER", "SINGULARITY_NAME",
    # Our own.
    "SPEEDPROOF_*",
]  # fmt: skip

# Of those, the ones that say who submitted a job, from where, with what, and that no training needs.
_IDENTIFYING_VARIABLES = [
    "SLURM_JOB_USER", "SLURM_JOB_UID", "SLURM_JOB_GID", "SLURM_JOB_GROUP", "SLURM_JOB_ACCOUNT", "SLURM_JOB_COMMENT",
    "SLURM_SUBMIT_*", "SLURM_WORKING_CLUSTER", "SLURM_CLUSTER_NAME", "SLURM_CONF",
]  # fmt: skip
# In capitals, since a secret may be written either way.
_SECRET_VARIABLES = [
    "*SECRET*", "*TOKEN*", "*KEY*", "*PASS*", "*PWD*", "*CRED*", "*AUTH*", "*COOKIE*", "*JWT*", "*PRIVATE*",
]  # fmt: skip
# What reads like a secret and is none: InfiniBand's partition, by its index; what tokenizers use; working folders.
HARMLESS_VARIABLES = ["NCCL_IB_PKEY", "TOKENIZERS_PARALLELISM", "TIKTOKEN_CACHE_DIR", "PWD", "OLDPWD"]

_PATH = re.compile(r"(?<![\w.)\]>~/:])/(?:[\w.+@%~-]+/)+[\w.+@%~-]*")


class Identity(NamedTuple):
    """Names that identify this user or this machine."""

    hosts: tuple[str, ...]
    user: str
    home: str

    def without(self, words: Collection[str]) -> "Identity":
        """Return the same without names that are among `words`."""
        hosts = tuple(host for host in self.hosts if host not in words)
        return self._replace(hosts=hosts, user="" if self.user in words else self.user)


def profiled_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of `environ` under which a profiled process may start."""
    return {name: value for name, value in environ.items() if _is_allowed(name)}


@lru_cache(maxsize=1000)  # a proof asks of each variable for each variant, several times
def reads_like_secret(name: str, value: str) -> bool:
    """Return whether a variable's name, or what its value holds, reads like a secret: `HF_TOKEN`, `https://user:word@host`."""
    return _names_secret(name) or scrub_secrets(value) != value


def scrub_text(text: str, identity: Identity | None = None) -> str:
    """Return `text` without absolute paths, host names and the user's name; `identity` is this machine's unless given."""
    identity = identity or read_identity()
    text = _PATH.sub("<path>", text)
    for host in identity.hosts:
        text = re.sub(rf"(?<![\w-]){re.escape(host)}(?![\w-])", "<host>", text)
    if identity.home not in ("", "/"):
        text = text.replace(identity.home, "<home>")
    if identity.user not in ("", "root"):  # "root" names nobody, and is a word
        text = re.sub(rf"(?<![\w-]){re.escape(identity.user)}(?![\w-])", "<user>", text)
    return text


def shorten_paths(text: str) -> str:
    """Return `text` with the last part of each absolute path in its place: what a command runs, and not where that lies."""
    return _PATH.sub(lambda found: found[0].rstrip("/").rpartition("/")[2], text)


@cache
def read_identity() -> Identity:
    """Ask the system for its host names, the user's name and home.

    A name that is a word of ours, such as `epoch`, is left out: in our files it is that word, and names nobody. Folders that
    hold it are still reported, as all folders are.
    """
    host = socket.gethostname()
    names = sorted({host, host.split(".")[0]} - {"", "localhost"}, key=len, reverse=True)
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a user id without an account, as in many containers
        user = ""
    identity = Identity(tuple(names), user, str(Path("~").expanduser()))
    return identity.without({name for name in (*identity.hosts, user) if name and _is_our_word(name)})


def _is_our_word(name: str) -> bool:
    """Return whether a name stands, as a word, in what this package writes: in a text of its code, or as a field's name.

    What it tells to those who read the code, docstrings and comments, counts not.
    """
    for path in sorted(Path(__file__).parents[1].rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        if name in source and name in _find_words(ast.parse(source)):
            return True
    return False


def _find_words(code: ast.Module) -> set[str]:
    scopes = [
        node.body
        for node in ast.walk(code)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    docs = {id(body[0].value) for body in scopes if body and isinstance(body[0], ast.Expr)}
    words: set[str] = set()
    for node in ast.walk(code):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            words.update(re.findall(r"[\w-]+", node.value))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            words.add(node.target.id)
    return words


def read_texts(path: Path) -> str:
    """Return the text of a file; of a Parquet table, whose content is compressed, its distinct strings.

    Raises :class:`RecordError` of a table that is damaged.
    """
    if path.suffix != ".parquet":
        return path.read_text(encoding="utf-8")
    try:
        table = pq.read_table(path)
    except (pa.ArrowException, OSError) as error:  # which name no file
        why = " ".join(str(error).split())
        raise RecordError(f"{path}: not readable as Parquet ({why:.200}); get the file again, or leave its run out") from None
    texts: list[str] = []
    for column in table.columns:
        kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            texts += [value.as_py() or "" for value in column.unique()]
    return "\n".join(texts)


def _is_allowed(name: str) -> bool:
    refused = _matches(name.upper(), _IDENTIFYING_VARIABLES) or _names_secret(name)
    return _matches(name, ALLOWED_VARIABLES) and not refused


def _names_secret(name: str) -> bool:
    return _matches(name.upper(), _SECRET_VARIABLES) and name not in HARMLESS_VARIABLES


def _matches(name: str, patterns: list[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
