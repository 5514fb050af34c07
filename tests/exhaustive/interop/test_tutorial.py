"""The tutorial, typed as it stands: the program gives one number over gRPC, over shared memory, and without gRPC."""

from __future__ import annotations

import os
import re
import shlex
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from lucky_transport.process import EngineProcess, unique_name
from tests.support.pages import DOCS, blocks, shell_lines

TUTORIAL = DOCS / "tutorials" / "first-ten-minutes.md"

#: Commands of the page that other tests run; here they would only cost time.
ELSEWHERE = ("pip", "lucky-transport doctor", "lucky-transport demo", "lucky-transport parity")


def _is_free(port: int) -> bool:
    with socket.socket() as found:
        return found.connect_ex(("127.0.0.1", port)) != 0


class Terminals:
    """The reader's terminals: a folder, engines that run, and what the commands print."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.printed: list[str] = []
        self._folder, self._stack = folder, stack
        self._name = unique_name()
        self._engines: dict[str, EngineProcess] = {}

    def type(self, line: str) -> None:
        program, *arguments = shlex.split(line.replace("shm://demo", f"shm://{self._name}"))
        if arguments[0] == "serve":
            self._serve(*arguments[1:])
            return
        command = [program, *arguments] if program == "python" else ["python", "-m", "lucky_transport", *arguments]
        ended = subprocess.run(
            [sys.executable if word == "python" else word for word in command],
            cwd=self._folder,
            env=dict(os.environ),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert ended.returncode == 0, f"{line}\n{ended.stdout}{ended.stderr}"
        self.printed += ended.stdout.splitlines()

    def _serve(self, engine: str, *options: str) -> None:
        named = dict(zip(options[::2], options[1::2], strict=True))
        endpoint = named["--endpoint"]
        if endpoint in self._engines:  # Ctrl-C, and the same line again
            self._engines[endpoint].stop()
        self._engines[endpoint] = EngineProcess(engine, [endpoint], seed=int(named["--seed"]))
        self._stack.callback(self._engines[endpoint].stop)


@pytest.mark.only_over_grpc("the tutorial starts the launcher itself")
def test_the_tutorial_moves_a_program_off_grpc_without_changing_what_it_computes(lucky: Any, tmp_path: Path) -> None:
    if not _is_free(50051):
        pytest.skip("port 50051, luckyrobots' default, is taken on this machine")
    (program,) = (block for block in blocks(TUTORIAL, "python") if block.title)
    (tmp_path / program.title).write_text(program.text, encoding="utf-8")
    with ExitStack() as stack:
        terminals = Terminals(tmp_path, stack)
        for block in blocks(TUTORIAL, "sh"):
            for line in shell_lines(block.text):
                if not line.startswith(ELSEWHERE):
                    terminals.type(line)
    returns = re.findall(r"^500 steps in .* s, return (\S+)$", "\n".join(terminals.printed), re.MULTILINE)
    assert len(returns) == 3
    assert len(set(returns)) == 1, returns
    assert "luckyrobots" not in (tmp_path / program.title).read_text(encoding="utf-8")
    assert terminals.printed[-1] == "Nothing of gRPC is left in 1 file."
