"""Checks of the system: interpreter, kernel, CPUs, limits, the CUDA driver, what containers share.

Nothing here imports NumPy: these checks run where the installation is broken.
"""

from __future__ import annotations

import os
import platform
import resource
import stat
import sys

from lucky_transport.config import load_settings, runtime_directories
from lucky_transport.cuda import libcuda
from lucky_transport.diagnosis.check import Check, CheckStatus, Roots
from lucky_transport.endpoint import Endpoint
from lucky_transport.errors import ConfigError, DeviceError, plural
from lucky_transport.foreign_code import import_problem

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
    why = import_problem("torch")
    torch = f"PyTorch cannot be imported: {why}" if why else "PyTorch is installed"
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


#: The one row of /proc/self/uid_map outside of any user namespace.
_IDENTITY = (0, 0, 0xFFFFFFFF)


def user_mapping(roots: Roots) -> Check:
    """Who this process is outside of its user namespace; both ends of a segment must be one user there."""
    name = "user mapping"
    rows = [tuple(map(int, line.split())) for line in (roots.proc / "self" / "uid_map").read_text().splitlines()]
    user = os.geteuid()
    if rows == [_IDENTITY]:
        return Check(name, CheckStatus.OK, f"user id {user}, no user namespace")
    for inside, outside, count in rows:
        if inside <= user < inside + count:
            return Check(
                name, CheckStatus.OK, f"user id {user} is {user - inside + outside} outside this user namespace"
            )
    return Check(
        name,
        CheckStatus.FAIL,
        f"user id {user} has no id outside this user namespace: others' files belong to nobody, ours cannot be made",
        "run as a user that the container maps: podman run --userns=keep-id, docker run --user",
    )


def runtime_directory(roots: Roots) -> Check:
    """Where the sockets for commands and stub channels lie, and whether this user alone can enter."""
    from lucky_transport.shm.files.socket_path import is_private_directory

    name = "runtime directory"
    for directory in runtime_directories():
        try:
            status = directory.lstat()
        except FileNotFoundError:
            continue
        if is_private_directory(directory):
            return Check(name, CheckStatus.OK, f"{directory}; containers that share engines share it, too")
        mode = stat.S_IMODE(status.st_mode)
        return Check(
            name,
            CheckStatus.FAIL,
            f"{directory} belongs to user id {status.st_uid}, mode {mode:04o}: only your own, mode 0700, is used",
            f"remove it or run `chmod 700 {directory}`; in a container run as the user id of the other side",
        )
    return Check(name, CheckStatus.OK, f"{runtime_directories()[0]}, made by the first engine")


def engines(roots: Roots) -> Check:
    """The living engines, and what keeps this process from some of them: a signal, or what is not shared."""
    from lucky_transport.shm.files.socket_path import live_socket
    from lucky_transport.shm.segment import segment_files

    name = "engines"
    living = [one for one in segment_files.find(roots.shm) if not one.stale]
    elsewhere = [one.name for one in living if "another pid namespace" in one.engine]
    seen = plural(len(living), "living engine")
    if elsewhere:
        seen += f", in other containers: {', '.join(elsewhere)}"
    others = segment_files.of_other_users(roots.shm)
    problems = {
        ("stopped", "let it go on: `kill -CONT` of that pid"): [
            f"{one.name} ({one.engine})" for one in living if one.stopped
        ],
        (f"not in {roots.shm}, but listening", f"share {roots.shm}: --ipc=container:NAME"): _unseen(roots),
        ("out of reach for commands", f"share the runtime directory, {runtime_directories()[0]}"): [
            one for one in elsewhere if live_socket(one) is None
        ],
        ("of other users, so out of reach", 'run both sides as one user: docker run --user "$(id -u):$(id -g)"'): [
            f"{found} (user id {owner})" for found, owner in others.items()
        ],
    }
    found = {key: names for key, names in problems.items() if names}
    seen = "; ".join((seen, *(f"{what}: {', '.join(names)}" for (what, _), names in found.items())))
    return Check(name, CheckStatus.WARN if found else CheckStatus.OK, seen, "; ".join(remedy for _, remedy in found))


def _unseen(roots: Roots) -> list[str]:
    """Return the segments of engines that tell of themselves in our runtime directory and have no file here."""
    from lucky_transport.control import engines

    places = [Endpoint.parse(one) for engine in engines() for one in engine.endpoints]
    return [one.address for one in places if one.scheme == "shm" and not (roots.shm / one.address).exists()]
