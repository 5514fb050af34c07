"""A serving process ends when it is told to, when its parent ends, and never hangs in doing so."""

import errno
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from unittest.mock import Mock

import pytest

from lucky_transport.cli.shutdown import LIMIT_S, Shutdown
from tests.support.waiting import PATIENCE_S

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGALRM)


@pytest.fixture(autouse=True)
def _this_process_goes_on() -> Iterator[None]:
    """A process that was asked to end has its signals off and a clock running; this one is needed further."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    timer = signal.getitimer(signal.ITIMER_REAL)
    yield
    signal.setitimer(signal.ITIMER_REAL, *timer)
    for number, handler in before.items():
        signal.signal(number, handler)


def test_a_signal_during_the_interpreters_own_end_changes_nothing_either() -> None:
    with Shutdown() as shutdown:
        signal.raise_signal(signal.SIGINT)
        shutdown.wait()
    for number in SIGNALS[:3]:
        signal.raise_signal(number)
    remaining_s, _ = signal.getitimer(signal.ITIMER_REAL)
    assert 0 < remaining_s <= LIMIT_S  # and it cannot take for ever


def test_leaving_restores_the_handlers_and_leaves_no_thread_or_descriptor() -> None:
    before = {number: signal.getsignal(number) for number in SIGNALS[:3]}
    descriptors = set(os.listdir("/proc/self/fd"))
    with Shutdown(os.getppid()):
        assert signal.getsignal(signal.SIGTERM) is not before[signal.SIGTERM]
    assert {number: signal.getsignal(number) for number in before} == before
    assert signal.set_wakeup_fd(-1) == -1
    assert not set(os.listdir("/proc/self/fd")) - descriptors
    assert "lucky-shutdown" not in [thread.name for thread in threading.enumerate()]


def test_a_signal_that_was_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # what nohup does
    try:
        with Shutdown() as shutdown:
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
            signal.raise_signal(signal.SIGHUP)
            assert not shutdown.asked.wait(0.05)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_what_ends_a_forked_child_does_not_end_its_parent() -> None:
    with Shutdown() as shutdown:
        child = os.fork()
        if not child:
            time.sleep(20)  # no handler of Python's cuts it short; the signal itself does
            os._exit(0)
        os.kill(child, signal.SIGTERM)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGTERM
        assert not shutdown.asked.wait(0.05)


def test_a_parent_that_is_gone_already_asks_at_once() -> None:
    parent = subprocess.Popen([sys.executable, "-c", ""])
    parent.wait(PATIENCE_S)
    with Shutdown(parent.pid) as shutdown:
        assert shutdown.asked.is_set()


@pytest.mark.parametrize("has_pidfd", [True, False])
def test_the_death_of_the_parent_asks_for_the_end(has_pidfd: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not has_pidfd:
        monkeypatch.setattr(os, "pidfd_open", Mock(side_effect=OSError(errno.ENOSYS, "Function not implemented")))
    parent = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        with Shutdown(parent.pid) as shutdown:
            assert not shutdown.asked.is_set()
            parent.kill()
            parent.wait(PATIENCE_S)
            assert shutdown.asked.wait(PATIENCE_S)
    finally:
        parent.kill()
        parent.wait(PATIENCE_S)


HANG = """
import signal, time
from lucky_transport.cli.shutdown import LIMIT_S, Shutdown
with Shutdown(limit_s=0.1{what}) as shutdown:
    print("ready", flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize(
    ("argument", "what", "reads"), [("", "engine", True), (", what='relay'", "relay", True), ("", "engine", False)]
)
def test_what_does_not_end_is_ended_by_force_and_says_so_to_a_reader(argument: str, what: str, reads: bool) -> None:
    command = [sys.executable, "-c", HANG.format(what=argument)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stderr is not None
    with process.stdout as stdout, process.stderr as stderr:
        try:
            assert stdout.readline() == "ready\n"
            if not reads:
                stderr.close()
            process.terminate()
            said = stderr.read() if reads else ""
            assert process.wait(PATIENCE_S) == 1
        finally:
            process.kill()
            process.wait(PATIENCE_S)
    assert said == (f"the {what} did not end within 0.1 s; ended by force\n" if reads else "")
