"""Two servers of one service, real gRPC and shared memory, a policy that does as it is told, and staged channels."""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from lucky_transport.routing import Decision
from tests.migration.conftest import FakePolicy
from tests.support.resources import threads_of
from tests.support.waiting import PATIENCE_S, until_none_left

grpc = pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")


import lucky_transport_stubs  # noqa: E402 - needs grpc
from lucky_transport_migration.compare.items import ItemDigest  # noqa: E402
from lucky_transport_migration.compare.rules import ComparisonRules  # noqa: E402
from lucky_transport_migration.routing.router import ProcessRouter  # noqa: E402
from lucky_transport_stubs.staged import channels  # noqa: E402

from ..differential.both import THREADS, Driver  # noqa: E402
from ..differential.ends import REAL, Ends, path  # noqa: E402
from ..differential.samples import ECHOES  # noqa: E402

SHADOWED = Decision("grpc", "shm", "shadow")
ECHO, COUNT, SUM, CHAT = map(path, ("Echo", "Count", "Sum", "Chat"))


class ToldPolicy(FakePolicy):
    """Decides as it is told; `notes` holds what came of it."""

    is_closed = False

    def digest(self, method: str, decision: Decision) -> Any:
        return ItemDigest(None, ComparisonRules()) if decision.shadow else None

    def close(self) -> None:
        self.is_closed = True

    def wait(self, count: int = 1) -> list[Any]:
        """Return what was noted, once it is that much."""
        with self._news:
            assert self._news.wait_for(lambda: len(self.notes) >= count, PATIENCE_S), f"only {len(self.notes)} noted"
            return self.notes

    def only(self) -> Any:
        """Return the one comparison there is."""
        (comparison,) = self.wait()
        return comparison


class Pair:
    """Where the two servers of a service are; `control` is the one over gRPC."""

    def __init__(self, target: str, endpoint: str, control: Any) -> None:
        self.target = target
        self.endpoint = endpoint
        self.control = control

    def blocking(self) -> dict[str, Callable[[], Any]]:
        return {
            "grpc": lambda: grpc.insecure_channel(self.target),
            "shm": lambda: lucky_transport_stubs.channel(self.endpoint),
        }

    def channel(self) -> Any:
        sides = {name: make() for name, make in self.blocking().items()}
        return channels.open_channel(self.target, sides, self.blocking(), None)

    def aio_channel(self, **options: Any) -> Any:
        sides = {
            "grpc": grpc.aio.insecure_channel(self.target),
            "shm": lucky_transport_stubs.aio_channel(self.endpoint),
        }
        return channels.open_aio_channel(self.target, sides, self.blocking(), None, **options)

    @asynccontextmanager
    async def opened(self, driver: Driver) -> AsyncIterator[Any]:
        """Give a channel of this driver."""
        channel = self.channel() if driver.driver == THREADS else self.aio_channel()
        yield channel
        await driver.close(channel)


@pytest.fixture
def policy() -> ToldPolicy:
    return ToldPolicy(SHADOWED)


@pytest.fixture(autouse=True)
def router(policy: ToldPolicy, monkeypatch: pytest.MonkeyPatch) -> Iterator[ProcessRouter]:
    """The router of all staged channels of a test."""
    router = ProcessRouter(policy)
    monkeypatch.setattr(channels, "open_router", lambda: router)
    before = set(threads_of("shadow calls", "ended calls"))
    yield router
    router.close()
    until_none_left(lambda: set(threads_of("shadow calls", "ended calls")) - before)


Serve = Callable[..., Pair]


@pytest.fixture
def serve(ends: Ends) -> Iterator[Serve]:
    """Serve `control` over gRPC and `candidate` (default: the same) over shared memory: `serve(control, candidate)`."""
    with Ends(REAL) as real:

        def serve(control: dict[str, Any] = ECHOES, candidate: dict[str, Any] | None = None) -> Pair:
            theirs, ours = real.serve(control), ends.serve(control if candidate is None else candidate)
            return Pair(theirs.target, ours.target, theirs.server)

        yield serve


@pytest.fixture
def pair(serve: Serve) -> Pair:
    return serve()


@pytest.fixture
def channel(pair: Pair) -> Iterator[Any]:
    with pair.channel() as channel:
        yield channel
