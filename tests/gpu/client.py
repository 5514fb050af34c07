"""A client that holds a view of an engine's device memory until it is killed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from lucky_transport import api
from lucky_transport.cuda import libcuda
from lucky_transport.process import python_command
from tests.support.fake_cuda import FakeTorch

__all__ = ["client_program"]


@contextmanager
def client_program(library: str, endpoint: str, *, is_real: bool) -> Iterator[subprocess.Popen[str]]:
    """Start it; it holds a view. It has ended afterwards."""
    command = python_command(__name__, library, endpoint, "real" if is_real else "")
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True) as program:
        try:
            assert program.stdout is not None
            assert program.stdout.readline() == "holds\n"
            yield program
        finally:
            program.kill()


def main(library: str, endpoint: str, is_real: str) -> None:
    """Be that client."""
    if not is_real:
        libcuda.LIBRARY = library
        sys.modules["torch"] = FakeTorch()  # pyright: ignore[reportArgumentType]
    env = api.make(endpoint=endpoint, copy=False)
    env.reset(seed=4)
    view = env.observations_torch("cuda")
    print("holds", flush=True)
    sys.stdin.read()
    del view


if __name__ == "__main__":
    main(*sys.argv[1:])
