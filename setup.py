"""The tag of the wheel, which depends on what the build gave; everything else is in pyproject.toml."""

from __future__ import annotations

import sysconfig
from pathlib import Path

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel

#: The native module needs this Python's limited API (`Py_LIMITED_API` in pyproject.toml), and runs on all newer ones.
_STABLE_ABI = "cp311"


class BdistWheel(bdist_wheel):
    """Tags a wheel with the native module cp311-abi3, and one without it, built without a compiler, py3-none-any."""

    def finalize_options(self) -> None:
        if not sysconfig.get_config_var("Py_GIL_DISABLED"):  # free-threaded Pythons have no stable ABI
            self.py_limited_api = _STABLE_ABI
        super().finalize_options()

    def run(self) -> None:
        if not self.skip_build:
            self.run_command("build")
        built = [Path(path) for path in self.get_finalized_command("build_ext").get_outputs()]
        if not any(path.is_file() for path in built):
            self.distribution.ext_modules = []
            self.root_is_pure = True
        super().run()


setup(cmdclass={"bdist_wheel": BdistWheel})
