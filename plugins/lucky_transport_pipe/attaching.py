"""The engine's half of finding each other: it comes to the pipe that a client offers.

An engine may be there first; it looks until there is a pipe. What a killed client left at the pipe's place is removed
by the process that notices.
"""

from __future__ import annotations

import contextlib
import os
import socket

from lucky_transport.shm import lockfile
from lucky_transport.shm.liveness import peer_of
from lucky_transport_pipe.address import lock_path, remove_socket
from lucky_transport_pipe.duplex import SocketDuplex

__all__ = ["remove_left_over", "try_attach"]


def try_attach(path: str) -> SocketDuplex | None:
    """Return a connection to the client that offers the pipe at `path`, None while there is none.

    Raises RemoteProtocolError when another user's process offers it, OSError for a place that cannot be used at all.
    """
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        connection.setblocking(False)
        connection.connect(path)
        with contextlib.closing(peer_of(connection)) as peer:
            return SocketDuplex(connection, f"pipe client of pid {peer.pid}")
    except (FileNotFoundError, ConnectionRefusedError, BlockingIOError) as error:
        connection.close()
        if isinstance(error, ConnectionRefusedError):
            remove_left_over(path)
        return None
    except BaseException:
        connection.close()
        raise


def remove_left_over(path: str) -> None:
    """Remove the socket and the lock file of a client that was killed; a living one's are never touched."""
    lock = lock_path(path)
    if not os.path.exists(lock):
        return
    with contextlib.suppress(OSError):
        if not lockfile.acquire(lock, lockfile.CLIENT):
            return
        try:
            remove_socket(path)
        finally:
            lockfile.release(lock, lockfile.CLIENT, unlink=True)
