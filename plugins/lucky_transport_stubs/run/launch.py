"""A program as a child of ours that behaves as if it ran in our place.

What ends the program ends us in the same way: the same exit status, or the same signal. A signal reaches the program
once. One that is sent to us alone is passed on; one that the terminal, or a supervisor, sends to the whole process
group has reached it already. If we are killed, so is the program: no process could report for it, and the one that
killed us meant it.
"""

from __future__ import annotations

import ctypes
import os
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from lucky_transport.errors import UnknownName

#: Signals with which people and supervisors steer a program; SIGSTOP, SIGTSTP and SIGCONT work by themselves.
_FORWARDED = (
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTERM,
    signal.SIGUSR1,
    signal.SIGUSR2,
)

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36

_FOREVER_S = "2147483647"
#: The kernel signals a group one process after the other; so long at most the probe may be behind.
_LOOKS, _PAUSE_S = 10, 0.001


def find_program(name: str, search_path: str) -> None:
    """Return when `name` is a program; raises UnknownName, with a guess, when it is none."""
    if shutil.which(name, path=search_path) is not None:
        return
    if os.path.isfile(name):
        python = f"did you mean `python {name}`? " if name.endswith(".py") else ""
        raise UnknownName(f"{name!r} is not executable", hint=f"{python}chmod +x makes it so")
    raise UnknownName(f"no program {name!r}", hint="everything behind -- is the command, as you type it in a shell")


def replace_us(command: Sequence[str], environ: Mapping[str, str]) -> None:
    """Become the program: the same pid. Does not return; raises OSError."""
    os.execvpe(command[0], list(command), environ)


def run(
    command: Sequence[str],
    environ: Mapping[str, str],
    *,
    watch: Callable[[], None] = lambda: None,
    thorough: bool = False,
) -> int:
    """Run the program to its end and return how it ended: its exit status, or minus the signal that killed it.

    `watch` is called often at first, then twice a second while it runs; with `thorough` every 2 ms, and what the
    program left behind is then a child of ours too. Raises OSError when it cannot be started. For the main thread of a
    process that has nothing to do afterwards but to report: the signals that were passed on stay blocked, so that a
    second Ctrl-C does not cost the report.
    """
    awaited = {*_FORWARDED, signal.SIGCHLD}
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored, as it can be inherited, the kernel would drop the status
    before = signal.pthread_sigmask(signal.SIG_BLOCK, awaited)
    libc = ctypes.CDLL(None)
    if thorough:
        libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)
    probe = _GroupSignalProbe(_prepare(libc, awaited))
    try:
        program = subprocess.Popen(command, env=environ, close_fds=False, preexec_fn=_prepare(libc, before))
        pause_s, longest_s = (0.002, 0.002) if thorough else (0.02, 0.5)
        while program.poll() is None:
            watch()
            news = signal.sigtimedwait(awaited, pause_s)
            pause_s = min(1.05 * pause_s, longest_s)
            if news is not None:
                _pass_on(program, news, probe)
        return program.returncode
    finally:
        probe.close()


def _prepare(libc: ctypes.CDLL, mask: Iterable[int]) -> Callable[[], None]:
    """Return what the child does between fork and exec."""
    launcher = os.getpid()

    def prepare() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != launcher:  # killed before we could ask to be told
            os._exit(1)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    return prepare


def _pass_on(program: subprocess.Popen[bytes], news: signal.struct_siginfo, probe: _GroupSignalProbe) -> None:
    if news.si_signo == signal.SIGCHLD:
        return
    was_for_all = probe.saw(news.si_signo)  # for a terminal's too: the probe keeps none for the next one
    sent_by_a_process = news.si_code <= 0  # SI_USER, SI_QUEUE, SI_TKILL; the kernel's own are above
    is_hangup = news.si_signo == signal.SIGHUP  # a terminal that closes tells its session's leader alone
    if (sent_by_a_process or is_hangup) and not (was_for_all and _is_in_our_group(program.pid)):
        program.send_signal(news.si_signo)


def end_like(status: int) -> int:
    """Return the exit status to end with; for a signal, die of it, so that the parent process sees what happened."""
    if status < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the program has left its own core
        if -status not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(-status, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {-status})
        os.kill(os.getpid(), -status)
        return 128 - status
    return status


class _GroupSignalProbe:
    """Whether a signal was sent to the launcher alone, or to its whole process group.

    A signal does not say which, and the program must get each once. So a process of the group blocks them all: those
    for the group stay pending in it, for /proc to show. It inherits the mask of its maker; prepare: runs in it first.
    """

    def __init__(self, prepare: Callable[[], None]) -> None:
        self._prepare = prepare
        self._program = shutil.which("sleep")
        self._process = self._start()
        self._earlier: set[int] = set()  # what a probe had that is gone, and the launcher has not taken

    def saw(self, number: int) -> bool:
        """Return True when the signal that just came was for the whole group; False too where there is no probe."""
        if number in self._earlier:
            self._earlier.remove(number)
            return True
        if self._process is None:
            return False
        for _ in range(_LOOKS):
            pending = _pending(self._process.pid)
            if number in pending:
                self._earlier |= pending - {number}
                self.close()
                self._process = self._start()  # the next signal is another matter
                return True
            time.sleep(_PAUSE_S)
        return False

    def close(self) -> None:
        """End the probe."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _start(self) -> subprocess.Popen[bytes] | None:
        if self._program is None:
            return None
        try:
            return subprocess.Popen(
                [self._program, _FOREVER_S],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                preexec_fn=self._prepare,
            )
        except OSError:
            return None


def _pending(pid: int) -> set[int]:
    """Return the numbers of the signals that a process has been sent and not taken."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return set()
    words = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    mask = int(words.get("ShdPnd", "0"), 16)
    return {number for number in range(1, signal.NSIG) if mask & 1 << (number - 1)}


def _is_in_our_group(pid: int) -> bool:
    """Return True when a process gets what is sent to our group."""
    try:
        return os.getpgid(pid) == os.getpgid(0)
    except ProcessLookupError:
        return False
