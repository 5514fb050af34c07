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
from collections.abc import Callable, Iterable, Mapping, Sequence

from lucky_transport.errors import UnknownName
from lucky_transport_stubs.run.group import GroupSignalProbe, is_in_our_group

__all__ = ["end_like", "find_program", "replace_us", "run"]

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
    watch: Callable[[], None] | None = None,
    pause_s: float = 0.002,
) -> int:
    """Run the program to its end and return how it ended: its exit status, or minus the signal that killed it.

    `watch` is called every `pause_s` seconds while it runs; what it left behind is then a child of ours too. Raises
    OSError when it cannot be started. For the main thread of a process that has nothing to do afterwards but to report:
    the signals that were passed on stay blocked, so that a second Ctrl-C does not cost the report.
    """
    awaited = {*_FORWARDED, signal.SIGCHLD}
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored, as it can be inherited, the kernel would drop the status
    before = signal.pthread_sigmask(signal.SIG_BLOCK, awaited)
    libc = ctypes.CDLL(None)
    if watch is not None:
        libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)
    witness = GroupSignalProbe(_prepare(libc, awaited))
    try:
        program = subprocess.Popen(command, env=environ, preexec_fn=_prepare(libc, before))
        while program.poll() is None:
            if watch is None:
                _pass_on(program, signal.sigwaitinfo(awaited), witness)
                continue
            watch()
            news = signal.sigtimedwait(awaited, pause_s)
            if news is not None:
                _pass_on(program, news, witness)
        return program.returncode
    finally:
        witness.close()


def _prepare(libc: ctypes.CDLL, mask: Iterable[int]) -> Callable[[], None]:
    """Return what the child does between fork and exec."""
    launcher = os.getpid()

    def prepare() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != launcher:  # killed before we could ask to be told
            os._exit(1)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    return prepare


def _pass_on(program: subprocess.Popen[bytes], news: signal.struct_siginfo, witness: GroupSignalProbe) -> None:
    sent_by_a_process = news.si_code <= 0  # SI_USER, SI_QUEUE, SI_TKILL; the kernel's own are above
    if news.si_signo == signal.SIGCHLD or not sent_by_a_process:
        return
    was_for_all = witness.saw(news.si_signo)
    if not (was_for_all and is_in_our_group(program.pid)):
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
