"""Checks of the system: interpreter, kernel, CPUs, limits, the CUDA driver.

Nothing here imports NumPy: these checks run where the installation is broken.
"""

from __future__ import annotations

import os
import platform
import resource
import sys
from importlib import util

from lucky_transport.config import load_settings
from lucky_transport.cuda import libcuda
from lucky_transport.diagnosis.check import Check, CheckStatus, Roots
from lucky_transport.errors import ConfigError, DeviceError

#: An engine with shm and gRPC endpoints holds some twenty descriptors; a trainer with 64 gRPC channels some hundred.
_FEW_FILES = 256


def interpreter(roots: Roots) -> Check:
    """Python itself: shared memory is little-endian and 64 bit."""
    bits = 64 if sys.maxsize > 2**32 else 32
    seen = f"{platform.python_implementation()} {platform.python_version()}, {bits} bit, {sys.byteorder}-endian"
    if bits == 64 and sys.byteorder == "little":
        return Check("python", CheckStatus.OK, seen)
    return Check("python", CheckStatus.FAIL, seen, "use a 64-bit little-endian Python; segments have that form")


def kernel(roots: Roots) -> Check:
    """The operating system: shared memory needs Linux."""
    seen = f"{platform.system()} {platform.release()}, {platform.machine()}"
    if platform.system() == "Linux":
        return Check("system", CheckStatus.OK, seen)
    return Check("system", CheckStatus.WARN, seen, "shared memory needs Linux; use the grpc transport here")


def pidfd(roots: Roots) -> Check:
    """Whether the death of another process can be noticed at once."""
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (OSError, AttributeError) as error:
        return Check(
            "pidfd",
            CheckStatus.FAIL,
            f"pidfd_open does not work ({error}): a peer's death may be noticed late while a fork keeps its socket",
            "use Linux 5.3 or newer, and a sandbox that allows pidfd_open (Docker: a current seccomp profile)",
        )
    return Check("pidfd", CheckStatus.OK, "a peer's death is noticed at once")


def cpus(roots: Roots) -> Check:
    """How many CPUs there are for client and engine; spinning needs one for each side."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    seen = f"{count} usable"
    if count > 2:
        return Check("cpus", CheckStatus.OK, seen)
    meaning = (
        "two spinning sides would take both, with none left for anything else"
        if count > 1
        else "a spinning side would burn the very time that the other one needs"
    )
    if _configured_wait() == "spin":
        return Check("cpus", CheckStatus.WARN, f"{seen}; {meaning}", "unset LUCKY_WAIT (adaptive is the default)")
    return Check("cpus", CheckStatus.OK, f"{seen}; do not use wait=spin here: {meaning}")


def _configured_wait() -> str:
    try:
        return load_settings().wait
    except ConfigError:  # the check of the settings reports it
        return ""


def open_files(roots: Roots) -> Check:
    """How many descriptors a process may hold."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    shown = ["unlimited" if limit == resource.RLIM_INFINITY else str(limit) for limit in (soft, hard)]
    seen = f"soft limit {shown[0]}, hard limit {shown[1]}"
    if soft == resource.RLIM_INFINITY or soft >= _FEW_FILES:
        return Check("open files", CheckStatus.OK, seen)
    return Check("open files", CheckStatus.WARN, seen, "run `ulimit -n 1024` before the program")


def settings(roots: Roots) -> Check:
    """The settings in force, from environment and configuration files."""
    try:
        loaded = load_settings()
    except ConfigError as error:
        return Check("settings", CheckStatus.FAIL, str(error).removesuffix(f"; {error.hint}"), error.hint)
    changed = [f"{key} = {getattr(loaded, key)!r} ({source})" for key, source in loaded.sources.items()]
    return Check("settings", CheckStatus.OK, ", ".join(changed) or "all at their defaults")


def cuda_driver(roots: Roots) -> Check:
    """Whether there is a CUDA driver, which `env.observations_torch("cuda")` and engines with device memory need, and
    which devices it sees; without one everything else works.
    """
    name = "gpu"
    torch = "PyTorch is installed" if util.find_spec("torch") else "PyTorch is not installed"
    try:
        driver = libcuda.load_driver()
    except DeviceError as error:
        seen = str(error).removesuffix(f"; {error.hint}")
        if not (roots.proc / "driver" / "nvidia").is_dir():
            return Check(name, CheckStatus.OK, f"{seen}: tensors are on the CPU; {torch}")
        return Check(
            name, CheckStatus.WARN, f"{seen}; {torch}", error.hint or "see `nvidia-smi`; 'cpu' needs no driver"
        )
    devices = ", ".join(f"{one.ordinal}: {one.name} ({one.uuid.hex()})" for one in driver.devices())
    return Check(name, CheckStatus.OK, f"CUDA driver for {driver.version}, devices {devices}; {torch}")
