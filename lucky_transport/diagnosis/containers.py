"""Checks of what containers share, or do not: user ids, the runtime directory, engines in other namespaces."""

from __future__ import annotations

import contextlib
import os
import stat

from lucky_transport.config import runtime_directories
from lucky_transport.diagnosis.check import Check, CheckStatus, Roots
from lucky_transport.errors import TransportError, plural

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
    """Return the engines of other containers that listen in our runtime directory and have no segment here.

    One of this pid namespace is a server of stubs alone, which has none anywhere.
    """
    from lucky_transport.shm.files import lockfile

    locks = [path for directory in runtime_directories() for path in sorted(directory.glob("*.sock.lock"))]
    found: list[str] = []
    for path in locks:
        name = path.name.removesuffix(".sock.lock")
        with contextlib.suppress(TransportError):  # a lock file that is not ours
            if lockfile.holder(str(path), lockfile.ENGINE) == 0 and not (roots.shm / name).exists():
                found.append(name)
    return found
