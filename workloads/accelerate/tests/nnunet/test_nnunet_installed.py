"""Modules that need nnU-Net skip themselves. This fails instead if SPEEDPROOF_REQUIRE names `nnunet`, as in CI."""

from importlib.util import find_spec

from tests.support import require


def test_nnunet_is_installed_if_its_tests_have_to_run():
    require("nnunet", find_spec("nnunetv2") is not None, "nnU-Net is not installed: make nnunet")
