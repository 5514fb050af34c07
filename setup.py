"""What depends on the machine that builds: NumPy's headers, the tag of the wheel. All else is in pyproject.toml."""

import sysconfig

import numpy
from setuptools import setup

#: The native module needs this Python's limited API (`Py_LIMITED_API` in pyproject.toml), and runs on all newer ones.
#: Free-threaded Pythons have no stable ABI.
tag = {} if sysconfig.get_config_var("Py_GIL_DISABLED") else {"py_limited_api": "cp311"}

setup(include_dirs=[numpy.get_include()], options={"bdist_wheel": tag})
