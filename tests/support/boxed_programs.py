"""What tests run in boxes: `python -m tests.support.boxed_programs engine|uses|steps|waits NAME`."""

import ctypes
import sys
import time

import numpy as np

import lucky_transport
import lucky_transport_stubs
from lucky_transport import api
from lucky_transport.config import load_settings
from lucky_transport.engine import RESET
from lucky_transport.errors import TransportError
from lucky_transport.sessions.client import SessionClient
from lucky_transport.testing.images_contract import ImageEngine
from lucky_transport.transport import Transport
from tests.support.waiting import PATIENCE_S

SCHEMA = "/hazel.rpc.AgentService/GetAgentSchema"
COMMANDS = "_commands"


def engine(name: str, forks: str = "") -> None:
    """Serve a batch with sessions at NAME, and images beside it.

    forks: a C library forks a worker, whose pid is printed.
    """
    with (
        api.serve("cartpole", f"shm://{name}", num_envs=2),
        api.serve(ImageEngine(), f"shm://{name}{COMMANDS}"),
    ):
        if forks:
            worker = ctypes.CDLL(None).fork()  # not os.fork: nothing of ours is told of it
            if not worker:
                time.sleep(600)
            print(worker, flush=True)
        print("ready", flush=True)
        time.sleep(600)


def _open(name: str) -> Transport:
    patient = load_settings({"connect_timeout_s": PATIENCE_S, "step_timeout_s": PATIENCE_S})
    return api.open_transport(f"shm://{name}", patient)


def _reset(client: Transport) -> None:
    client.step(client.actions, control=np.full(client.spec.num_envs, RESET, np.uint8))


def uses(name: str) -> None:
    """Use every kind of call once, and print it."""
    with _open(name) as driver, _open(name) as other:
        _reset(driver)
        assert driver.step(driver.actions).seq == 2
        print("steps", flush=True)
        for client in (driver, other):
            sessions = SessionClient(client)
            session = sessions.create(seed=1)
            sessions.advance(session, 3)
            assert sessions.latest(session, 2).ticks == 3
        print("sessions", flush=True)
    with lucky_transport.connect(f"shm://{name}{COMMANDS}") as client:
        assert client.agent.get_schema().schema is not None
        print("calls", flush=True)
        assert [frame.frame_number for frame in client.camera.stream("drawn", fps=3)] == [1, 2, 3]
        print("images", flush=True)
    with lucky_transport_stubs.channel(f"shm://{name}{COMMANDS}") as channel:
        assert channel.unary_unary(SCHEMA)(b"", timeout=PATIENCE_S)
        print("stubs", flush=True)


def steps(name: str) -> None:
    """Step until that fails, and print the error; the first line says that it steps."""
    with _open(name) as client:
        _reset(client)
        print("steps", flush=True)
        try:
            while True:
                client.step(client.actions)
        except TransportError as error:
            print(f"{type(error).__name__}: {error}", flush=True)


def waits(name: str) -> None:
    """Wait for a call of a client of its own connection until that fails, and print the error."""
    with _open(name), lucky_transport.connect(f"shm://{name}") as client:
        print("waits", flush=True)
        try:
            while True:
                client.agent.get_schema()
        except TransportError as error:
            print(f"{type(error).__name__}: {error}", flush=True)


if __name__ == "__main__":
    {one.__name__: one for one in (engine, uses, steps, waits)}[sys.argv[1]](*sys.argv[2:])
