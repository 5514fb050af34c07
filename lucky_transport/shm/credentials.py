"""Who is at the other end of a unix socket, by the kernel's word.

Rule 1: only this user's own processes may use an engine through shared memory.
Rule 2: the pidfd comes from the socket where the kernel has that (6.5 on); a pid alone may be reused.
"""

from __future__ import annotations

import os
import socket
import struct

from lucky_transport.errors import RemoteProtocolError
from lucky_transport.shm.liveness import Peer

__all__ = ["peer_of"]

_SO_PEERPIDFD = 77
_UCRED = struct.Struct("iII")


def peer_of(connection: socket.socket) -> Peer:
    """Return the process that connected (or listens); the caller closes it.

    `pidfd` is -1 for a process that we cannot see (another pid namespace); then only the socket tells its end.
    Raises RemoteProtocolError for another user's process.
    """
    pid, uid, _ = _UCRED.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))
    if uid != os.getuid():
        raise RemoteProtocolError(f"process {pid} belongs to user {uid}, not to {os.getuid()}", backend="shm")
    try:
        return Peer.holding(pid, connection.getsockopt(socket.SOL_SOCKET, _SO_PEERPIDFD))
    except OSError:
        return Peer(pid)
