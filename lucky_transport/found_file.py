"""Files that a search finds or that lie in a shared place: where is looked, and whose files are obeyed or removed.

Another user can put a file wherever it may write. So the search upwards ends where that begins, and a file is read only
when it belongs to this user or to root and nobody else may write it. A group counts as its owner alone when it has the
owner's number, as a user's private group does.
"""

from __future__ import annotations

import errno
import os
import pwd
import stat
from pathlib import Path
from typing import BinaryIO

from lucky_transport.errors import ConfigError


def working_directory() -> str:
    """Return the working directory; one that was removed has a name too, which leads nowhere."""
    return os.readlink("/proc/self/cwd")


def find_up(name: str, directory: Path | None = None) -> Path | None:
    """Return the nearest file `name`, from `directory` (the working one) upwards; None where there is none.

    The search ends at the home directory, at the root of a repository (`.git`), and below a directory that has another
    owner or that others may write.
    """
    # Strings, since a program may ask for each connection: paths take four times as long.
    home = os.path.realpath(os.path.expanduser("~"))
    try:
        here = os.getcwd() if directory is None else os.path.realpath(directory)
        while not os.path.exists(here):
            here = os.path.dirname(here)
        owner = os.stat(here).st_uid
        while not os.path.isfile(os.path.join(here, name)):
            parent = os.path.dirname(here)
            above = os.stat(parent)
            is_end = here in (home, parent) or os.path.lexists(os.path.join(here, ".git"))
            if is_end or above.st_uid != owner or _others_may_write(above):
                return None
            here = parent
    except OSError:  # a directory that is gone, or that this user may not enter
        return None
    return Path(here, name)


def open_found(path: Path) -> BinaryIO:
    """Return the file, open for reading, whosever it is: see `refusal`. Raises OSError."""
    # O_NONBLOCK: opening a FIFO would otherwise wait for its other end
    return open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK))


def refusal(path: Path, descriptor: int) -> ConfigError | None:
    """Return why the open file at `path` must not be obeyed; None where it may."""
    status, user = os.fstat(descriptor), os.geteuid()
    if stat.S_ISREG(status.st_mode) and status.st_uid in (user, 0) and not _others_may_write(status):
        return None
    return ConfigError(
        f"{path} belongs to {describe_user(status.st_uid)} and group {status.st_gid} with mode "
        f"{stat.S_IMODE(status.st_mode):04o}: obeyed is a regular file of {describe_user(user)} or of root that nobody "
        f"else may write",
        hint="remove it, or check what it says, then chown it and chmod go-w it",
    )


def describe_user(uid: int) -> str:
    """Return the user id with its name, as far as it has one."""
    try:
        return f"user {uid} ({pwd.getpwuid(uid).pw_name})"
    except KeyError:
        return f"user {uid} (no name)"


def remove_unused_socket(path: str) -> bool:
    """Remove the socket that an ended program left at `path`; False when a program listens there.

    Raises FileExistsError when what is there is no socket, OSError when it cannot be tried.
    """
    import socket  # the settings are read without it

    try:
        mode = os.lstat(path).st_mode
    except OSError:  # nothing there, or no such directory: binding says which
        return True
    if not stat.S_ISSOCK(mode):
        raise FileExistsError(errno.EEXIST, "a file that is no socket is there", path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as probe:
        probe.setblocking(False)
        error = probe.connect_ex(path)
    if error in (0, errno.EAGAIN):  # EAGAIN: more connect than it has accepted
        return False
    if error not in (errno.ECONNREFUSED, errno.ENOENT):
        raise OSError(error, os.strerror(error), path)
    Path(path).unlink(missing_ok=True)
    return True


def _others_may_write(status: os.stat_result) -> bool:
    is_own_group = status.st_gid == status.st_uid != 0
    return bool(status.st_mode & (stat.S_IWOTH if is_own_group else stat.S_IWOTH | stat.S_IWGRP))
