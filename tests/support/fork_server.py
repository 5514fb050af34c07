"""The Python that programs are forks of: `python fork_server.py SOCKET FOLDER MODULE...` imports, and forks on request.

It has no thread. It says when it is ready. Each request is a JSON object with the descriptors of
`forked_programs.Programs`; the answer is a pid, and a word once the program is a child of who asked.
"""

import builtins
import fcntl
import gc
import importlib
import json
import os
import runpy
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

_LONGEST = 1 << 20
_MOST_DESCRIPTORS = 16


def _fork_on_request(requests: socket.socket) -> dict[str, Any] | None:
    """Fork a program for each request; return the request in the program, and None at the end of them.

    Who asks takes up orphans: the program, whose parent ends at once, is its child before it goes on.
    """
    requests.send(b"ready")
    while True:
        message, fds, _, _ = socket.recv_fds(requests, _LONGEST, _MOST_DESCRIPTORS)
        if not message:
            return None
        held, holds = os.pipe()
        if between := os.fork():
            os.waitpid(between, 0)
            for fd in (*fds, held, holds):
                os.close(fd)
            requests.send(b"done")
            continue
        if program := os.fork():
            requests.send(str(program).encode())
            os._exit(0)
        requests.close()
        os.close(holds)
        os.read(held, 1)
        os.close(held)
        request = json.loads(message)
        if request["session"]:
            os.setsid()
        _take(fds, (0, 1, 2, *request["passed"]))
        return request


def _take(fds: Sequence[int], places: Sequence[int]) -> None:
    """Move descriptors to these places."""
    above = max(*fds, *places) + 1
    aside = [fcntl.fcntl(fd, fcntl.F_DUPFD, above) for fd in fds]
    for fd in fds:
        os.close(fd)
    for fd, place in zip(aside, places, strict=True):
        os.dup2(fd, place)
        os.close(fd)


def _prepare(request: dict[str, Any], folder: str) -> str:
    """Make this process that of the program, up to its first line; return "-m", "-c" or, for a file, ""."""
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environ"])
    first, *rest = argv = request["argv"]
    kind = first if first in ("-m", "-c") else ""
    sys.orig_argv[:] = [sys.executable, *argv]
    sys.argv[:] = rest if kind == "-m" else [first, *rest[1:]] if kind else argv
    beside = {"-m": os.getcwd(), "-c": "", "": str(Path(first).parent)}[kind]
    sys.path[:1] = [beside, folder] if folder else [beside]
    if request["first"]:
        importlib.import_module(request["first"])
    return kind


def _run(kind: str, text: str) -> None:
    """Run a module, code or a file as the main program."""
    if kind == "-m":
        runpy.run_module(text, run_name="__main__", alter_sys=True)
        return
    main = ModuleType("__main__")
    vars(main)["__builtins__"] = builtins
    if not kind:
        vars(main)["__file__"] = text
    us, sys.modules["__main__"] = sys.modules["__main__"], main
    code = text if kind else Path(text).read_bytes()
    exec(compile(code, "<string>" if kind else text, "exec", dont_inherit=True), vars(main))
    del us  # until here it was needed


if __name__ == "__main__":
    for name in sys.argv[3:]:
        with suppress(ImportError):  # what is not installed, a program that needs it misses as it would
            importlib.import_module(name)
    gc.collect()
    gc.freeze()  # no program has what it shares copied
    found = _fork_on_request(socket.socket(fileno=int(sys.argv[1])))
    if found is not None:
        kind_of_program = _prepare(found, sys.argv[2])
        _run(kind_of_program, found["argv"][1 if kind_of_program else 0])
