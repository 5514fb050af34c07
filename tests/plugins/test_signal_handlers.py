"""An exception of the program's signal handler leaves the call that it interrupted as it is, even if it closed it."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest

from lucky_transport import api
from lucky_transport.config import load_settings
from lucky_transport.engine import RESET
from lucky_transport.messages.methods import method
from lucky_transport.process import unique_name
from lucky_transport.testing.images_contract import ImageEngine
from tests.support.scripted_engine import ScriptedEngine
from tests.support.waiting import PATIENCE_S

INFO = method("/hazel.rpc.SceneService/GetSceneInfo")


class Mine(Exception):
    """A program's own."""


RAISED = (SystemExit, KeyboardInterrupt, TimeoutError, ValueError, Mine)


@pytest.fixture
def struck() -> Iterator[Callable[[Callable[[], object], threading.Event], None]]:
    """Calls the first function in a handler of SIGUSR1 of the main thread, once the event is set."""
    before = signal.getsignal(signal.SIGUSR1)
    with ExitStack() as undo:
        undo.callback(signal.signal, signal.SIGUSR1, before)

        def strike(act: Callable[[], object], entered: threading.Event) -> None:
            signal.signal(signal.SIGUSR1, lambda *_: act())

            def kill() -> None:
                if entered.wait(PATIENCE_S):
                    time.sleep(0.02)  # the main thread goes on into its wait, as far as it has come
                    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)

            thread = threading.Thread(target=kill)
            thread.start()
            undo.callback(thread.join)

        yield strike


def endpoint_of(scheme: str) -> str:
    return f"{scheme}://{unique_name()}" if scheme in ("shm", "inproc") else f"{scheme}://127.0.0.1:0"


@pytest.mark.parametrize("raised", RAISED)
@pytest.mark.parametrize("closes", [True, False], ids=["it closes", "it does not close"])
@pytest.mark.parametrize("waits_in", ["step", "recv", "call"])
@pytest.mark.parametrize("transport", ["shm", "inproc", "grpc", "grpc agent", "openra"])
def test_it_leaves_the_call_as_it_is(
    transport: str, waits_in: str, closes: bool, raised: type[BaseException], struck: Any
) -> None:
    if transport not in ("shm", "inproc"):
        pytest.importorskip("grpc")
    scheme, _, service = transport.partition(" ")
    entered, release = threading.Event(), threading.Event()

    def hold(_: Any) -> Any:
        entered.set()
        release.wait(PATIENCE_S)
        return INFO.response()

    engine = ScriptedEngine(2, services={INFO.name: hold})
    with api.serve(engine, endpoint_of(scheme)) as serving:
        url = f"{serving.endpoints[0]}{'?service=' + service if service else ''}".replace("openra://", "grpc://")
        client = api.open_transport(url, load_settings({}))
        client.step(client.actions, np.full(client.spec.num_envs, RESET, np.uint8))
        engine.on_step = hold

        def act() -> None:
            if closes:
                client.close()
            release.set()
            raise raised("mine")

        struck(act, entered)
        if waits_in == "recv":
            client.send(client.actions)
        waits = {
            "step": lambda: client.step(client.actions),
            "recv": client.recv,
            "call": lambda: client.call(INFO, INFO.request()),
        }
        with pytest.raises(raised, match=r"^mine$") as caught:
            waits[waits_in]()
        assert type(caught.value) is raised
        if not closes:
            release.set()
            if waits_in != "call" and transport != "inproc":
                client.recv()  # the exchange is not lost
            client.call(INFO, INFO.request())
        client.close()


@pytest.mark.parametrize("raised", RAISED)
@pytest.mark.parametrize("scheme", ["shm", "inproc", "grpc"])
def test_it_leaves_a_stream_as_it_is(scheme: str, raised: type[BaseException], struck: Any) -> None:
    if scheme == "grpc":
        pytest.importorskip("grpc")
    first = threading.Event()
    with api.serve(ImageEngine(), endpoint_of(scheme)) as serving:
        client = api.open_transport(str(serving.endpoints[0]), load_settings({}))

        def act() -> None:
            client.close()
            raise raised("mine")

        struck(act, first)
        stream = method("/hazel.rpc.CameraService/StreamCamera")
        images = client.stream(stream, stream.request(name="agent_1/lens"))

        def read() -> None:
            for _ in images:
                first.set()

        with pytest.raises(raised, match=r"^mine$"):
            read()
