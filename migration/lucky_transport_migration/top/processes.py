"""What /proc tells of the processes of this user: command lines, processor time, memory, where they listen."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGESIZE")
_LISTENS = "0A"
#: In the code by which `lucky_transport.process.python_command` starts an engine.
_RUNS_US = "run_module('lucky_transport',"


@dataclass(frozen=True, slots=True)
class ProcessReading:
    """A process as it is now. cpu_s: processor seconds since it began."""

    pid: int
    command: str
    cpu_s: float
    rss_bytes: int


def _arguments(pid: int, proc: Path) -> list[str]:
    """Return a process's command line; [] when it is gone, another user's or a kernel thread."""
    with suppress(OSError):
        return [
            part.decode(errors="replace") for part in (proc / str(pid) / "cmdline").read_bytes().split(b"\0") if part
        ]
    return []


def read_process(pid: int, proc: Path = Path("/proc")) -> ProcessReading | None:
    """Return what is known of a process, None when it is gone or cannot be read."""
    arguments = _arguments(pid, proc)
    try:
        stat = (proc / str(pid) / "stat").read_text().rpartition(")")[2].split()
        resident = int((proc / str(pid) / "statm").read_text().split()[1])
    except (OSError, IndexError, ValueError):
        return None
    if not arguments:
        return None
    arguments[0] = os.path.basename(arguments[0])
    return ProcessReading(pid, " ".join(arguments), (int(stat[11]) + int(stat[12])) / _TICKS, resident * _PAGE)


def serving_pids(proc: Path = Path("/proc")) -> list[int]:
    """Return the processes of this user that run `lucky-transport serve`, whatever they serve at."""
    found: list[int] = []
    for folder in proc.iterdir() if proc.is_dir() else ():
        if folder.name.isdecimal():
            with suppress(OSError):
                if folder.stat().st_uid == os.geteuid() and served_endpoints(int(folder.name), proc):
                    found.append(int(folder.name))
    return sorted(found)


def served_endpoints(pid: int, proc: Path = Path("/proc")) -> list[str]:
    """Return the endpoints that a `lucky-transport serve` was asked for, [] for any other process."""
    arguments = _behind_program(_arguments(pid, proc))
    if next((one for one in arguments if not one.startswith("-")), "") != "serve":
        return []
    pairs = zip(arguments, [*arguments[1:], ""], strict=True)
    return [value for key, value in pairs if key == "--endpoint"] + [
        one.removeprefix("--endpoint=") for one in arguments if one.startswith("--endpoint=")
    ]


def _behind_program(arguments: list[str]) -> list[str]:
    """Return the arguments of our command line, [] for another program: it is a script, or what Python runs."""
    names = [os.path.basename(one) for one in arguments[:2]]
    if names[:1] == ["lucky-transport"]:
        return arguments[1:]
    if not names or not names[0].startswith("python"):
        return []
    if names[1:] == ["lucky-transport"]:
        return arguments[2:]
    for place in range(1, len(arguments) - 1):  # behind the interpreter's own flags
        flag, what = arguments[place : place + 2]
        if flag in ("-c", "-m"):
            return arguments[place + 2 :] if what == "lucky_transport" or _RUNS_US in what else []
    return []


def listening_ports(pid: int, proc: Path = Path("/proc")) -> list[int]:
    """Return the TCP ports at which a process listens; [] when its descriptors cannot be read."""
    folder, links = f"{proc}/{pid}", set[str]()
    with suppress(OSError):
        for link in os.listdir(f"{folder}/fd"):
            with suppress(OSError):
                links.add(os.readlink(f"{folder}/fd/{link}"))
    return sorted({port for link, port in _listening_sockets(folder).items() if link in links})


def _listening_sockets(folder: str) -> dict[str, int]:
    """Return what listens over TCP in a process's network namespace: socket as /proc links it -> port."""
    found: dict[str, int] = {}
    for table in ("tcp", "tcp6"):
        with suppress(OSError):
            for line in Path(folder, "net", table).read_text().splitlines()[1:]:
                row = line.split()
                if row[3] == _LISTENS:
                    found[f"socket:[{row[9]}]"] = int(row[1].rpartition(":")[2], 16)
    return found
