"""What clients do with an engine, one kind of work each, for runs that open, leave, interrupt and kill connections.

    with work("images", endpoint) as once:      # connects
        once()                                  # one exchange, call, item or session
        once()                                  # also after an error

After the block nothing of it is open. What comes back is checked as far as it follows from what was asked: an
answer that was torn, or belongs to something else, is a WrongAnswer. `settings` are those of the connection.
A `ClientThread` works while its engine is ended or stopped, and `checked` judges its error.
"""

import contextlib
import itertools
import threading
import time
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np

from lucky_transport import api
from lucky_transport.config import load_settings
from lucky_transport.deadline import Deadline
from lucky_transport.env.autoreset import NeedsReset
from lucky_transport.errors import TransportError, Unimplemented
from lucky_transport.messages import SetStateRequest
from lucky_transport.sessions.client import SessionClient
from lucky_transport_migration.bench.echo_engine import shade
from tests.endurance import checked_engine
from tests.endurance.interrupted_loops import DEADLINE_S, SET_STATE, Once, long_state, on_a_loop

ENGINE, SESSIONS_ENGINE = "echo", "cartpole"
_UNARY = "/hazel.rpc.SceneService/GetSceneInfo"
_STREAM = "/hazel.rpc.TelemetryService/StreamTelemetry"
#: Items read of each stream, and images.
_ITEMS = 3


class WrongAnswer(AssertionError):
    """Something else came back than what was asked for."""


def engine_of(kind: str) -> str:
    """Return the name of the engine that this kind of work needs."""
    return SESSIONS_ENGINE if kind == "sessions" else ENGINE


def work(kind: str, endpoint: str, **settings: Any) -> AbstractContextManager[Callable[[], object]]:
    """Return what connects, and gives what does the work once."""
    return contextmanager(WORKLOADS[kind])(endpoint, **settings)


def steps(endpoint: str, **settings: Any) -> Generator[Once]:
    """Reset an env and step it; each frame of a CheckedEngine has to be that of its actions."""
    with api.make(endpoint=endpoint, **settings) as env:
        env.reset(seed=1)
        actions, numbers = env.action_space.sample(), itertools.count(1)
        is_checked = env.batch_spec.engine == checked_engine.NAME

        def step() -> None:
            actions[:, 0] = next(numbers) % 1000 / 1000
            try:
                shown, rewards, *_ = env.step(actions)
            except NeedsReset:  # the last step was interrupted
                env.reset()
                return
            if is_checked:
                _expect(shown, checked_engine.observations(actions, shown.shape[1]), "the observations of a step")
                _expect(rewards, actions[:, 0], "the rewards of a step")

        yield step


def calls(endpoint: str, **settings: Any) -> Generator[Once]:
    """Make typed calls, inline ones and such that run in the pool, and some whose messages are long both ways."""
    with api.connect(endpoint, **settings) as opened:
        client: Any = opened
        numbers = itertools.count(1)

        def ask() -> None:
            number = next(numbers)
            client.scene.get_scene_info()
            is_long = number <= checked_engine.LONG_SENSOR
            for _ in range(3 if is_long else 1):  # so many that the ring comes round, and skips what is left at its end
                shown = client.lidar.get_lidar_beam_angles(sensor=number)
                _expect(shown.beams, number, "the number in a response")
                if shown.azimuth:
                    _expect(shown.azimuth, checked_engine.angles(number), "the angles in a response")
                    _expect(shown.elevation, shown.azimuth, "the further angles in a response")
            if is_long:
                state = long_state(number)
                with contextlib.suppress(Unimplemented):  # an engine of a kit
                    answer = client.transport.call(SET_STATE, SetStateRequest(0, state))
                    _expect(answer.observation, state, "the bytes of a long message")

        yield ask


def streams(endpoint: str, **settings: Any) -> Generator[Once]:
    """Open streams and leave them after some items."""
    with api.connect(endpoint, **settings) as opened:
        client: Any = opened

        def read() -> None:
            stream = client.agent.stream_policy_slot_state(slot_id=1_000_000, timeout_s=_timeout_s(settings))
            for number in range(_ITEMS):
                item = next(stream)
                _expect((item.slot_id, item.name), (number, "x" * len(item.name)), "an item of a stream")

        yield read


def images(endpoint: str, **settings: Any) -> Generator[Once]:
    """Open image streams and leave them: unread, read, and while a view is looked at."""
    with api.connect(endpoint, **settings) as opened:
        client: Any = opened

        def look() -> None:
            beside = client.camera.stream_camera("beside", timeout_s=_timeout_s(settings))
            unread = client.camera.stream_camera("unread", timeout_s=_timeout_s(settings))
            for _ in range(_ITEMS):
                image = next(beside)
                _expect(bytes(image.data), bytes([shade(image.frame_number)]) * len(image.data), "an image")
            beside.cancel()
            del unread

        yield look


def sessions(endpoint: str, **settings: Any) -> Generator[Once]:
    """Create sessions, advance, read and destroy them; the same seed and ticks give the same world."""
    with api.open_transport(endpoint, load_settings(settings)) as transport:
        client = SessionClient(transport)
        first: Any = None

        def play() -> None:
            nonlocal first
            session = client.create(seed=1)
            client.advance(session, 2, deadline=_deadline(settings))
            seen = client.latest(session, 1, _deadline(settings))
            client.destroy(session)
            first = first or seen
            _expect((seen.ticks, seen.observation), (first.ticks, first.observation), "a snapshot of a session")

        yield play


def stubs(endpoint: str) -> Generator[Once]:
    """Make unary calls of generated stubs, and leave a stream after its first item."""
    from lucky_transport_stubs import channel

    with channel(endpoint) as opened:
        unary: Any = opened.unary_unary(_UNARY)
        stream: Any = opened.unary_stream(_STREAM)

        def ask() -> None:
            unary(b"", timeout=DEADLINE_S)
            answers = stream(b"", timeout=DEADLINE_S)
            next(answers)
            answers.cancel()

        yield ask


async def _aio_stubs(endpoint: str) -> AsyncGenerator[Once]:
    """Do the same in an event loop."""
    from lucky_transport_stubs import aio_channel

    async with aio_channel(endpoint) as opened:

        async def ask() -> None:
            await opened.unary_unary(_UNARY)(b"", timeout=DEADLINE_S)
            answers: Any = opened.unary_stream(_STREAM)(b"", timeout=DEADLINE_S)
            await answers.read()
            answers.cancel()

        yield ask


#: Those of stubs need grpcio.
WORKLOADS: dict[str, Callable[..., Generator[Once]]] = {
    "steps": steps,
    "calls": calls,
    "streams": streams,
    "images": images,
    "sessions": sessions,
    "stubs": stubs,
    "aio": on_a_loop(_aio_stubs),
}


def _timeout_s(settings: Mapping[str, Any]) -> float | None:
    """Return the deadline of a stream, that of a call; None for none."""
    return settings.get("command_timeout_s")


def _deadline(settings: Mapping[str, Any]) -> Deadline | None:
    seconds = _timeout_s(settings)
    return None if seconds is None else Deadline(seconds)


def _expect(found: Any, expected: Any, what: str) -> None:
    if not np.array_equal(found, expected) if isinstance(found, np.ndarray) else found != expected:
        raise WrongAnswer(f"{what}: {found!r:.300}, expected {expected!r:.300}")


#: Operations of a connection, where it does not go on without an end.
OPERATIONS = 3
_POLL_S = 0.002


class ClientThread:
    """Works until it fails, or is told to stop. operations: of each connection, None for one that stays.

    rounds: connections that were left, or operations of the one that stays. Each wait ends after `limit_s`.
    """

    def __init__(
        self, kind: str, endpoint: str, settings: dict[str, Any], limit_s: float, operations: int | None = OPERATIONS
    ) -> None:
        self.error: Exception | None = None
        self.rounds = 0
        self.ended_s = 0.0
        self._begun_ns = 0
        self._stops = False
        self._limit_s = limit_s
        self._arguments = kind, endpoint, settings, operations
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        kind, endpoint, settings, operations = self._arguments
        while not self._stops and self.error is None:
            done = 0
            try:
                self._begun_ns = time.monotonic_ns()
                with work(kind, endpoint, **settings) as once:
                    while not self._stops and (operations is None or done < operations):
                        self._begun_ns = time.monotonic_ns()
                        once()
                        done += 1
                        self.rounds += operations is None
                self.rounds += 1
            except Exception as error:  # it is judged by the thread that looks on
                self.ended_s = time.monotonic()
                self.error = error

    def begun_after(self, moment: int) -> float:
        """Return how many seconds after the fault the last operation began."""
        return max(0.0, (self._begun_ns - moment) / 1e9)

    def await_rounds(self, rounds: int) -> None:
        """Wait for so many rounds, or an error. Raises AssertionError."""
        until = time.monotonic() + self._limit_s
        while self.rounds < rounds and self.error is None:
            if time.monotonic() > until:
                raise AssertionError(f"the client did {self.rounds} rounds in {self._limit_s} s")
            time.sleep(_POLL_S)

    def join(self) -> None:
        """Wait for the end. Raises AssertionError for a client that hangs."""
        self._thread.join(self._limit_s)
        if self._thread.is_alive():
            raise AssertionError(f"the client hangs, {self._limit_s} s after its engine left")

    def stop(self) -> None:
        """End the work and drop what it holds."""
        self._stops = True
        self.join()
        error = self.error
        while error is not None:  # their tracebacks hold the client's objects
            error.__traceback__ = None
            error = error.__cause__ or error.__context__


def checked(error: Exception) -> str:
    """Return the error's name; raises AssertionError for one that is none of the API's, or says nothing."""
    code: Any = getattr(error, "code", None)
    status: Any = code() if callable(code) else None
    name = type(error).__name__ if status is None else f"{type(error).__name__} {status.name}"
    known = isinstance(error, TransportError) or callable(code)
    text = str(getattr(error, "details", lambda: error)() if callable(code) else error)
    if not known or not text:
        raise AssertionError(f"the client got {name}: {text!r}") from error
    return name
