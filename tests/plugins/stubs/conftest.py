"""What tests of threads and of asyncio share."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from tests.support.forked_programs import SWITCHED, Programs


@pytest.fixture(scope="session")
def forks() -> Iterator[Programs]:
    """Starts programs as forks of a Python that has imported grpc and what switches it."""
    with Programs(*SWITCHED, PYTHONUNBUFFERED="1", GRPC_VERBOSITY="NONE") as programs:
        yield programs


@pytest.fixture
def handlers_of() -> Callable[[Mapping[str, Any]], Any]:
    """Make the generic handler of service "t.Test" for behaviours, or handlers, by "arity Name"."""
    grpc = pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")

    def generic(methods: Mapping[str, Any]) -> Any:
        handlers: dict[str, Any] = {}
        for title, behaviour in methods.items():
            arity, _, name = title.partition(" ")
            make = getattr(grpc, f"{arity}_rpc_method_handler")
            handlers[name] = behaviour if isinstance(behaviour, grpc.RpcMethodHandler) else make(behaviour)
        return grpc.method_handlers_generic_handler("t.Test", handlers)

    return generic


@pytest.fixture(params=["threads", "asyncio"])
def driver(request: pytest.FixtureRequest) -> Any:
    """Callers of threads, or of asyncio, behind one face: a `Driver` of the differential."""
    from .differential.both import ASYNCIO, AioEnds, OverThreads
    from .differential.ends import OURS, Ends

    return AioEnds(OURS) if request.param == ASYNCIO else OverThreads(Ends(OURS))
