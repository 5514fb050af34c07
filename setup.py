"""What depends on the machine that builds: NumPy's headers, the tag of the wheel. All else is in pyproject.toml."""

from __future__ import annotations

import sysconfig
from pathlib import Path

import numpy
from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

#: The native module needs this Python's limited API (`Py_LIMITED_API` in pyproject.toml), and runs on all newer ones.
_STABLE_ABI = "cp311"


class BuildExt(build_ext):
    """Compiles against NumPy's headers."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.include_dirs.append(numpy.get_include())


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


setup(cmdclass={"bdist_wheel": BdistWheel, "build_ext": BuildExt})
