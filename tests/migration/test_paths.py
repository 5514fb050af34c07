"""The ways to an engine by name, several at once, and a test's own gRPC while it is switched."""

import asyncio
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from lucky_transport import api
from lucky_transport.deadline import Deadline
from lucky_transport.env.vector_env import VectorEnv
from lucky_transport.errors import ConfigError, SpecError, TransportError, UnknownName
from lucky_transport.hookspecs import TransportInfo
from lucky_transport.process import unique_name
from lucky_transport.registry import registry
from lucky_transport.transport import Frame
from lucky_transport_migration.compare.rules import ComparisonRules
from lucky_transport_migration.paths import ConnectedEngine, Path, find_path, label, open_links
from lucky_transport_migration.side_by_side.comparison_counts import ComparisonCounts
from lucky_transport_migration.side_by_side.hooks import SwitchedGrpc
from lucky_transport_migration.side_by_side.tee_transport import SideBySideTransport
from tests.planted.plant import PlantedTransport


def test_legacy_grpc_and_the_batch_service_are_one_transport_with_different_options() -> None:
    pytest.importorskip("grpc")
    legacy, batch = find_path("grpc"), find_path("grpc-batch")
    assert legacy.transport == batch.transport == "grpc"
    assert legacy.options != batch.options


def test_any_transport_of_the_registry_is_a_path() -> None:
    assert find_path("inproc") == Path("inproc", "inproc")


def test_an_unknown_path_names_the_known_ones() -> None:
    with pytest.raises(UnknownName, match=r"known: .*inproc"):
        find_path("carrier-pigeon")


def test_a_transport_that_cannot_start_an_engine_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    info = TransportInfo("remote", ("remote",), "a:b", "a:b", "a test")
    monkeypatch.setitem(registry().transports, "remote", info)
    with pytest.raises(ConfigError, match="cannot start an engine by itself"):
        find_path("remote")


def test_labels_are_words_and_unknown_paths_keep_their_name() -> None:
    assert label("grpc") == "legacy gRPC"
    assert label("pigeon") == "pigeon"


def test_a_link_ends_its_engine_process() -> None:
    with ConnectedEngine(find_path("shm"), "toy", 2, seed=0) as link:
        assert link.pid is not None
        assert os.path.exists(f"/proc/{link.pid}")
        assert link.transport.step(link.transport.actions).seq == 1
    assert not os.path.exists(f"/proc/{link.pid}")
    link.close()


def test_when_one_link_fails_the_others_are_closed() -> None:
    paths = [find_path("inproc"), find_path("shm")]
    started: list[ConnectedEngine] = []

    def start(path: Path) -> ConnectedEngine:
        link = ConnectedEngine(path, "toy", 1, options={} if path.name == "shm" else {"obs_size": 0})
        started.append(link)
        return link

    with pytest.raises(TransportError, match="obs_size"), ExitStack() as stack:
        open_links(stack, paths, start)
    (link,) = started
    assert link.pid is not None
    assert not os.path.exists(f"/proc/{link.pid}")


def test_an_engine_that_cannot_start_is_reported_with_its_own_words() -> None:
    with pytest.raises(SpecError, match="obs_size 0"):
        ConnectedEngine(find_path("shm"), "toy", 1, options={"obs_size": 0})


class EarlyStep(PlantedTransport):
    """An engine that has made each step before anything else is asked of it."""

    _frame: Frame | None = None

    def send(self, actions: NDArray[Any], control: NDArray[np.uint8] | None = None) -> None:
        super().send(actions, control)
        self._frame = super().recv()

    def recv(self, deadline: Deadline | None = None) -> Frame:
        assert self._frame is not None
        return self._frame


class LateStep(PlantedTransport):
    """An engine that begins each step only when its frame is asked for."""

    _waits: tuple[Any, ...] = ()

    def send(self, actions: NDArray[Any], control: NDArray[np.uint8] | None = None) -> None:
        self._waits = (actions.copy(), control)

    def recv(self, deadline: Deadline | None = None) -> Frame:
        if self._waits:
            super().send(*self._waits)
            self._waits = ()
        return super().recv(deadline)


def test_a_typed_call_beside_a_step_is_compared_in_the_state_after_it() -> None:
    with ExitStack() as stack:
        served = [stack.enter_context(api.serve("toy", f"inproc://{unique_name()}", num_envs=2)) for _ in range(2)]
        one, other = (stack.enter_context(closing(api.open_transport(str(each.endpoints[0])))) for each in served)
        counts = ComparisonCounts()
        env = VectorEnv(
            SideBySideTransport({"early": EarlyStep(one), "late": LateStep(other)}, ComparisonRules(), counts)
        )
        env.reset(seed=1)
        for _ in range(5):
            env.step_async(np.full(env.batch_spec.action_shape, 0.5, np.float32))
            env.client.mujoco.get_joint_state("agent_1")
            env.step_wait()
        assert (counts.exchanges, counts.calls, counts.differences) == (6, 6, [])


grpc = pytest.importorskip("grpc")
METHOD = "/weather.v1.Weather/GetForecast"


@pytest.fixture(scope="module")
def target() -> Iterator[str]:
    server = grpc.server(ThreadPoolExecutor(2))
    forecast = {"GetForecast": grpc.unary_unary_rpc_method_handler(lambda request, context: request)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("weather.v1.Weather", forecast),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop(None)


@pytest.fixture(scope="module")
def switch() -> Iterator[SwitchedGrpc]:
    switch = SwitchedGrpc()
    yield switch
    switch.close()


Caller = Callable[[], Any]


def channel_of_this_thread(target: str) -> Caller:
    method = grpc.insecure_channel(target).unary_unary(METHOD)
    return lambda: method(b"Oslo")


def channel_of_another_thread(target: str) -> Caller:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(channel_of_this_thread, target).result()


def channel_of_asyncio(target: str) -> Caller:
    loop = asyncio.new_event_loop()

    async def make() -> Any:
        return grpc.aio.insecure_channel(target).unary_unary(METHOD)

    async def ask(method: Any) -> Any:
        return await method(b"Oslo")

    method = loop.run_until_complete(make())
    return lambda: loop.run_until_complete(ask(method))


@pytest.mark.parametrize("make", [channel_of_this_thread, channel_of_another_thread, channel_of_asyncio])
def test_calls_by_a_channel_that_was_made_before_are_seen(
    make: Callable[[str], Caller], target: str, switch: SwitchedGrpc
) -> None:
    call = make(target)
    call()
    before = switch.counts()
    with switch.switched():
        assert switch.since(before) == (0, "")
        assert call() == b"Oslo"
        assert f"1 call went over gRPC, none over shared memory ({target}: " in switch.since(before)[1]
