"""The client's end of the lines, for any number of threads: whichever thread waits reads for all of them."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import TypeVar

from lucky_transport.deadline import Deadline
from lucky_transport.errors import (
    ClosedError,
    ConfigError,
    EngineFailed,
    LocalProtocolError,
    PeerDied,
    PeerTimeout,
    RemoteProtocolError,
    TransportError,
    UnknownName,
)
from lucky_transport.rpc.error_envelope import copy_error
from lucky_transport_pipe.address import BACKEND
from lucky_transport_pipe.connection import PipeConnection
from lucky_transport_pipe.control import CLIENT, Control, ControlEvent, ControlState
from lucky_transport_pipe.lines import FROM_CLIENT_END, LineCutter, MessageType, ParsedLine, parse_from_engine

T = TypeVar("T")

_log = logging.getLogger("lucky_transport")
_MOST_WARNINGS = 1000


class ClientRun:
    """sessions: how many have init data so far. error: why it ended before its time.

    Each session has a queue of lines, without a limit: `take` of a session and `take_any` return lines in the order of
    the wire. No lock: the conversation holds its own.
    """

    def __init__(self, experiment: str) -> None:
        self.experiment = experiment
        self.sessions = 0
        self.is_over = False
        self.error: TransportError | None = None
        self._lines: OrderedDict[int, ParsedLine] = OrderedDict()  # by the number of their arrival
        self._numbers: dict[int, deque[int]] = {}  # of the lines of each session
        self._arrived = 0

    def put(self, line: ParsedLine) -> None:
        """Add a line to its session's queue."""
        self._numbers.setdefault(line.session, deque()).append(self._arrived)
        self._lines[self._arrived] = line
        self._arrived += 1

    def take(self, session: int) -> ParsedLine | None:
        """Return the oldest line of one session, None when there is none."""
        numbers = self._numbers.get(session)
        return self._lines.pop(numbers.popleft()) if numbers else None

    def take_any(self) -> ParsedLine | None:
        """Return the oldest line of all, None when there is none."""
        for line in self._lines.values():
            return self.take(line.session)
        return None

    def __len__(self) -> int:
        """Lines that wait."""
        return len(self._lines)


class Conversation:
    """Lines over `connection`, which it owns from now on.

    A line goes to the queue of its session whichever thread read it, so a slow thread holds up no other. An error of
    the engine and the end of the connection are raised to every thread that waits. warnings: the texts of the engine's
    last warnings. exit_report: how the engine's process ended and what it wrote last, "" where that is not known.
    """

    def __init__(
        self, connection: PipeConnection, timeout_s: float, exit_report: Callable[[], str] = lambda: ""
    ) -> None:
        self.peer = connection.peer
        self.timeout_s = timeout_s
        self.warnings: deque[str] = deque(maxlen=_MOST_WARNINGS)
        self.control = Control(CLIENT)
        self.run: ClientRun | None = None
        self._connection = connection
        self._exit_report = exit_report
        self._cutter = LineCutter()
        self._changed = threading.Condition()
        self._is_read = False
        self._writing = threading.Lock()
        self._out: deque[str] = deque()
        self._refusal: TransportError | None = None
        self._was_left = False  # the last `start` was given up: the engine's answer is still to come
        self._error: TransportError | None = None
        self._handlers: dict[MessageType, Callable[[ParsedLine], None]] = {
            MessageType.STARTED: self._on_session,
            MessageType.STATE: self._on_session,
            MessageType.SCORE: self._on_session,
            MessageType.SUCCESS: lambda line: self.control.on(ControlEvent.ACCEPTED),
            MessageType.END: self._on_end,
            MessageType.GONE: self._on_gone,
            MessageType.WARNING: self._on_warning,
            MessageType.ERROR: self._on_error,
        }

    # -- what a client sends ------------------------------------------------------------------------------------------

    def start(self, experiment: str, deadline: Deadline) -> ClientRun:
        """Ask for an experiment and return its run. Raises UnknownName (the engine has none of that name), ConfigError,
        LocalProtocolError, PeerTimeout, PeerDied.
        """
        if not experiment or len(experiment.split()) != 1:
            raise ConfigError(f"{experiment!r} is no name of an experiment: expected one word")
        if self._was_left:
            self._end_left_run(deadline)
        self._do(ControlEvent.RUN)
        self.write(f"run {experiment}")
        self._was_left = True  # unless it is answered in time
        self._leave(ControlState.ASKED, deadline)
        self._was_left = False
        with self._changed:
            refusal, self._refusal = self._refusal, None
            if refusal is not None:
                raise refusal
            self.run = run = ClientRun(experiment)
            return run

    def _end_left_run(self, deadline: Deadline) -> None:
        """Have the engine end a run whose `start` was given up; it may have answered that one meanwhile."""
        self._leave(ControlState.ASKED, deadline)
        with self._changed:
            self._refusal, self.run = None, ClientRun("")
        if self.control.state is ControlState.INIT:
            self.end_inits()
        self._leave(ControlState.RUNNING, deadline)
        self._was_left = False

    def _leave(self, state: ControlState, deadline: Deadline) -> None:
        """Wait until the conversation is no more in that state."""
        self.wait(lambda: None if self.control.state is state else True, deadline)

    def send_init(self, line: str) -> None:
        """Send the init data of one more session, a line of JSON."""
        run = self._do(ControlEvent.DATA)
        run.sessions += 1
        self.write(line)

    def end_inits(self) -> None:
        """Tell the engine that there is no more init data: the sessions start."""
        self._do(ControlEvent.END)
        self.write("END")
        self.flush()

    def quit(self, deadline: Deadline) -> None:
        """Tell the engine to quit and wait until it has answered or has gone."""
        self._do(ControlEvent.QUIT)
        self.write("quit")
        try:
            self._leave(ControlState.QUITTING, deadline)
        except (PeerDied, ClosedError) as error:
            _log.debug("pipe: %s went without an answer: %s", self.peer, error)

    def _do(self, event: ControlEvent) -> ClientRun:
        with self._changed:
            self._check()
            run = self.run
            if run is not None and run.error is not None and not self.control.allows(event):
                raise copy_error(run.error, BACKEND)
            self.control.on(event)
            return run if run is not None else ClientRun("")

    def write(self, line: str) -> None:
        """Keep a line to be sent; it leaves with `flush`, or when this thread waits."""
        self._out.append(line)

    def flush(self) -> None:
        """Send what is kept. Raises PeerTimeout, PeerDied, ClosedError."""
        if not self._out:
            return
        with self._writing:
            lines: list[str] = []
            while self._out:
                lines.append(self._out.popleft() + FROM_CLIENT_END)
            try:
                self._connection.send("".join(lines).encode(), Deadline(self.timeout_s))
            except TransportError as error:
                self._lose(error)
                raise

    # -- what the engine sends ----------------------------------------------------------------------------------------

    def wait(self, take: Callable[[], T | None], deadline: Deadline) -> T:
        """Return what `take` finds, reading until it finds something; it is called under the lock.

        Raises what `take` raises, PeerTimeout at the deadline, and what ended the conversation.
        """
        self.flush()
        while True:
            with self._changed:
                found = take()
                if found is not None:
                    return found
                self._check()
                if self._is_read:
                    if deadline.expired:
                        raise PeerTimeout(f"{self.peer} sent nothing within {deadline.timeout_s} s", backend=BACKEND)
                    self._changed.wait(deadline.remaining_s)
                    continue
                self._is_read = True
            self._read(deadline)

    def next_line(self, run: ClientRun, take: Callable[[], ParsedLine | None], timeout_s: float) -> ParsedLine | None:
        """Return what `take` finds among the lines of `run`; None once the run is over and it finds nothing.

        Raises EngineFailed (the engine reported an error), ClosedError (another run took its place), PeerTimeout,
        PeerDied.
        """

        def take_or_end() -> ParsedLine | tuple[()] | None:
            found = take()
            if found is not None:
                return found
            if run.error is not None:
                raise copy_error(run.error, BACKEND)
            if self.run is not run:
                raise ClosedError(f"the run of {run.experiment!r} was left for another one", backend=BACKEND)
            return () if run.is_over else None

        return self.wait(take_or_end, Deadline(timeout_s)) or None

    def next_line_now(self, run: ClientRun) -> ParsedLine | None:
        """Return a line of `run` that is here already, None when there is none."""
        with self._changed:
            return run.take_any()

    def _read(self, deadline: Deadline) -> None:
        """Read once, for all threads. Raises PeerTimeout at the deadline."""
        data, failure = b"", None
        try:
            data = self._connection.receive(deadline)
        except PeerTimeout:
            raise
        except PeerDied as error:
            report = self._exit_report()
            failure = PeerDied(f"{error}; its process: {report}", backend=BACKEND) if report else error
        except TransportError as error:
            failure = error
        finally:
            with self._changed:
                self._is_read = False
                try:
                    for line in self._cutter.feed(data) if data else ():
                        self._on_line(line)
                except TransportError as error:
                    failure = error
                if failure is not None:
                    self._lose(failure)
                self._changed.notify_all()

    def _on_line(self, text: str) -> None:
        line = parse_from_engine(text)
        handler = self._handlers.get(line.type)
        try:
            if handler is None:
                raise RemoteProtocolError(
                    f"{self.peer} sent {text[:200]!r}, which is no line of the protocol", backend=BACKEND
                )
            handler(line)
        except (LocalProtocolError, ClosedError) as error:  # what the table does not allow is the engine's fault here
            raise RemoteProtocolError(
                f"{self.peer} sent {text[:200]!r} while {self.control.state.value}", backend=BACKEND
            ) from error

    def _on_session(self, line: ParsedLine) -> None:
        run = self.run
        if run is None or self.control.state is not ControlState.RUNNING or line.session >= run.sessions:
            raise LocalProtocolError("no such session runs", backend=BACKEND)
        run.put(line)

    def _on_end(self, line: ParsedLine) -> None:
        self.control.on(ControlEvent.OVER)
        if self.run is not None:
            self.run.is_over = True

    def _on_gone(self, line: ParsedLine) -> None:
        was_asked = self.control.state is ControlState.QUITTING
        self.control.on(ControlEvent.GONE)
        if not was_asked:
            raise PeerDied(f"{self.peer} has quit", backend=BACKEND, hint="start it and connect again")

    def _on_warning(self, line: ParsedLine) -> None:
        self.warnings.append(line.text)
        _log.warning("pipe: %s warns: %s", self.peer, line.text)

    def _on_error(self, line: ParsedLine) -> None:
        """An error answers `run`, or ends the run; the conversation goes on."""
        if self.control.state is ControlState.ASKED:
            self._refusal = UnknownName(line.text, backend=BACKEND)
            self.control.on(ControlEvent.REFUSED)
        elif self.run is not None and self.control.allows(ControlEvent.FAILED):
            self.run.error = EngineFailed(f"{self.peer} reports: {line.text}", backend=BACKEND)
            self.control.on(ControlEvent.FAILED)
        else:
            _log.error("pipe: %s reports an error: %s", self.peer, line.text)

    # -- the end ------------------------------------------------------------------------------------------------------

    def _check(self) -> None:
        if self._error is not None:
            raise copy_error(self._error, BACKEND)

    def _lose(self, error: TransportError) -> None:
        """End for this reason; the first one counts."""
        with self._changed:
            if self._error is None:
                self._error = error
                if self.control.allows(ControlEvent.LOST):
                    self.control.on(ControlEvent.LOST)
            self._changed.notify_all()

    def close(self) -> None:
        """Close the pipe and end every wait with ClosedError; idempotent."""
        self._lose(ClosedError("the pipe is closed", backend=BACKEND, hint="connect again"))
        self._connection.close()
