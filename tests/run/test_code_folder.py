"""Compiled code is read from a folder that nobody else may write to, or not at all."""

import os
import stat
from pathlib import Path

import pytest

from speedproof.run.caches import compile_cache
from speedproof.util.errors import ConfigError
from speedproof_spleen.config import check_config, load_config

ROOT = Path(__file__).parents[2]


@pytest.fixture
def folder(tmp_path):
    """The prepared folder; its parent is as a folder that many share."""
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o1777)
    return tmp_path / "shared/prepared"


@pytest.fixture(params=[0o022, 0o002, 0o077], ids=oct)
def umask(request):
    before = os.umask(request.param)
    yield
    os.umask(before)


def code_folder(folder):
    values = load_config(ROOT / "config.yaml").model_dump(mode="json")
    values["variants"]["turbo"]["prepared_folder"] = str(folder)
    with compile_cache(check_config(values).completed_variants["turbo"]) as variables:
        return Path(variables["TRITON_CACHE_DIR"])


def test_it_is_made_for_its_owner_alone_and_found_again(folder, umask):
    code = code_folder(folder)
    assert (code, stat.S_IMODE(code.stat().st_mode)) == (folder / "compiled", 0o700)
    (code / "kernel").mkdir()  # as the umask says
    (code / "kernel/launcher.so").write_bytes(b"")
    assert code_folder(folder) == code


@pytest.mark.parametrize("mode", [0o775, 0o757, 0o1777])
def test_a_folder_that_others_may_write_to_is_refused_and_the_advice_helps(folder, mode):
    folder.mkdir()
    folder.chmod(mode)
    with pytest.raises(ConfigError, match=r"prepared: others may write there, .*\(`chmod go-w`\), or name"):
        code_folder(folder)
    folder.chmod(mode & ~0o022)
    code_folder(folder)


def open_library(code):
    code.chmod(0o755)
    (code / "launcher.so").write_bytes(b"")
    (code / "launcher.so").chmod(0o666)


def link_away(code):
    code.rmdir()
    code.symlink_to("elsewhere")
    (code.parent / "elsewhere").mkdir()


@pytest.mark.parametrize("spoil", [lambda code: code.chmod(0o777), open_library, link_away], ids=["open", "library", "link"])
def test_code_that_others_could_write_is_refused_and_made_again_once_removed(folder, spoil):
    spoil(code_folder(folder))
    with pytest.raises(ConfigError, match=r"compiled: other users could write there; remove it; it is created again"):
        code_folder(folder)
    (folder / "compiled").rename(folder / "removed")
    code_folder(folder)


def test_another_users_folder_is_refused(folder, monkeypatch):
    code_folder(folder)
    os.chown(folder, 12345, -1) if os.geteuid() == 0 else monkeypatch.setattr("os.geteuid", lambda: 12345)
    with pytest.raises(ConfigError, match=r"prepared: others may write there"):
        code_folder(folder)
