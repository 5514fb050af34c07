"""The server of a pair: how long it may take to be ready, and that it has ended in any case."""

from __future__ import annotations

import subprocess
import sys

import pytest

from lucky_transport.errors import NotReachable, PeerTimeout
from lucky_transport_migration.bench import processes
from lucky_transport_migration.bench.processes import ServerProcess, ended

STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
)


@pytest.mark.parametrize("said", ["", "rea"])
def test_a_server_that_never_says_it_is_ready_is_given_up_and_ended(said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[bytes]] = []
    monkeypatch.setattr(processes, "_READY_S", 0.5)
    monkeypatch.setattr(processes, "ended", lambda process, grace_s: (started.append(process), ended(process, grace_s)))
    # on a busy machine it is given up, and its pipe closed, before it has begun
    program = f"import contextlib, os, time\nwith contextlib.suppress(OSError): os.write(1, {said.encode()!r})\n"
    with pytest.raises(PeerTimeout, match=r"the server that is silent was not ready within 0\.5 s"):
        ServerProcess("that is silent", [sys.executable, "-c", f"{program}time.sleep(600)"])
    (process,) = started
    assert process.returncode == -9


def test_a_server_that_ends_before_it_is_ready_says_so() -> None:
    with pytest.raises(NotReachable, match="ended before it was ready"):
        ServerProcess("of a pair", [sys.executable, "-c", "print('hello')"])


def test_what_a_server_says_behind_ready_is_kept() -> None:
    with ServerProcess("of a pair", [sys.executable, "-c", "print('ready at 7', flush=True); input()"]) as server:
        assert server.ready == "at 7"


def test_a_process_that_ignores_the_request_to_end_is_killed() -> None:
    process = subprocess.Popen([sys.executable, "-c", STUBBORN], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    process.terminate()
    ended(process, grace_s=0.2)
    assert process.returncode == -9
    process.stdout.close()


def test_a_server_is_told_lines_and_answers_until_it_is_told_to_end() -> None:
    program = "print('ready', flush=True)\nfor line in iter(input, ''): print(line * 2, flush=True)"
    with ServerProcess("that echoes", [sys.executable, "-c", program]) as server:
        server.say("ab")
        assert server.line(60.0) == "abab\n"
        server.end()
        with pytest.raises(NotReachable, match="the server that echoes ended"):
            server.line(60.0)
