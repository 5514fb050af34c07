"""Where a named pipe is: the path that a .NET program uses for the same name."""

from __future__ import annotations

import os

from lucky_transport.config import environment
from lucky_transport.errors import ConfigError

BACKEND = "pipe"

_PREFIX = "CoreFxPipe_"
#: `sockaddr_un` takes 108 bytes, the last one is 0.
_LONGEST_PATH = 107
_WINDOWS_PREFIX = "\\\\.\\pipe\\"


def path_of(name: str) -> str:
    r"""Return the path of the pipe called `name`, as .NET makes it.

        "train"                     $TMPDIR/CoreFxPipe_train, or /tmp/CoreFxPipe_train without TMPDIR
        "\\.\pipe\train"            the same; "\\.\pipe\/train" too: os.path.join puts a slash between prefix and name
        "/run/x.sock"               /run/x.sock: an absolute name is taken as it is

    Raises ConfigError for a name that makes no path: empty, with a slash inside, or too long for a socket.
    """
    bare = name.removeprefix(_WINDOWS_PREFIX)
    if bare != name:
        bare = bare.removeprefix("/")
    if not bare or "\0" in bare or ("/" in bare and not bare.startswith("/")):
        raise ConfigError(
            f"{name!r} is no name of a pipe", backend=BACKEND, hint="use a name without slashes, or an absolute path"
        )
    if bare.startswith("/"):
        path = bare
    else:
        path = os.path.join(environment().get("TMPDIR") or "/tmp", _PREFIX + bare)
    if len(os.fsencode(path)) > _LONGEST_PATH:
        raise ConfigError(
            f"pipe {name!r} would be the socket {path}, a path of more than {_LONGEST_PATH} bytes",
            backend=BACKEND,
            hint="use a shorter name, or set TMPDIR to a shorter path for both sides",
        )
    return path


def lock_path(path: str) -> str:
    """Return the lock file beside a pipe, by which one client at a time offers it."""
    return f"{path}.lock"
