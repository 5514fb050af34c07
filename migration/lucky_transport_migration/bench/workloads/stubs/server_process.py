"""The server process of a pair, as its client sees it: started, awaited and ended without a trace."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

from lucky_transport.errors import NotReachable
from lucky_transport_migration.bench.workloads.stubs.variants import free_address

__all__ = ["ServerProcess"]

_PROGRAM = "lucky_transport_migration.bench.workloads.stubs.server_program"
_GRACE_S = 10.0


class ServerProcess:
    """A running server of `path`; `target` is ready when the constructor returns.

    Raises NotReachable when the process ends before it is ready; what it wrote is on our stderr then.
    """

    def __init__(self, path: str, item_bytes: int, *, aio: bool = False) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="lucky_bench_")
        address = free_address(path, Path(self._directory.name))
        flavour = "asyncio" if aio else "sync"
        command = [sys.executable, "-m", _PROGRAM, path, flavour, address, str(item_bytes)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.pid = self._process.pid
        assert self._process.stdout is not None
        word, _, self.target = self._process.stdout.readline().decode().strip().partition(" ")
        if word != "ready":
            self.stop()
            raise NotReachable(f"the server over {path} ended before it was ready", backend=path)

    def stop(self) -> None:
        """End the process; idempotent."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        try:
            self._process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._directory.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
