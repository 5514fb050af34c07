"""Peers: alive, dead, replaced."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from lucky_transport.shm.files.liveness import Peer, start_time


def test_this_process_lives_and_has_a_start_time() -> None:
    me = Peer(os.getpid(), start_time(os.getpid()))
    assert me.alive
    me.close()
    me.close()
    assert not me.alive


def test_a_killed_process_is_dead_even_before_it_is_reaped() -> None:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    peer = Peer(child.pid, start_time(child.pid))
    assert peer.alive
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # a zombie now
    assert not peer.alive
    child.wait()
    peer.close()


def test_a_pid_that_was_given_to_another_process_is_not_our_peer() -> None:
    impostor = Peer(os.getpid(), start_time(os.getpid()) + 1)
    assert not impostor.alive


def test_no_process_is_dead() -> None:
    assert not Peer(0).alive
    assert not Peer(2**22 + 5).alive
    assert start_time(2**22 + 5) == 0


@pytest.mark.parametrize("pid", [-1, 2**22 + 1, 2**31 - 1, 2**31, 2**32 - 1, 2**64 - 1, -(2**63)])
def test_what_no_process_can_be_numbered_is_dead(pid: int) -> None:
    """A pid comes out of memory that a peer writes; pidfd_open raises OverflowError for most of these."""
    peer = Peer(pid, 1)
    assert not peer.alive
    peer.close()
    assert start_time(pid) == 0
