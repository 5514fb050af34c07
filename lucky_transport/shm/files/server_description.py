"""What a gRPC server in shared memory, or an engine, says of itself: a file beside its socket, for `ls`, `top` and
`inspect`.

The socket's lock says whether the server lives. The file is made when the server starts and removed with the socket.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

from lucky_transport.config import runtime_directories
from lucky_transport.errors import SegmentError, TransportError
from lucky_transport.nesting import json_object
from lucky_transport.shm.files import lockfile
from lucky_transport.shm.files.private_file import Make, open_private, remove_private
from lucky_transport.shm.files.socket_path import DESCRIPTION_SUFFIX, is_private_directory

_LONGEST = 1 << 20


class ServerDescription(NamedTuple):
    """A server at shm://name. methods: full names of those it lists.

    target: where gRPC serves the same, "" for nowhere. counts: the folder of its call counters, "" where none counts.
    is_relay: it carries all calls there.
    """

    name: str
    pid: int
    methods: tuple[str, ...] = ()
    target: str = ""
    counts: str = ""
    is_relay: bool = False


def describe(socket: Path, description: Mapping[str, Any]) -> None:
    """Write the file beside a socket. Raises OSError, SegmentError for a file that is not this user's alone."""
    path = f"{socket}{DESCRIPTION_SUFFIX}"
    with contextlib.suppress(FileNotFoundError):
        remove_private(path)
    fd = open_private(path, make=Make.ALWAYS)
    with open(fd, "w", encoding="utf-8") as file:
        json.dump(description, file)


def forget(socket: Path) -> None:
    """Remove the file beside a socket; nothing happens where there is none."""
    with contextlib.suppress(OSError, SegmentError):
        remove_private(f"{socket}{DESCRIPTION_SUFFIX}")


def description_of(socket: Path) -> ServerDescription | None:
    """Return what a server, which may be gone, said of itself beside that socket; None for nothing that can be read."""
    with contextlib.suppress(OSError, TransportError, TypeError, ValueError):
        return _server(_read(Path(f"{socket}{DESCRIPTION_SUFFIX}")))
    return None


def described() -> Iterator[tuple[Path, ServerDescription, int | None]]:
    """Yield what `descriptions` does of each gRPC server."""
    for socket, values, holder in descriptions():
        with contextlib.suppress(TypeError, ValueError):
            yield socket, _server(values), holder


def descriptions() -> Iterator[tuple[Path, dict[str, Any], int | None]]:
    """Yield socket, description and holder of the lock (see `lockfile.holder`) of each server and engine of this user.

    Files that cannot be read, or hold something else, are passed over.
    """
    for directory in runtime_directories():
        if not is_private_directory(directory):
            continue
        for path in sorted(directory.glob(f"*.sock{DESCRIPTION_SUFFIX}")):
            with contextlib.suppress(OSError, TransportError, ValueError):
                socket = path.with_suffix("")
                yield socket, _read(path), lockfile.holder(f"{socket}.lock", lockfile.ENGINE)


def _read(path: Path) -> dict[str, Any]:
    fd = open_private(path, writes=False)
    try:
        return json_object(os.read(fd, _LONGEST).decode(), str(path))
    finally:
        os.close(fd)


def _server(values: Mapping[str, Any]) -> ServerDescription:
    name, pid, methods, target, counts, is_relay = map(values.get, ServerDescription._fields)
    if not isinstance(methods, list) or not isinstance(pid, int):
        raise ValueError("no server")
    listed = tuple(map(str, cast("list[Any]", methods)))
    return ServerDescription(str(name), pid, listed, str(target), str(counts), is_relay is True)
