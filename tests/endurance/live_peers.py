"""The engine and the clients of `fuzz_live`: processes of their own, which say how their operations ended."""

from __future__ import annotations

import faulthandler
import json
import logging
import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from lucky_transport import api
from lucky_transport.config import Settings, load_settings
from lucky_transport.deadline import Deadline
from lucky_transport.errors import BrokenPlugin, TransportError
from lucky_transport.messages import GetCameraFrameRequest, LidarSensorRequest, StepRequest, StreamCameraRequest
from lucky_transport.messages.methods import method
from lucky_transport.sessions.client import SessionClient
from lucky_transport.shm.listener.connecting import connect_pipe
from lucky_transport.testing.image_engine import ImageEngine, pixels
from tests.endurance.checked_engine import LONG_SENSOR, CheckedSteps, angles, observations
from tests.endurance.workloads import WrongAnswer

__all__ = ["LiveClients", "LiveEngine"]

_ANGLES, _STEP = method("LidarService/GetLidarBeamAngles"), method("AgentService/Step")
_CAMERA = method("CameraService/StreamCamera")
_SHOT = StepRequest(camera_requests=[GetCameraFrameRequest(name="any")])
#: Of an image, pixels. It is the same every 256 images.
_SIDE = 32
#: Operations that fail one after the other until a transport is of no use any more.
_FAILURES = 12


class LiveEngine(CheckedSteps, ImageEngine):
    """Answers that follow from their requests, and images that follow from their numbers."""

    def __init__(self, num_envs: int = 2) -> None:
        super().__init__(num_envs, width=_SIDE, height=_SIDE)


def _engine(name: str) -> None:
    logging.basicConfig(format="%(levelname)s %(message)s", level=logging.ERROR)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    parent = os.getppid()
    with api.serve(LiveEngine(2), f"shm://{name}"), api.serve("cartpole", f"shm://{name}_worlds"):
        print("ready", flush=True)
        while os.getppid() == parent:
            time.sleep(1)


class LiveClients:
    """Threads that work through transports and count what comes of it, until the time is over.

    is_exact: an answer that is not right is an error; else only its form is looked at, for its content was rewritten.
    """

    def __init__(self, name: str, seconds: float, is_exact: bool) -> None:
        self.seen: Counter[str] = Counter()
        self._name, self._is_exact = name, is_exact
        self._end = time.monotonic() + seconds
        self._settings: Settings = load_settings(
            {"connect_timeout_s": 0.5, "step_timeout_s": 0.5, "command_timeout_s": 0.5}
        )
        self._faults: list[BaseException] = []
        self._lock = threading.Lock()
        self._drives = False
        self._sensor = 0
        self._snapshots: dict[int, Any] = {}

    def run(self) -> Counter[str]:
        """Return the counts. Raises what was no TransportError."""
        works = (self._step, self._command, self._look, self._greet)
        threads = [threading.Thread(target=self._repeat, args=(work,)) for work in works]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self._faults:
            raise self._faults[0]
        return self.seen

    def _repeat(self, work: Callable[[], None]) -> None:
        while time.monotonic() < self._end and not self._faults:
            try:
                if not self._try("connect", work):
                    time.sleep(0.01)
            except BaseException as error:
                self._faults.append(error)

    def _try(self, what: str, operation: Callable[[], Any]) -> bool:
        """Count how the operation ends; True for an answer."""
        try:
            operation()
        except TransportError as error:
            if (
                isinstance(error, BrokenPlugin) and error.__cause__ is not None
            ):  # one that the shm plugin did not foresee
                raise
            outcome = type(error).__name__
        else:
            outcome = "answer"
        with self._lock:
            self.seen[f"{what}: {outcome}"] += 1
        return outcome == "answer"

    def expect(self, what: str, found: Any, expected: Any) -> None:
        """Count, or raise WrongAnswer for, what is not as it should be."""
        if np.array_equal(found, expected):
            return
        if self._is_exact:
            raise WrongAnswer(f"{what}: {found!r:.200}, expected {expected!r:.200}")
        with self._lock:
            self.seen[f"{what}: rewritten"] += 1

    def _loop(self, operations: dict[str, Callable[[], Any]]) -> None:
        """Go on until most of the operations fail: then this transport is of no use any more."""
        failures = 0
        while time.monotonic() < self._end and failures < _FAILURES:
            for what, operation in operations.items():
                failures = max(0, failures - 1) if self._try(what, operation) else failures + 1

    # -- what they do -------------------------------------------------------------------------------------------------

    def _step(self) -> None:
        with api.open_transport(f"shm://{self._name}", self._settings) as client:
            shown = client.actions
            self._drives = not self._drives  # a call of Step would drive too, and one of them is Busy then
            own = {"step": lambda: self._steps(client)} if self._drives else {"call with image": lambda: _shot(client)}
            self._loop(
                {
                    **own,
                    "call": lambda: self._call(client),
                    "image stream": lambda: self._stream(client, copy=True),
                    "image views": lambda: self._stream(client, copy=False),
                }
            )
        shown.sum()

    def _steps(self, client: Any) -> None:
        for number in range(20):
            actions = np.full(client.actions.shape, number / 100, np.float32)
            frame = client.step(actions)
            self.expect("step", frame.observations, observations(actions, client.spec.observation.shape[0]))
            self.expect("step", frame.rewards, actions[:, 0])

    def _command(self) -> None:
        time.sleep(0.05)
        with api.open_transport(f"shm://{self._name}", self._settings) as client:
            if client.capabilities.lockstep:  # it came first, and the place is the other thread's
                return
            self._loop(
                {
                    "call beside": lambda: self._call(client),
                    "long call beside": lambda: self._call(client, LONG_SENSOR),
                    "image stream beside": lambda: self._stream(client, copy=True),
                }
            )

    def _call(self, client: Any, sensor: int = 0) -> None:
        if not sensor:
            with self._lock:
                self._sensor = sensor = self._sensor % 900 + 10
        answer = client.call(_ANGLES, LidarSensorRequest(sensor))
        self.expect("call", answer.beams, sensor)
        self.expect("call", answer.azimuth, angles(sensor))

    def _stream(self, client: Any, *, copy: bool) -> None:
        request = StreamCameraRequest(name="endless")
        with client.stream(_CAMERA, request, Deadline(1), copy=copy) as stream:
            for _ in range(10):
                image = next(stream)
                data = np.frombuffer(image.data, np.uint8)
                if copy:  # a view shows what is written into it meanwhile
                    self.expect("image", data, pixels(image.frame_number % 256, _SIDE, _SIDE).ravel())
                data.sum()

    def _look(self) -> None:
        with api.open_transport(f"shm://{self._name}_worlds", self._settings) as client:
            sessions = SessionClient(client)
            session = sessions.create(seed=1, options={"max_ticks": 1_000_000_000})
            looks = sessions.watch(session)
            try:
                self._loop(
                    {
                        "snapshot": lambda: [self._snapshot(looks) for _ in range(20)],
                        "advance": lambda: sessions.advance(session, 1),
                    }
                )
            finally:
                looks.close()

    def _snapshot(self, looks: Any) -> None:
        """The same seed and ticks give the same world."""
        seen = looks.latest(-1, Deadline(0.5))
        self.expect("snapshot", seen.observation, self._snapshots.setdefault(seen.ticks, seen.observation))

    def _greet(self) -> None:
        """Connect to what is no engine: everything that it says is wrong."""
        pipe = connect_pipe(f"{self._name}_false", Deadline(0.0), answer_s=0.2)
        pipe.close()
        raise WrongAnswer("a client connected to what is no engine")


def _shot(client: Any) -> None:
    client.call(_STEP, _SHOT)


def _main(role: str, name: str, *arguments: str) -> None:
    faulthandler.register(signal.SIGUSR1)
    if role == "engine":
        _engine(name)
    else:
        seconds, rewritten = arguments
        print(json.dumps(LiveClients(name, float(seconds), rewritten == "words").run()))


if __name__ == "__main__":
    _main(*sys.argv[1:])
