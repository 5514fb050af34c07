"""A measuring process of its own: started, given its job, awaited, and its last words told when it fails."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

from lucky_transport.errors import NotReachable, PeerTimeout

__all__ = ["run_client"]

_LAST_LINES = 12


def run_client(command: Sequence[str], what: str, limit_s: float, stdin: bytes = b"") -> bytes:
    """Run a client program to its end and return what it wrote to stdout; `what` names its work in an error.

    Raises NotReachable with its last words when it fails, PeerTimeout when it takes longer than `limit_s`.
    """
    try:
        done = subprocess.run(command, input=stdin, capture_output=True, timeout=limit_s)
    except subprocess.TimeoutExpired as error:
        raise PeerTimeout(f"{what}: the client did not end within {limit_s:.0f} s") from error
    if done.returncode:
        words = "\n  ".join(done.stderr.decode(errors="replace").splitlines()[-_LAST_LINES:])
        raise NotReachable(f"{what}: the client failed with exit status {done.returncode}\n  {words}")
    return done.stdout
