"""One run of an experiment, as the client plays it: an event at a time, a session at a time, or all in step.

    scores = experiment.play(lambda session, state: {"MoveRight": state["PoleAngle"] > 0})

    for event in experiment:                        # Started, StateUpdate, Score; ends with the run
        if isinstance(event, StateUpdate): experiment.command(event.session, command)

    for states in experiment.in_step():             # {session: state} of all that run
        for session, state in states.items(): experiment.command(session, command)

    session = experiment.session(3)                 # each may have a thread of its own
    while (state := session.state()) is not None: session.command(command)

Use one of these for a session.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, is_dataclass
from functools import partial
from typing import Any

from lucky_transport.errors import ConfigError, LocalProtocolError, RemoteProtocolError
from lucky_transport.nesting import parse_json
from lucky_transport_pipe.address import BACKEND
from lucky_transport_pipe.conversation import ClientRun, Conversation
from lucky_transport_pipe.json_codec import compact, decode, encode
from lucky_transport_pipe.lines import MessageType, ParsedLine, parse_score

#: Decides what a session does: takes its number and state, returns the command.
Policy = Callable[[int, Any], Any]


@dataclass(frozen=True, slots=True)
class Started:
    """A session has started."""

    session: int


@dataclass(frozen=True, slots=True)
class StateUpdate:
    """A session shows its state and wants a command."""

    session: int
    state: Any


@dataclass(frozen=True, slots=True)
class Score:
    """A session has ended."""

    session: int
    score: float


Event = Started | StateUpdate | Score


def json_word(value: Any) -> str:
    """Return a message, plain JSON data or JSON text as one word. Raises ValueError, TypeError."""
    if isinstance(value, str):
        value = parse_json(value)
    elif is_dataclass(value) and not isinstance(value, type):
        return encode(type(value), value)
    return compact(value)


class Experiment:
    """Made by `Instance.experiment`. scores: by session, None where it has not ended.

    Play a session in one way only: all take from the same queue. Commands leave together, when this thread waits for
    the next event or calls `flush`. States and commands are plain JSON data, or messages of the classes that were
    named.

    Every wait ends at `timeout_s` (PeerTimeout), when the engine reports an error (EngineFailed) or is gone (PeerDied).
    """

    def __init__(self, conversation: Conversation, run: ClientRun, state: type | None) -> None:
        self.name = run.experiment
        self.scores: list[float | None] = [None] * run.sessions
        self._conversation = conversation
        self._run = run
        self._read_state: Callable[[str], Any] = parse_json if state is None else partial(decode, state)

    # -- one event at a time ------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Event]:
        while (event := self.next()) is not None:
            yield event

    def next(self, timeout_s: float | None = None) -> Event | None:
        """Return what happens next in any session; None once all have ended."""
        return self._wait(self._run.take_any, timeout_s)

    def next_of(self, session: int, timeout_s: float | None = None) -> Event | None:
        """Return what happens next in one session; None once all have ended."""
        return self._wait(lambda: self._run.take(session), timeout_s)

    def next_now(self) -> Event | None:
        """Return what has happened already; None when nothing has."""
        line = self._conversation.next_line_now(self._run)
        return None if line is None else self._event(line)

    def command(self, session: int, command: Any) -> None:
        """Give a session its command, also one ahead of its next state."""
        if self._run.is_over:
            raise LocalProtocolError(f"experiment {self.name!r} is over", backend=BACKEND, hint="start another run")
        self._conversation.write(f"{session} {json_word(command)}")

    def flush(self) -> None:
        """Have the engine get all commands now."""
        self._conversation.flush()

    def _wait(self, take: Callable[[], ParsedLine | None], timeout_s: float | None) -> Event | None:
        limit_s = self._conversation.timeout_s if timeout_s is None else timeout_s
        line = self._conversation.next_line(self._run, take, limit_s)
        return None if line is None else self._event(line)

    def _event(self, line: ParsedLine) -> Event:
        if line.type is MessageType.STATE:
            try:
                return StateUpdate(line.session, self._read_state(line.text))
            except ValueError as error:
                raise RemoteProtocolError(
                    f"{self._conversation.peer} sent a state of session {line.session} that is none: {error}",
                    backend=BACKEND,
                ) from error
        if line.type is MessageType.SCORE:
            self.scores[line.session] = score = parse_score(line.text)
            return Score(line.session, score)
        return Started(line.session)

    # -- all sessions -------------------------------------------------------------------------------------------------

    def play(self, policy: Policy) -> list[float]:
        """Play every session by `policy` and return the scores."""
        while True:
            event = self.next_now() or self.next()
            if event is None:
                return self.final_scores()
            if isinstance(event, StateUpdate):
                self.command(event.session, policy(event.session, event.state))

    def final_scores(self) -> list[float]:
        """Return the scores by session. Raises LocalProtocolError while some have none."""
        missing = [session for session, score in enumerate(self.scores) if score is None]
        if missing:
            raise LocalProtocolError(f"sessions {missing[:10]} of {self.name!r} have not ended", backend=BACKEND)
        return [score for score in self.scores if score is not None]

    def in_step(self) -> Iterator[Mapping[int, Any]]:
        """Yield the states of all sessions that run, whenever each of them has shown one, until all have ended."""
        running: dict[int, deque[Any]] = {}
        while (event := self.next_now() or self.next()) is not None:
            if isinstance(event, Started):
                running[event.session] = deque()
            elif isinstance(event, StateUpdate):
                running[event.session].append(event.state)
            else:
                del running[event.session]
            if running and all(running.values()) and not len(self._run):
                yield {session: states.popleft() for session, states in running.items()}

    # -- one session --------------------------------------------------------------------------------------------------

    def session(self, number: int) -> ExperimentSession:
        """Return one session, to be played by itself. Raises ConfigError for a number that is none of this run."""
        if not 0 <= number < len(self.scores):
            raise ConfigError(f"session {number}: this run has 0 to {len(self.scores) - 1}")
        return ExperimentSession(self, number)


class ExperimentSession:
    """One session of an experiment; made by `Experiment.session`. One thread at a time."""

    def __init__(self, experiment: Experiment, number: int) -> None:
        self.number = number
        self._experiment = experiment

    @property
    def score(self) -> float | None:
        """The final score, None until it was received."""
        return self._experiment.scores[self.number]

    def state(self, timeout_s: float | None = None) -> Any:
        """Return the next state; None when the session has ended."""
        while True:
            event = self._experiment.next_of(self.number, timeout_s)
            if not isinstance(event, Started):
                return event.state if isinstance(event, StateUpdate) else None

    def command(self, command: Any) -> None:
        """Give the session its command, at once."""
        self._experiment.command(self.number, command)
        self._experiment.flush()
