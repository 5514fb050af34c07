"""README and the tutorials, typed as they are printed: from the top, in one shell, with a terminal for what goes on."""

import importlib.util
import json
import os
import pty
import re
import select
import shutil
import socket
import subprocess
import sys
import termios
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Self

import pytest

from lucky_transport.shm.files.socket_path import live_socket
from tests.support.pages import DOCS, README, ROOT, Block, blocks, name_of
from tests.support.waiting import PATIENCE_S, soon

_PROMPT = re.compile(rb"<typed: (\d+)>")
_STYLES = re.compile(rb"\x1b\[[\d;?]*[A-Za-z]")
_BASH = ["setsid", "--ctty", "bash", "--norc", "--noprofile", "--noediting", "-i"]


class Terminal:
    """Closed by `with`, which hangs up: what still runs in it ends as when its window is closed."""

    def __init__(self, folder: Path) -> None:
        self._ours, theirs = pty.openpty()
        modes = termios.tcgetattr(theirs)
        modes[3] &= ~termios.ECHO
        termios.tcsetattr(theirs, termios.TCSANOW, modes)
        termios.tcsetwinsize(theirs, (50, 250))
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        environ = os.environ | {"PATH": path, "PS1": "<typed: $?>", "PS2": "", "TERM": "dumb"}
        environ.pop("GRPC_ENABLE_FORK_SUPPORT", None)  # of the tests alone
        self._bash = subprocess.Popen(_BASH, cwd=folder, env=environ, stdin=theirs, stdout=theirs, stderr=theirs)
        os.close(theirs)
        self._unread = b""
        self._until(_PROMPT)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        os.close(self._ours)
        self._bash.wait(PATIENCE_S)

    def type(self, line: str) -> tuple[int, str]:
        """Return the exit status of a command line, and what it has printed, without its styles."""
        return self._ended(f"{line}\n")

    def start(self, line: str, says: str) -> None:
        """Type a command that goes on, and return once it has said this."""
        os.write(self._ours, f"{line}\n".encode())
        self._until(re.compile(re.escape(says.encode())))

    def interrupt(self) -> tuple[int, str]:
        """Type Ctrl-C, and return the exit status of what went on, and what it has printed since."""
        return self._ended("\x03")

    def _ended(self, typed: str) -> tuple[int, str]:
        os.write(self._ours, typed.encode())
        printed, found = self._until(_PROMPT)
        return int(found[1]), _STYLES.sub(b"", printed).decode().replace("\r\n", "\n")

    def _until(self, end: re.Pattern[bytes]) -> tuple[bytes, re.Match[bytes]]:
        """Read until this is there; return what stood before it, and it."""
        deadline = soon()
        while not (found := end.search(self._unread)):
            ready, _, _ = select.select([self._ours], [], [], deadline.remaining_s)
            assert ready, self._unread.decode()
            self._unread += os.read(self._ours, 65536)
        printed, self._unread = self._unread[: found.start()], self._unread[found.end() :]
        return printed, found


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
