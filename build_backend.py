"""The build backend: setuptools', which asks for ziglang, a C compiler in a wheel, where no other compiler answers."""

import importlib.util
import os
import shlex
import subprocess
import sysconfig
import tempfile

from setuptools import build_meta
from setuptools.build_meta import *  # noqa: F403 (the hooks that compile nothing)


def compiler_answers():
    """Whether the compiler that setuptools would take is there, with the C library's headers."""
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    try:
        done = subprocess.run([*compiler, "-E", "-xc", "-"], input=b"#include <stdlib.h>", capture_output=True)
    except OSError:
        return False
    return done.returncode == 0


def get_requires_for_build_wheel(config_settings=None):
    return build_meta.get_requires_for_build_wheel(config_settings) + ([] if compiler_answers() else ["ziglang"])


def build_wheel(*args, build=build_meta.build_wheel):
    if compiler_answers():
        return build(*args)
    if (found := importlib.util.find_spec("ziglang")) is None:
        raise SystemExit("no C compiler answers: install gcc or clang, or ziglang into this environment")
    zig = shlex.join([f"{found.submodule_search_locations[0]}/zig", "cc", "-mcpu=baseline"])  # no newer CPU's code
    with tempfile.TemporaryDirectory() as cache:
        os.environ |= {"CC": zig, "CFLAGS": "-O3 -g0", "LDSHARED": f"{zig} -shared -s"}
        os.environ |= {"ZIG_GLOBAL_CACHE_DIR": cache, "ZIG_LOCAL_CACHE_DIR": cache}
        return build(*args)


def build_editable(*args):
    return build_wheel(*args, build=build_meta.build_editable)


get_requires_for_build_editable = get_requires_for_build_wheel
