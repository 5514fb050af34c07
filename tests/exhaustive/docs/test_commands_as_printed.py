"""README and the tutorials, typed as they are printed: from the top, in one shell, with a terminal for what goes on."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import socket
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from lucky_transport.shm.files.socket_path import live_socket
from tests.support.pages import DOCS, README, ROOT, Block, blocks, name_of
from tests.support.terminal import Terminal

for _needed in ("grpc", "grpc_tools", "mujoco", "matplotlib", "tomlkit", "libcst"):
    pytest.importorskip(_needed, reason="needs pip install 'lucky-transport[all,dev]'")

FIRST = DOCS / "tutorials" / "first-ten-minutes.md"
OWN_SERVICE = DOCS / "tutorials" / "your-own-service.md"

#: What is not typed here: it makes the environment in which these tests run. `.ci/run` types README's first two.
INSTALLATIONS = {
    README: [
        "pip install -e '.[all]' && lucky-transport demo",
        "pip install -e '.[all,dev]' && python -m pytest -n 4 --dist loadfile",
        "pip install luckyrobots==0.5.0",
    ],
    FIRST: ["pip install -e '.[all]' luckyrobots==0.5.0"],
    OWN_SERVICE: ["pip install grpcio-tools"],
}

#: What goes on until Ctrl-C.
_SERVES = re.compile(r"lucky-transport serve |.* python server\.py$")

_HAS_LUCKYROBOTS = importlib.util.find_spec("luckyrobots") is not None


def printed_lines(page: Path) -> list[str]:
    return [line for block in blocks(page, "sh") for line in lines_of(block)]


def lines_of(block: Block) -> list[str]:
    """The lines that a reader types: one that ends with a backslash goes on in the next."""
    return re.split(r"(?<!\\)\n", block.text.strip())


class Reader:
    """What a reader has who types a page: a folder, a shell, a terminal for each command that goes on."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder = folder
        self.printed: list[str] = []
        self.left_out: list[str] = []
        self._stack = stack
        self._shell = stack.enter_context(Terminal(folder))
        self._serving: dict[str, Terminal] = {}

    def do(self, block: Block) -> None:
        """Save the file that a block is, or type its lines."""
        if block.title:
            with (self.folder / block.title).open("a", encoding="utf-8") as file:  # one is added to what is there
                file.write(block.text)
        elif block.language == "sh":
            for line in lines_of(block):
                if line not in INSTALLATIONS[block.page]:
                    self._type(line)

    def stop(self, line: str) -> None:
        """Type Ctrl-C where this goes on."""
        status, printed = self._serving.pop(line).interrupt()
        assert status == 0 or "python server.py" in line, f"{line}\n{printed}"

    def stop_all(self) -> None:
        for line in list(self._serving):
            self.stop(line)

    def _type(self, line: str) -> None:
        if _SERVES.match(line):
            if line in self._serving:
                self.stop(line)
            self._serving[line] = self._stack.enter_context(Terminal(self.folder))
            self._serving[line].start(line, says="ready")
        elif self._needs_luckyrobots(line) and not _HAS_LUCKYROBOTS:
            self.left_out.append(line)
        else:
            status, printed = self._shell.type(line)
            # on a machine that does other work the page to sign may name the latency, or calls that were not looked at
            assert status in ((0, 1) if "signoff" in line else (0,)), f"{line}\n{printed}"
            self.printed += printed.splitlines()

    def _needs_luckyrobots(self, line: str) -> bool:
        found = re.search(r"python (\S+\.py)", line)
        return found is not None and "luckyrobots import" in (self.folder / found[1]).read_text(encoding="utf-8")


def clone_of_the_reader(folder: Path) -> None:
    """What README's commands use of a clone, and a program of the reader's that uses `make`."""
    example = Path("migration", "example")
    shutil.copytree(ROOT / example, folder / example, ignore=shutil.ignore_patterns("__pycache__"))
    program = next(block for block in blocks(README, "python") if "lucky_transport.make(" in block.text)
    (folder / "train.py").write_text(program.text, encoding="utf-8")


def the_program_trains_and_leaves_nothing(reader: Reader) -> None:
    if _HAS_LUCKYROBOTS:
        assert any(line.startswith('{"trajectory": ') for line in reader.printed)
    left = {path.name for path in reader.folder.rglob("*") if path.is_file()}
    assert left == {"train.py", "walk.py", "lucky_transport.toml", "requirements.txt"}


def each_run_of_the_program_gives_one_number(reader: Reader) -> None:
    returns = re.findall(r"^500 steps in .* s, return (\S+)$", "\n".join(reader.printed), re.MULTILINE)
    assert len(returns) == (3 if _HAS_LUCKYROBOTS else 1)
    assert len(set(returns)) == 1, returns
    assert "luckyrobots" not in (reader.folder / "train.py").read_text(encoding="utf-8")
    (verdict,) = (block.text.strip() for block in blocks(FIRST, "text") if block.text.startswith("EQUAL: "))
    assert verdict in reader.printed
    assert reader.printed[-1] == "Nothing of gRPC is left in 1 file."
    assert (reader.folder / "lucky-report" / "demo.html").exists()


def the_service_comes_to_the_page_to_sign(reader: Reader) -> None:
    assert [line for line in reader.printed if re.fullmatch(r"total [\d.]+", line)] == ["total 14175.0"] * 4
    (calls,) = (block.text for block in blocks(OWN_SERVICE) if block.text.startswith("Methods and calls"))
    assert set(calls.splitlines()) <= set(reader.printed)
    (equal,) = (block.text.strip() for block in blocks(OWN_SERVICE, "text") if block.text.startswith("EQUAL: "))
    assert equal in reader.printed
    assert any(line.startswith("/weather.v1.Weather/GetForecast: complete -> ") for line in reader.printed)
    page = json.loads((reader.folder / "lucky-report" / "signoff.json").read_text())
    assert page["programs"][0]["command"][1:] == ["client.py"]
    (method,) = page["methods"]
    assert method["verdict"] == "COMPLETE"
    assert (method["mismatches"], method["failures"]) == (0, 0)
    assert method["compared"] > 0


#: Page -> what its commands must have come to.
RESULTS: dict[Path, Callable[[Reader], None]] = {
    README: the_program_trains_and_leaves_nothing,
    FIRST: each_run_of_the_program_gives_one_number,
    OWN_SERVICE: the_service_comes_to_the_page_to_sign,
}


def taken(page: Path) -> str:
    """Return the first address of a page at which this machine serves something else, "" where there is none."""
    lines = "\n".join(printed_lines(page))
    for port in re.findall(r"127\.0\.0\.1:(\d+)", lines):
        with socket.socket() as found:
            if found.connect_ex(("127.0.0.1", int(port))) == 0:
                return f"port {port}"
    return next((f"shm://{name}" for name in re.findall(r"shm://(\w+)", lines) if live_socket(name)), "")


@pytest.mark.parametrize("page", RESULTS, ids=name_of)
def test_every_command_of_a_page_works_as_printed(page: Path, tmp_path: Path) -> None:
    if address := taken(page):
        pytest.skip(f"{address}, which the page uses, is taken on this machine")
    if page == README:
        clone_of_the_reader(tmp_path)
    with ExitStack() as stack:
        reader = Reader(tmp_path, stack)
        for block in blocks(page):
            if page != README or block.language == "sh":
                reader.do(block)
        reader.stop_all()
    RESULTS[page](reader)
    if reader.left_out:
        pytest.skip(f"luckyrobots is not installed, all but these was typed: {reader.left_out}")


@pytest.mark.parametrize("page", INSTALLATIONS, ids=name_of)
def test_only_installations_are_not_typed(page: Path) -> None:
    assert [line for line in printed_lines(page) if line.startswith("pip ")] == INSTALLATIONS[page]
