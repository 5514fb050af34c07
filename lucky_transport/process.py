"""Child processes, mostly engines: started, awaited and ended.

An engine gets our pid and ends when this process ends, in whatever way. No child receives the terminal's Ctrl-C.
"""

from __future__ import annotations

import json
import os
import secrets
import selectors
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from lucky_transport.deadline import Deadline, log_long_wait
from lucky_transport.endpoint import Endpoint
from lucky_transport.engine_options import check_num_envs
from lucky_transport.errors import EngineFailed, NotReachable, SpecError, TransportError, from_wire
from lucky_transport.registry import load, registry

__all__ = ["ChildProcess", "EngineProcess", "failure_line", "unique_name"]

_STDERR_LINES = 12
_FAILED = b"failed "
#: How long a process may take to end after its failure line; its stderr until then belongs to the error.
_STDERR_TAIL_S = 1.0


def unique_name() -> str:
    """Return a name for a new engine of this process; never the product name of a real engine."""
    return f"lucky_{os.getpid()}_{secrets.token_hex(3)}"


class ChildProcess:
    """A process that ends with this object's `stop`; its stderr is kept for the exit report.

    name: what it is called in texts. environ: its whole environment, None = ours. takes_stdout: `_process.stdout` is a
    pipe. keeps_stdout: what it writes there belongs to the exit report too. Else that is thrown away.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        environ: Mapping[str, str] | None = None,
        cwd: str | None = None,
        takes_stdout: bool = False,
        keeps_stdout: bool = False,
    ) -> None:
        self.name = name
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        try:
            self._process = subprocess.Popen(
                command,
                env=environ,
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE if takes_stdout else self._stderr if keeps_stdout else subprocess.DEVNULL,
                stderr=self._stderr,
                start_new_session=True,  # Ctrl-C belongs to us; we end the child in order
            )
        except OSError as error:
            self._stderr.close()
            raise NotReachable(f"{name} cannot be started: {error}", backend=name) from error
        self.pid = self._process.pid

    @property
    def is_alive(self) -> bool:
        """True until it has ended."""
        return self._process.poll() is None

    def exit_report(self, within_s: float = 0.0) -> str:
        """Return how the process ended and the tail of its stderr; "" when it still runs after `within_s`.

        A connection breaks a moment before the process at its other end can be waited for.
        """
        try:
            status = self._process.wait(within_s)
        except subprocess.TimeoutExpired:
            return ""
        how = f"signal {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
        return how + self.stderr_tail()

    def stderr_tail(self) -> str:
        """Return the last lines of the process's stderr, led by a line break; "" when there are none."""
        if self._stderr.closed:
            return ""
        size = os.fstat(self._stderr.fileno()).st_size
        tail = os.pread(self._stderr.fileno(), 8192, max(0, size - 8192)).decode(errors="replace").strip()
        return "\n  " + "\n  ".join(tail.splitlines()[-_STDERR_LINES:]) if tail else ""

    def stop(self, grace_s: float = 5.0) -> int:
        """End the process (SIGTERM, after `grace_s` SIGKILL) and return its exit status; idempotent."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(grace_s)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._stderr.close()
        return self._process.returncode

    def kill(self) -> None:
        """Send SIGKILL; for tests of crashes."""
        self._process.kill()


class EngineProcess(ChildProcess):
    """A running `lucky-transport serve`; `endpoints` are ready when the constructor returns.

    Raises what `make_engine` and the servers raise there, NotReachable when the process ends without a word or stays
    silent for `start_timeout_s` before it is ready, SpecError for options that cannot go to another process.
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
        native: bool = True,
        start_timeout_s: float = 60.0,
    ) -> None:
        number = str(check_num_envs(num_envs))
        command = [sys.executable, "-m", "lucky_transport", "serve", engine, "--num-envs", number]
        for endpoint in endpoints:
            command += ["--endpoint", endpoint]
        if seed is not None:
            command += ["--seed", str(seed)]
        if options:
            command += ["--options", _json(engine, options)]
        if wait:
            command += ["--wait", wait]
        if observation_slots is not None:
            command += ["--observation-slots", str(observation_slots)]
        if not native:
            command += ["--no-native"]
        command += ["--parent-pid", str(os.getpid())]
        self.engine = engine
        self._schemes = {Endpoint.parse(endpoint).scheme for endpoint in endpoints}
        self._clean_up()  # after a kill of an engine and its client there was nobody to do it
        super().__init__(engine, command, takes_stdout=True)
        try:
            with log_long_wait(f"engine {engine!r} to start", start_timeout_s):
                self.endpoints = self._await_ready(len(endpoints), Deadline(start_timeout_s))
        except BaseException:
            self.stop(grace_s=0.5)
            raise

    def _await_ready(self, count: int, deadline: Deadline) -> list[Endpoint]:
        ready: list[Endpoint] = []
        stdout = self._process.stdout
        assert stdout is not None
        text = b""
        with selectors.DefaultSelector() as selector:
            selector.register(stdout, selectors.EVENT_READ)
            while len(ready) < count:
                if not selector.select(deadline.remaining_s):
                    raise NotReachable(
                        f"engine {self.engine!r} was not ready within {deadline.timeout_s} s{self.stderr_tail()}",
                        backend=self.engine,
                        hint="raise start_timeout_s (LUCKY_START_TIMEOUT_S)",
                    )
                chunk = os.read(stdout.fileno(), 4096)
                if not chunk:
                    self._process.wait()
                    raise NotReachable(
                        f"engine {self.engine!r} ended before it was ready: {self.exit_report()}", backend=self.engine
                    )
                *lines, text = (text + chunk).split(b"\n")
                for line in lines:
                    if line.startswith(_FAILED):
                        raise self._failure(line.removeprefix(_FAILED))
                ready += [Endpoint.parse(line[6:].decode().strip()) for line in lines if line.startswith(b"ready ")]
        return ready

    def _failure(self, line: bytes) -> TransportError:
        """Return the error that `failure_line` wrote; an EngineFailed includes the tail of the stderr."""
        failure: dict[str, Any] = json.loads(line)
        text: str = failure["text"]
        if failure["code"] == EngineFailed.wire_code:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_STDERR_TAIL_S)
            shown = [line for line in self.stderr_tail().splitlines() if not line.strip().startswith("Error: ")]
            text += "\n".join(shown)
        error = from_wire(failure["code"], text, backend=self.engine)
        error.hint = failure["hint"]
        return error

    def stop(self, grace_s: float = 5.0) -> int:
        status = super().stop(grace_s)
        if status < 0:  # killed: it could not clean up itself
            self._clean_up()
        return status

    def _clean_up(self) -> None:
        """Remove what engines that were killed have left of the transports of this one."""
        for scheme in self._schemes:
            info = registry().transport_of_scheme(scheme)
            if info.clean_up:
                load(info.clean_up, owner=f"transport {info.name!r}", extra=info.extra)()


def failure_line(error: TransportError) -> str:
    """Return the line by which a serving process tells the process that started it why it cannot serve."""
    return _FAILED.decode() + json.dumps({"code": error.wire_code, "text": str(error), "hint": error.hint})


def _json(engine: str, options: Mapping[str, Any]) -> str:
    for name, value in options.items():
        try:
            json.dumps(value)
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
