"""What depends on the machine that builds: NumPy's headers, the tag of the wheel. All else is in pyproject.toml."""

import sysconfig

import numpy
from setuptools import setup
from setuptools.command.build_ext import build_ext

#: The native module needs this Python's limited API (`Py_LIMITED_API` in pyproject.toml), and runs on all newer ones.
#: Free-threaded Pythons have no stable ABI, and refuse its macro.
is_free_threaded = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
tag = {} if is_free_threaded else {"py_limited_api": "cp311"}


class BuildNative(build_ext):
    """Without the limited API where there is none."""

    def finalize_options(self):
        super().finalize_options()
        for extension in self.extensions if is_free_threaded else ():
            extension.py_limited_api, extension.define_macros = False, []


setup(include_dirs=[numpy.get_include()], options={"bdist_wheel": tag}, cmdclass={"build_ext": BuildNative})
