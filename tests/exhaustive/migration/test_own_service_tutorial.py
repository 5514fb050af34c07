"""The tutorial of a service of one's own, typed as it stands: each run gives one total, and the page can be signed."""

from __future__ import annotations

import json
import re
import shlex
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from lucky_transport.process import unique_name
from tests.support.pages import DOCS, Block, blocks, shell_lines
from tests.support.waiting import PATIENCE_S

for _needed in ("grpc", "grpc_tools", "tomlkit", "libcst", "jinja2"):
    pytest.importorskip(_needed, reason="needs pip install 'lucky-transport[migration,dev]'")

TUTORIAL = DOCS / "tutorials" / "your-own-service.md"


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


class Terminals:
    """The reader's terminals in `folder`: what is saved there, the server that runs, and what the commands print."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.printed: list[str] = []
        self._folder, self._stack = folder, stack
        self._names = {"50071": str(_free_port()), "shm://weather": f"shm://{unique_name()}"}

    def do(self, block: Block) -> None:
        """Save the file that a block is, or type its lines."""
        if block.title:
            with (self._folder / block.title).open("a", encoding="utf-8") as file:  # `[gate]` is added to what is there
                file.write(self._renamed(block.text))
        elif block.language == "sh":
            for line in shell_lines(block.text):
                if not line.startswith("pip"):
                    self._type(line)

    def _type(self, line: str) -> None:
        program, *arguments = shlex.split(self._renamed(line))
        words = ["-m", "lucky_transport", *arguments] if program == "lucky-transport" else arguments
        command = [sys.executable if word == "python" else word for word in ("python", *words)]
        if line.endswith("python server.py"):
            self._serve(command)
            return
        done = subprocess.run(
            command, cwd=self._folder, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
        # on a machine that does other work the page may name the latency, or calls that were not looked at
        assert done.returncode in ((0, 1) if "signoff" in line else (0,)), f"{line}\n{done.stdout}{done.stderr}"
        self.printed += done.stdout.splitlines()

    def _serve(self, command: list[str]) -> None:
        server = self._stack.enter_context(
            subprocess.Popen(command, cwd=self._folder, stdout=subprocess.PIPE, text=True)
        )
        self._stack.callback(server.terminate)
        assert server.stdout is not None
        assert server.stdout.readline() == "ready\n"

    def _renamed(self, text: str) -> str:
        for shown, mine in self._names.items():
            text = text.replace(shown, mine)
        return text


def shown_calls() -> list[str]:
    """The calls of the server as the page shows them."""
    (text,) = (one.text for one in blocks(TUTORIAL) if one.text.startswith("Methods and calls"))
    return text.splitlines()


def test_a_service_of_ones_own_comes_to_the_page_to_sign(tmp_path: Path) -> None:
    with ExitStack() as stack:
        terminals = Terminals(tmp_path, stack)
        for block in blocks(TUTORIAL):
            terminals.do(block)
    totals = [line for line in terminals.printed if re.fullmatch(r"total [\d.]+", line)]
    assert totals == ["total 14175.0"] * 4
    assert set(shown_calls()) <= set(terminals.printed)
    assert any(line.startswith("/weather.v1.Weather/GetForecast: complete -> ") for line in terminals.printed)
    page = json.loads((tmp_path / "lucky-report" / "signoff.json").read_text())
    (method,) = page["methods"]
    assert method["verdict"] == "COMPLETE"
    assert (method["different"], method["failed"]) == (0, 0)
    assert method["compared"] > 0
    assert page["programs"][0]["command"][1:] == ["client.py"]
