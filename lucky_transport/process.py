"""Child processes, mostly engines: started, awaited and ended.

What a child prints belongs to the program that runs in it: it goes to the log "lucky_transport.output", line by line,
and is never parsed. A child imports what this process would import. An engine gets our pid and ends when this process
ends, in whatever way. No child receives the terminal's Ctrl-C.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import select
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from fcntl import F_DUPFD_CLOEXEC, fcntl
from functools import cache
from pathlib import Path
from typing import Any

from lucky_transport.deadline import Deadline, log_long_wait
from lucky_transport.endpoint import Endpoint
from lucky_transport.engine_options import check_num_envs
from lucky_transport.errors import EngineFailed, NotReachable, SpecError, TransportError, from_wire
from lucky_transport.limits import limit_reached
from lucky_transport.registry import load, registry
from lucky_transport.uninterrupted import start_thread
from lucky_transport.version import version

_log = logging.getLogger("lucky_transport")
_output_log = logging.getLogger("lucky_transport.output")

_OUTPUT_LINES = 12
_TAIL_CHARS = 1000
#: A longer line is logged in pieces.
_LINE_BYTES = 8192
#: How long an exit status is waited for: a busy machine ends a process long after its connections.
_REAPING_S = 1.0
#: How long the output of a process that has ended may take to arrive; longer where a child of its own holds the pipe.
_LAST_OUTPUT_S = 1.0
#: How often a starting process is looked at: one that ended may have left a child that holds our descriptor.
_LOOK_S = 0.1


#: This package's version and its place; read now: `sys.path` may change.
_BUILD = [version(), str(Path(__file__).parent)]


def unique_name() -> str:
    """Return a name for a new engine of this process; never the product name of a real engine."""
    return f"lucky_{os.getpid()}_{secrets.token_hex(3)}"


def python_command(module: str, *arguments: str) -> list[str]:
    """Return the command that runs `module` in a Python that imports what this process would import now.

    It has `sys.path` as it stands, and the `-X`, `-W` and isolation flags, as `multiprocessing` has them with "spawn";
    `python -m` would put the working directory first.
    """
    path = [entry for entry in sys.path if isinstance(entry, str)]  # pyright: ignore[reportUnnecessaryIsInstance]
    code = f"import sys; sys.path[:] = {path!a}; import runpy; runpy.run_module({module!r}, None, '__main__', True)"
    flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]  # as multiprocessing
    return [sys.executable, *flags, "-c", code, *arguments]


class ChildProcess:
    """A process that ends with this object's `stop`; the last lines that it prints are kept for the exit report.

    name: what it is called in texts. environ: its whole environment, None = ours. pass_fds: descriptors it inherits.
    reads_stdin: it ends when its stdin does, which is with this process too; others have none and end by SIGTERM.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        environ: Mapping[str, str] | None = None,
        cwd: str | None = None,
        pass_fds: Sequence[int] = (),
        reads_stdin: bool = False,
    ) -> None:
        self.name = name
        self._tail: deque[str] = deque(maxlen=_OUTPUT_LINES)
        with _starting(name):
            source, sink = os.pipe()
            with open(sink, "wb") as output:
                self._output = threading.Thread(
                    target=_pass_on, args=(source, name, self._tail), name=f"output of {name}", daemon=True
                )
                try:
                    start_thread(self._output)
                except RuntimeError:
                    os.close(source)
                    raise
                self._process = subprocess.Popen(
                    command,
                    env=environ,
                    cwd=cwd,
                    stdin=subprocess.PIPE if reads_stdin else subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    pass_fds=pass_fds,
                    start_new_session=True,  # Ctrl-C belongs to us; we end the child in order
                )
        self.pid = self._process.pid

    @property
    def is_alive(self) -> bool:
        """True until it has ended."""
        return self._process.poll() is None

    def exit_report(self, within_s: float = _REAPING_S) -> str:
        """Return how the process ended and the last lines it printed; "" when it still runs after `within_s`.

        A connection breaks a moment before the process at its other end can be waited for.
        """
        try:
            status = self._process.wait(within_s)
        except subprocess.TimeoutExpired:
            return ""
        how = f"signal {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
        return how + self.output_tail()

    def output_tail(self) -> str:
        """Return the last lines that the process printed, led by a line break; "" when there are none."""
        if not self.is_alive:
            self._await_output()
        return "".join(f"\n  {line}" for line in self._tail.copy())

    def _await_output(self) -> None:
        if self._output is not threading.current_thread():  # a log handler, or the collector, may run anything there
            self._output.join(_LAST_OUTPUT_S)

    def await_ready(self, look: Callable[[float], bool], deadline: Deadline, *, late: str, ended: str = "") -> None:
        """Return once `look` is true; it is told how many seconds it may wait for that.

        Raises NotReachable with the last lines of output: with the exit status and the hint `ended` when the process
        ends before, with the hint `late` when `deadline` passes.
        """
        while True:
            was_alive = self.is_alive  # before the look: what it did until its end is seen then
            if look(min(_LOOK_S, deadline.remaining_s)):
                return
            if not was_alive:
                text = f"{self.name} ended before it was ready: {self.exit_report()}"
                raise NotReachable(text, backend=self.name, hint=ended)
            if deadline.expired:
                text = f"{self.name} was not ready within {deadline.timeout_s:g} s{self.output_tail()}"
                raise NotReachable(text, backend=self.name, hint=late)

    def stop(self, grace_s: float = 5.0) -> int:
        """End the process (after `grace_s` by SIGKILL) and return its exit status; idempotent."""
        if self._process.stdin is None:
            self._process.terminate()
        else:
            self._process.stdin.close()
        try:
            self._process.wait(grace_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._await_output()
        return self._process.returncode

    def kill(self) -> None:
        """Send SIGKILL; for tests of crashes."""
        self._process.kill()


@contextmanager
def _starting(name: str) -> Generator[None]:
    """Raise NotReachable where there is no program, no descriptor or no thread."""
    try:
        yield
    except (OSError, RuntimeError) as error:
        reached, remedy = limit_reached(error)
        raise NotReachable(f"{name} cannot be started: {reached or error}", backend=name, hint=remedy) from error


def _status_pipe() -> tuple[int, int]:
    """Return a pipe whose writing end is no standard stream: a child has those of its own."""
    status, low = os.pipe()
    try:
        return status, fcntl(low, F_DUPFD_CLOEXEC, 3)
    except OSError:
        os.close(status)
        raise
    finally:
        os.close(low)


def _pass_on(source: int, name: str, tail: deque[str]) -> None:
    """Log each line of a process's output and keep the last ones, until nobody can write more."""
    with open(source, "rb") as output:
        while line := output.readline(_LINE_BYTES):
            text = line.decode(errors="replace").rstrip()
            if text:
                tail.append(text[:_TAIL_CHARS])
            with suppress(Exception):  # a program's log handler; the process must not wait for it
                _output_log.info("%s: %s", name, text)


class EngineProcess(ChildProcess):
    """A running `lucky-transport serve`; `endpoints` are ready when the constructor returns.

    Raises what `make_engine` and the servers raise there, NotReachable when the process ends without a word or stays
    silent for `start_timeout_s` before it is ready, SpecError for options that cannot go to another process.
    interceptors: names of those on the engine's side, in place of those of the settings; () = these.
    """

    def __init__(
        self,
        engine: str,
        endpoints: Sequence[str],
        *,
        num_envs: int = 1,
        seed: int | None = None,
        options: Mapping[str, Any] | None = None,
        wait: str | None = None,
        observation_slots: int | None = None,
        max_message_bytes: int | None = None,
        start_timeout_s: float = 60.0,
        interceptors: Sequence[str] = (),
    ) -> None:
        arguments = ["serve", engine, "--num-envs", str(check_num_envs(num_envs))]
        arguments += [f"--endpoint={endpoint}" for endpoint in endpoints]
        optional = {
            "seed": seed,
            "options": _json(engine, options) if options else None,
            "wait": wait or None,
            "observation-slots": observation_slots,
            "max-message-bytes": max_message_bytes,
        }
        arguments += [f"--{name}={value}" for name, value in optional.items() if value is not None]
        arguments += [f"--interceptor={name}" for name in interceptors]
        self.engine = engine
        self._schemes = {Endpoint.parse(endpoint).scheme for endpoint in endpoints}
        with _starting(engine):
            status, reports = _status_pipe()
        with open(status, "rb"):
            with open(reports, "wb"):
                arguments += ["--status-fd", str(reports), "--parent-pid", str(os.getpid())]
                super().__init__(engine, python_command("lucky_transport", *arguments), pass_fds=[reports])
            try:
                with log_long_wait(f"engine {engine!r} to start", start_timeout_s):
                    found = self._await_report(status, Deadline(start_timeout_s))
                if "code" in found:
                    raise self._failure(found)
                self._compare_builds(found["build"])
            except BaseException:
                self.stop(grace_s=0.5)
                raise
        self.endpoints = [Endpoint.parse(endpoint) for endpoint in found["endpoints"]]

    def _await_report(self, status: int, deadline: Deadline) -> dict[str, Any]:
        """Return what `report` wrote."""
        poller = select.poll()
        poller.register(status, select.POLLIN)
        text = bytearray()

        def look(within_s: float) -> bool:
            if poller.poll(within_s * 1e3):
                chunk = os.read(status, 65536)
                if not chunk and not self.exit_report(_LAST_OUTPUT_S):
                    raise NotReachable(f"{self.name} closed a descriptor that is not its own", backend=self.name)
                text.extend(chunk)
            return text.endswith(b"\n")

        self.await_ready(look, deadline, late="raise start_timeout_s (LUCKY_START_TIMEOUT_S)")
        return json.loads(text)

    def _failure(self, failure: Mapping[str, Any]) -> TransportError:
        """Return the error that `report` wrote; an EngineFailed includes what the process printed last."""
        text: str = failure["text"]
        if failure["code"] == EngineFailed.wire_code:
            self.exit_report(_LAST_OUTPUT_S)  # it is about to end
            text += self.output_tail()
        error = from_wire(failure["code"], text, backend=self.engine)
        error.hint = failure["hint"]
        return error

    def _compare_builds(self, theirs: Sequence[str]) -> None:
        """Log, once, that the process runs another build of this package. Raises NotReachable for another version."""
        if theirs == _BUILD:
            return
        text = "the process of engine {!r} runs lucky_transport {} of {}, this one runs {} of {}".format(
            self.engine, *theirs, *_BUILD
        )
        hint = "keep one of them on sys.path"
        if theirs[0] != _BUILD[0]:
            raise NotReachable(text, backend=self.engine, hint=hint)
        _warn_once(f"{text}; {hint}")

    def stop(self, grace_s: float = 5.0) -> int:
        status = super().stop(grace_s)
        if status < 0:  # killed: it could not clean up itself
            for scheme in self._schemes:
                clean_up(scheme)
        return status


def clean_up(scheme: str) -> None:
    """Remove what engines that were killed have left of the transport of a scheme, as far as this process can."""
    info = registry().transport_of_scheme(scheme)
    with suppress(OSError):  # no descriptors are left: what is started next says so
        if info.clean_up:
            load(info.clean_up, owner=f"transport {info.name!r}", extra=info.extra)()


def report(status_fd: int, outcome: Sequence[Endpoint] | TransportError) -> None:
    """Tell the process that started this one where it serves, or why it cannot."""
    if isinstance(outcome, TransportError):
        message = {"code": outcome.wire_code, "text": str(outcome), "hint": outcome.hint}
    else:
        message = {"endpoints": [str(endpoint) for endpoint in outcome], "build": _BUILD}
    with suppress(OSError), open(status_fd, "w") as status:  # the other process may have given up
        status.write(json.dumps(message) + "\n")


@cache
def _warn_once(text: str) -> None:
    _log.warning("%s", text)


def _json(engine: str, options: Mapping[str, Any]) -> str:
    for name, value in options.items():
        try:
            json.dumps(value, allow_nan=False)
        except RecursionError:
            raise SpecError(
                f"option {name} of engine {engine!r} is nested too deeply to go to a process of its own",
                hint="pass flatter options",
            ) from None
        except (TypeError, ValueError) as error:
            raise SpecError(
                f"option {name}={value!r} of engine {engine!r} cannot go to a process of its own: {error}",
                hint="pass numbers, text, lists or dicts of them, or take transport='inproc'",
            ) from None
    return json.dumps(dict(options))
