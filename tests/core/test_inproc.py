"""The transport without a wire keeps the contract; what calls and exchanges of a client may do in each state."""

import itertools
import re
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

from lucky_transport import api
from lucky_transport.engines.toy import ToyEngine
from lucky_transport.errors import ClosedError, LocalProtocolError
from lucky_transport.futures import on_cancel, settle
from lucky_transport.testing.contract import TransportContract
from lucky_transport.transport import Capabilities
from tests.support.interrupted_moments import interrupted_at


class TestInproc(TransportContract):
    declares = Capabilities(zero_copy=True, streams=True, sessions=True, async_envs=True)
    endpoint = "inproc://{name}"
    has_deadlines = False  # the engine runs in the client's own thread


def test_an_engine_without_a_name_gets_one() -> None:
    with api.serve("toy", "inproc:") as serving:
        assert str(serving.endpoints[0]).startswith("inproc://engine_")
        api.open_transport(serving.endpoints[0]).close()


def test_frames_are_views_of_the_engines_own_memory() -> None:
    with api.serve("toy", "inproc://views") as serving, api.open_transport("inproc://views") as client:
        assert client.capabilities.zero_copy
        frame = client.step(client.actions)
        shown = frame.observations.copy()
        client.step(client.actions)
        assert frame.observations.tobytes() != shown.tobytes()
        assert serving.host.driver.startswith("inproc client of pid")


def test_an_interrupted_close_is_made_by_the_next_one() -> None:
    with api.serve("toy", "inproc://left") as serving:
        for moment in itertools.count():
            client = api.open_transport("inproc://left")
            client.step(client.actions)
            is_interrupted = interrupted_at(moment, client.close)
            client.close()
            assert not serving.host.driver
            if not is_interrupted:
                break


def _send(client: Any) -> None:
    client.send(client.actions)


def _recv_envs(client: Any) -> None:
    client.recv_envs(1)


def _send_envs(client: Any) -> None:
    client.send_envs(client.actions)


#: What a client did before; what it may not do then, and why.
MISUSES: list[tuple[Callable[[Any], object], Callable[[Any], object], type[Exception], str]] = [
    (id, lambda client: client.recv(), LocalProtocolError, "recv() without a send(); call send(actions) first"),
    (id, _recv_envs, LocalProtocolError, "recv_envs() with no env under way; call send_envs() first"),
    (_send, _send, LocalProtocolError, "send() while a frame is outstanding; call recv() first"),
    (_send, _send_envs, LocalProtocolError, "send_envs() while a frame is outstanding; call recv() first"),
    (_send, _recv_envs, LocalProtocolError, "recv_envs() while a frame is outstanding; call recv() first"),
    (_send_envs, _send, LocalProtocolError, "send() while envs are under way; call recv_envs() until none is"),
    (
        _send_envs,
        lambda client: client.recv(),
        LocalProtocolError,
        "recv() while envs are under way; call recv_envs() ",
    ),
    *(
        (lambda client: client.close(), use, ClosedError, "the transport is closed; connect again")
        for use in (_send, _send_envs, _recv_envs, lambda client: client.recv())
    ),
]


@pytest.mark.parametrize(("before", "use", "kind", "text"), MISUSES)
def test_what_is_not_the_next_thing_is_refused_with_what_is(
    before: Callable[[Any], object], use: Callable[[Any], object], kind: type[Exception], text: str
) -> None:
    with api.serve(ToyEngine(2, parallel_envs=2), "inproc:") as serving:
        client = api.open_transport(serving.endpoints[0])
        before(client)
        with pytest.raises(kind, match=re.escape(text)):
            use(client)
        client.close()


def test_a_cancelled_future_tells_the_engine_once_and_makes_no_call() -> None:
    future: Future[Any] = Future()
    said: list[str] = []
    on_cancel(future, lambda: said.append("cancel"))
    assert future.cancel()
    assert future.cancel()
    settle(future, lambda: said.append("call"))
    assert said == ["cancel"]
