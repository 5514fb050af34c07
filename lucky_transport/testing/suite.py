"""What the contract suites work with: a client and an engine over one transport, and the same engine without a wire.

Each test gets an engine and a name of its own, so tests never meet.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import asdict
from typing import Any, TypeVar

import numpy as np
import pytest
from numpy.typing import NDArray

from lucky_transport import api, control, inproc
from lucky_transport.config import load_settings
from lucky_transport.deadline import Deadline
from lucky_transport.endpoint import Endpoint
from lucky_transport.engine import Engine
from lucky_transport.env.vector_env import VectorEnv
from lucky_transport.errors import Busy, ClosedError, NotReachable, PeerDied
from lucky_transport.host.host import Host
from lucky_transport.inproc import InprocTransport
from lucky_transport.messages import GetAgentSchemaRequest
from lucky_transport.messages.methods import method
from lucky_transport.process import unique_name
from lucky_transport.testing.needs import Suite
from lucky_transport.testing.trajectories import Trajectory, first_difference, record_env
from lucky_transport.transport import Capabilities, Frame, Transport

T = TypeVar("T")

_SCHEMA = method("AgentService/GetAgentSchema")

#: How long a test waits for what must happen; a server may notice a closed client a moment later.
PATIENCE_S = 60.0
#: What a client gets of an engine that has stopped; which of them depends on who notices it.
STOPPED = (PeerDied, ClosedError, NotReachable)
#: Time for a thread to get into its wait; where it is not in it yet, the outcome is the same.
_PARK_S = 0.1


@contextmanager
def open_reference(
    engine: str | Engine, num_envs: int = 4, *, observation_slots: int = 1, **options: Any
) -> Generator[Transport]:
    """Yield a client of a fresh engine without any wire."""
    host = Host(api.make_engine(engine, num_envs, **options) if isinstance(engine, str) else engine)
    client = InprocTransport(host, observation_slots)
    try:
        yield client
    finally:
        client.close()
        host.close()


def zeros(client: Transport) -> Any:
    """Return actions of zeros."""
    return np.zeros(client.spec.action_shape, client.spec.action.dtype)


def outcome(subject: T, call: Callable[[T], object]) -> str:
    """Return what the call raised, as "Class: text"; "no error" when it raised nothing."""
    try:
        call(subject)
    except Exception as error:  # whatever it is, it is what is compared
        return f"{type(error).__name__}: {error}"
    return "no error"


def outcome_when(end: Callable[[], object], subject: T, call: Callable[[T], object]) -> str:
    """Return the `outcome` of a call that waits on another thread until `end` is called on this one."""
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(outcome, subject, call)
        time.sleep(_PARK_S)
        end()
        return waiting.result(PATIENCE_S)


def every(client: Transport, code: int) -> Any:
    """Return control bytes, uint8 (num_envs,), with `code` for every env."""
    return np.full(client.spec.num_envs, code, np.uint8)


def frame_arrays(frame: Frame) -> dict[str, NDArray[Any]]:
    """Return the arrays of a frame by name."""
    return {name: getattr(frame, name) for name in ("observations", "rewards", "terminated", "truncated", "signals")}


def check_equal(found: Frame, expected: Frame, name: str = "") -> None:
    """Fail unless two frames have the same bits; `name` tells which they are."""
    for field, array in frame_arrays(found).items():
        assert array.tobytes() == frame_arrays(expected)[field].tobytes(), f"{field} {name}"


class TransportSuite(Suite):
    """What every suite of `TransportContract` uses; a subclass sets `endpoint`, or overrides `serve` and `connect`."""

    #: The URL to serve at; "{name}" is replaced by a name of its own in each test.
    endpoint: str = ""
    #: Settings of both ends (fields of `lucky_transport.config.Settings`).
    settings: Mapping[str, Any] = {}
    #: What the transport can do, with engines that have room for it; None: a test skips when it connects to less.
    declares: Capabilities | None = None
    #: False for a transport whose wire has a fixed meaning for each number, so that rows of bytes are refused.
    carries_parts: bool = True
    #: False when client and engine share a thread, so that nothing can be waited for.
    has_deadlines: bool = True

    @pytest.fixture(autouse=True)
    def skip_incapable(self, request: pytest.FixtureRequest) -> None:
        """Skip the test once it connects and lacks something, where the class declares nothing."""
        connect = self.connect

        def connect_or_skip(endpoint: Endpoint) -> Transport:
            client = connect(endpoint)
            for name in getattr(request.function, "needs", ()):
                if not getattr(client.capabilities, name, True):
                    client.close()
                    pytest.skip(f"transport {client.name!r} declares no {name}")
            return client

        if self.declares is None:
            self.connect = connect_or_skip

    @contextmanager
    def serve(self, engine: str | Engine = "toy", num_envs: int = 4, **options: Any) -> Generator[Endpoint]:
        """Yield the endpoint at which a fresh engine is served; override where an engine needs a process of its own."""
        endpoint = self.endpoint.format(name=unique_name())
        with api.serve(engine, endpoint, num_envs=num_envs, options=options, **self.settings) as serving:
            yield serving.endpoints[0]

    def open_reference(
        self, engine: str | Engine, num_envs: int = 4, **options: Any
    ) -> AbstractContextManager[Transport]:
        """Return a client of an equal engine without any wire; override where `serve` or `connect` prepare theirs."""
        return open_reference(engine, num_envs, **options)

    def connect(self, endpoint: Endpoint) -> Transport:
        """Return a client of the engine at `endpoint`."""
        return api.open_transport(endpoint, load_settings(self.settings))

    @contextmanager
    def open_client(self, engine: str | Engine = "toy", num_envs: int = 4, **options: Any) -> Generator[Transport]:
        """Yield a client of a fresh engine that is served over this transport."""
        with self.serve(engine, num_envs, **options) as endpoint, self.connect(endpoint) as client:
            yield client

    @contextmanager
    def open_both(
        self, engine: str | Callable[[], Engine] = "toy", num_envs: int = 4, **options: Any
    ) -> Generator[tuple[Transport, Transport]]:
        """Yield a client over this transport, and a client of an equal engine without any wire.

        engine: its name, or what makes one.
        """
        here, there = (engine, engine) if isinstance(engine, str) else (engine(), engine())
        with (
            self.open_client(here, num_envs, **options) as client,
            self.open_reference(there, num_envs, **options) as reference,
        ):
            yield client, reference

    @contextmanager
    def open_stopped(self, use: Callable[[Transport], T]) -> Generator[tuple[Transport, T]]:
        """Yield a client whose engine has stopped, and what `use` returned before that."""
        with ExitStack() as serving, self.connect(serving.enter_context(self.serve())) as client:
            used = use(client)
            serving.close()
            yield client, used

    def change_services(self, endpoint: Endpoint, **changes: Any) -> None:
        """Change what the engine at `endpoint` answers, as `ServiceSwitch.change` does; override where `serve` yields
        another endpoint than the engine's own.
        """
        if endpoint.scheme == "inproc":
            inproc.host_at(endpoint).switch.change(**changes)
        else:
            control.change(str(endpoint), **changes)

    def test_it_names_itself_and_has_the_capabilities_that_its_suite_declares(self) -> None:
        """With each engine that it can serve, as some capabilities come with the engine."""
        found: set[str] = set()
        for engine, options in (("toy", {}), ("toy", {"parallel_envs": 2}), ("cartpole", {})):
            with suppress(pytest.skip.Exception), self.open_client(engine, **options) as client:
                assert client.name
                found |= {name for name, has_it in asdict(client.capabilities).items() if has_it}
        assert found
        assert self.declares is None or found == {name for name, has_it in asdict(self.declares).items() if has_it}

    def check_refused(
        self, client: Transport, reference: Transport, call: Callable[[Transport], object], name: str = ""
    ) -> None:
        """Fail unless the call raises what it raises without a wire; `name` tells which call it is."""
        expected = outcome(reference, call)
        assert expected != "no error", name
        assert outcome(client, call) == expected, name

    def check_same_step(self, client: Transport, reference: Transport, code: int = 0, name: str = "") -> None:
        """Step both with actions of zeros and `code` for every env, and fail unless the frames have the same bits."""
        found, expected = (each.step(zeros(each), every(each, code)) for each in (client, reference))
        check_equal(found, expected, name)

    def check_same_episodes(self, client: Transport, reference: Transport, mode: str, steps: int) -> Trajectory:
        """Return what a `VectorEnv` in that autoreset mode answers; fail unless it is the same without a wire."""
        with VectorEnv(client, autoreset_mode=mode) as env, VectorEnv(reference, autoreset_mode=mode) as expected:
            found = record_env(env, steps, seed=11)
            assert found["truncated"].any()
            assert first_difference(found, record_env(expected, steps, seed=11)) is None
            return found

    def check_alive(self, client: Transport) -> None:
        """Fail unless the connection answers as if nothing had happened."""
        assert client.call(_SCHEMA, GetAgentSchemaRequest("agent_1")).schema.agent_name == "agent_1"

    def connect_when_free(self, endpoint: Endpoint) -> Transport:
        """Return a client that drives; the server may notice the last driver's close a moment later."""
        deadline = Deadline(PATIENCE_S)
        while True:
            client: Transport | None = None
            try:
                client = self.connect(endpoint)
                client.step(zeros(client))
                return client
            except Busy:
                if client is not None:
                    client.close()
                if deadline.expired:
                    raise
                time.sleep(0.01)
