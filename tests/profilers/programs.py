"""Programs with NVTX ranges: compiled where a C compiler and NVTX's headers are, and run with the library."""

import importlib.util
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from speedproof.profilers.nvtx_library import MOST_VARIABLE, decode_name, injected_variables, read_ranges

HERE = Path(__file__).parent
needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler (cc) is here")


def find_headers():
    """NVTX's headers: CUDA's, or those of the package nvidia-nvtx."""
    spec = importlib.util.find_spec("nvidia")
    installed = [found for place in spec.submodule_search_locations for found in Path(place).glob("*/include")] if spec else []
    places = [*installed, *Path("/usr/local").glob("cuda*/include"), Path("/usr/include")]
    return next((place for place in places if (place / "nvtx3/nvToolsExt.h").is_file()), None)


needs_headers = pytest.mark.skipif(find_headers() is None, reason="no NVTX headers (nvtx3/nvToolsExt.h) are here")


def compile_program(folder, name, *flags):
    made = folder / name
    words = ["cc", "-std=gnu11", "-O1", "-I", str(find_headers()), *flags, "-o", str(made), str(HERE / "ranges.c"), "-ldl"]
    subprocess.run([*words, "-pthread"], check=True)
    return made


def run_injected(folder, command, names=("*",), most=None, status=0):
    """Run a command with the library; what each of its processes left, and what it printed."""
    folder.mkdir()
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("NVTX_", "NSYS_"))}
    variables = injected_variables(folder, list(names), environ) | ({} if most is None else {MOST_VARIABLE: str(most)})
    done = subprocess.run([str(word) for word in command], env={**environ, **variables}, capture_output=True, text=True)
    assert done.returncode == status, done.stderr
    left = read_ranges(folder)
    shutil.rmtree(folder)  # a million ranges are 128 MB
    return left, done.stdout


def names_of(process):
    return [decode_name(one["name"]) for one in process.records]
