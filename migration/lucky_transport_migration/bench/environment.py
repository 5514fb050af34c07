"""What a figure depends on beside the code: machine, kernel, versions.

Nothing that names a person, a host or a path is captured; a report can be passed on as it is. What cannot be read is
None, never guessed.
"""

from __future__ import annotations

import os
import platform
import sys
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from lucky_transport_migration.evidence.lines import git

_PACKAGES = (
    "lucky-transport",
    "numpy",
    "gymnasium",
    "flatbuffers",
    "grpcio",
    "protobuf",
    "mujoco",
    "hdrhistogram",
    "matplotlib",
    "luckyrobots",
)


def capture() -> dict[str, Any]:
    """Return the environment as JSON values."""
    import lucky_transport

    lines = (_read("/proc/cpuinfo") or "").splitlines()
    cpu = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    package = Path(lucky_transport.__file__).parent
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        "cpu": cpu.get("model name") or platform.processor() or None,
        "cores": os.cpu_count(),
        "usable_cores": len(os.sched_getaffinity(0)),
        "smt": _read("/sys/devices/system/cpu/smt/active"),
        "governor": _read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        # x86 says so in its CPU flags, other machines do not tell
        "virtual_machine": "hypervisor" in cpu["flags"].split() if "flags" in cpu else None,
        "machine": platform.machine(),
        "kernel": platform.release(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 2),
        "load_1min": round(os.getloadavg()[0], 2),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "switch_interval_s": sys.getswitchinterval(),
        "versions": {name: found for name in _PACKAGES if (found := _version(name))},
        # installed into another project's checkout it is not a checkout of it
        "git": checkout(package) if git(package, "ls-files", "__init__.py") else None,
    }


def _read(path: str) -> str | None:
    try:
        return Path(path).read_text().strip() or None
    except OSError:
        return None


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def checkout(directory: Path) -> str | None:
    """Return the commit of the checkout that holds `directory`, marked when files were changed; None outside one."""
    commit = git(directory, "rev-parse", "--short=12", "HEAD")
    return f"{commit} with changes" if commit and git(directory, "status", "--porcelain", "-uno") else commit
