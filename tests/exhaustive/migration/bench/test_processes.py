"""The server of a pair: how long it may take to be ready, and that it has ended in any case."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from lucky_transport.errors import NotReachable, PeerTimeout
from lucky_transport_migration.bench import processes
from lucky_transport_migration.bench.processes import serving


def children() -> set[str]:
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())


@pytest.mark.parametrize("said", ["", "rea"])
def test_a_server_that_never_says_it_is_ready_is_given_up_and_ended(said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_READY_S", 0.5)
    before = children()
    # on a busy machine it is given up, and its pipe closed, before it has begun
    program = f"import contextlib, os, time\nwith contextlib.suppress(OSError): os.write(1, {said.encode()!r})\n"
    with (
        pytest.raises(PeerTimeout, match=r"the server that is silent was not ready within 0\.5 s"),
        serving("that is silent", [sys.executable, "-c", f"{program}time.sleep(600)"]),
    ):
        pass
    assert children() == before


def test_a_server_that_ends_before_it_is_ready_says_so() -> None:
    with (
        pytest.raises(NotReachable, match="ended before it was ready"),
        serving("of a pair", [sys.executable, "-c", "print('hello')"]),
    ):
        pass


def test_what_a_server_says_behind_ready_is_kept_and_it_ends_with_the_block() -> None:
    before = children()
    with serving("of a pair", [sys.executable, "-c", "print('ready at 7', flush=True); input()"]) as server:
        assert server.ready == "at 7"
        assert children() - before == {str(server.pid)}
    assert children() == before


@pytest.mark.parametrize("fails", [False, True])
def test_a_server_that_does_not_end_by_itself_is_killed(monkeypatch: pytest.MonkeyPatch, fails: bool) -> None:
    monkeypatch.setattr(processes, "_GRACE_S", 0.2)
    before, raised = children(), False
    try:
        with serving("of a pair", [sys.executable, "-c", "import time; print('ready', flush=True); time.sleep(600)"]):
            if fails:
                raise KeyError
    except KeyError:
        raised = True
    assert raised is fails
    assert children() == before
