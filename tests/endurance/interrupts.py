"""Signal handlers that raise at random moments: afterwards the connection is as usable as before.

    python -m tests.endurance.interrupts --interrupts 10000

A timer's signal interrupts what the main thread does with an engine, as Ctrl-C and time-outs by `signal.alarm` do.
After each interrupt the same connection, stream or session has to go on, and to do what was asked. One that hangs has
its threads printed and ends the run. Of an event loop tasks are cancelled at such moments (`interrupted_loops`).
"""

import contextlib
import faulthandler
import itertools
import random
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from lucky_transport import api
from lucky_transport.config import load_settings
from lucky_transport.deadline import Deadline
from lucky_transport.errors import Unimplemented
from lucky_transport.messages import SetStateRequest
from lucky_transport.messages.methods import method
from lucky_transport.process import EngineProcess, unique_name
from lucky_transport.sessions.client import SessionClient
from tests.endurance.interrupted_loops import (
    DEADLINE_S,
    LOOP_KINDS,
    SET_STATE,
    LoopWork,
    cancel,
    long_messages,
    long_state,
)
from tests.endurance.workloads import WORKLOADS, calls, steps, stubs

#: A connection that does nothing for so long hangs.
_HANGS_S = 60.0
_LONGEST_S = 0.004
#: Items of a stream that nobody reads to its end.
_MANY = 1 << 20
#: Items that are read in one go; three times as many need a grant.
_FEW = 20
#: The request for them, as a stub encodes it: field 2 is 1 << 20.
_MANY_ITEMS = b"\x10\x80\x80\x40"


class Interrupted(Exception):
    """What the signal handler raises."""


Work = Callable[[], object]


def _client(endpoint: str) -> Any:
    return api.connect(endpoint)


def _channel(endpoint: str) -> Any:
    from lucky_transport_stubs import channel

    return channel(endpoint)


def _long(endpoint: str) -> Iterator[Work]:
    """Messages beside the rings, of the client that steps; each one is another, as its memory is used again."""
    numbers = itertools.count(1)
    with api.open_transport(endpoint, load_settings({"command_timeout_s": DEADLINE_S})) as transport:

        def ask() -> None:
            state = long_state(next(numbers))
            assert transport.call(SET_STATE, SetStateRequest(0, state)).observation == state

        yield ask


def _stream(endpoint: str) -> Iterator[Work]:
    with _client(endpoint) as client:
        yield _reads(lambda: client.agent.stream_policy_slot_state(slot_id=_MANY), lambda item: item.slot_id)


def _streams(endpoint: str) -> Iterator[Work]:
    """Streams that are read a little further than their window is at first, each through several interrupts."""
    numbers: Iterator[int] = iter(())
    stream: Any = iter(())
    with _client(endpoint) as client:

        def read() -> None:
            nonlocal numbers, stream
            for _ in range(_FEW):
                if next(numbers, None) is None:
                    numbers, stream = iter(range(5 * _FEW)), client.agent.stream_policy_slot_state(slot_id=_MANY)
                next(stream)

        yield read


def _images(endpoint: str) -> Iterator[Work]:
    with _client(endpoint) as client:
        yield _reads(lambda: client.camera.stream_camera("front"), lambda item: item.frame_number)


def _stream_in_process(endpoint: str) -> Iterator[Work]:
    """The handler runs on the thread that is interrupted: its stream ends."""
    with _client(endpoint) as client:
        stream: Iterator[Any] = iter(())

        def read() -> None:
            nonlocal stream
            while next(stream, None) is None:
                stream = client.agent.stream_policy_slot_state(slot_id=_MANY)

        yield read


def _sessions(endpoint: str) -> Iterator[Work]:
    with api.open_transport(endpoint, load_settings({})) as transport:
        client = SessionClient(transport)
        session, runs = client.create(seed=1), client.create(seed=1)
        client.run(runs, 200.0)

        def advance() -> None:
            assert client.advance(session, 1, deadline=Deadline(DEADLINE_S)).ticks_done <= 1
            client.latest(runs, deadline=Deadline(DEADLINE_S))
            if client.state(session).is_over:
                client.restart(session, seed=1, deadline=Deadline(DEADLINE_S))

        yield advance


def _shared(endpoint: str) -> Iterator[Work]:
    """What is interrupted reads for a thread that is not: every call of that one ends well, every item comes once."""
    numbers, done = itertools.count(1), threading.Event()
    errors: list[BaseException] = []
    with _client(endpoint) as client:

        def beside() -> None:
            try:
                stream = client.agent.stream_policy_slot_state(slot_id=_MANY)
                for number in itertools.count():
                    assert next(stream).slot_id == number
                    assert client.lidar.get_lidar_beam_count(sensor=number % 1000).beams == number % 1000
                    if done.is_set():
                        return
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=beside, daemon=True)
        thread.start()

        def ask() -> None:
            number = next(numbers) % 1000
            assert client.lidar.get_lidar_beam_count(sensor=number).beams == number
            assert not errors, errors

        yield ask
        done.set()
        thread.join(DEADLINE_S)
        assert not thread.is_alive()
        assert not errors, errors


def _begun(endpoint: str) -> Iterator[Work]:
    """Calls under way while others are waited for."""
    row = method("LidarService/GetLidarBeamCount")
    numbers = itertools.count(1)
    with api.open_transport(endpoint, load_settings({})) as transport:

        def ask() -> None:
            number = next(numbers) % 1000
            futures = [transport.begin(row, row.request(sensor=number), Deadline(DEADLINE_S)) for _ in range(3)]
            futures[2].cancel()
            assert [future.result(DEADLINE_S).beams for future in futures[:2]] == [number] * 2

        yield ask


def _staged(endpoint: str) -> Iterator[Work]:
    """Reads with shadows, and what changes the world: nothing is under way afterwards, shadows are asked as before."""
    from lucky_transport_migration.routing.connection import RoutedConnection
    from lucky_transport_migration.routing.staged_transport import StagedTransport

    asked, changes = method("LidarService/GetLidarBeamCount"), method("LidarService/SetLidarPreset")
    numbers = itertools.count(1)
    control, candidate = (RoutedConnection(name, lambda: api.open_transport(endpoint)) for name in ("grpc", "shm"))
    with _router() as router, StagedTransport(control, candidate, router) as staged:

        def ask() -> None:
            number = next(numbers) % 1000
            assert staged.call(asked, asked.request(sensor=number), Deadline(DEADLINE_S)).beams == number
            if number % 4 == 0:
                with contextlib.suppress(Unimplemented):
                    staged.call(changes, changes.request(), Deadline(DEADLINE_S))

        yield ask
        assert router.workers.drain(Deadline(DEADLINE_S))
        assert staged._target.world.mark() > 0, "a change of the world is still under way"  # pyright: ignore[reportPrivateUsage]


@contextlib.contextmanager
def _router() -> Iterator[Any]:
    """A router that asks a shadow for every read."""
    from lucky_transport_migration.routing.evidence_policy import EvidencePolicy
    from lucky_transport_migration.routing.router import ProcessRouter

    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "lucky_transport.toml").write_text('[stages]\ndefault = "shadow"\n[gate]\ndemote = false\n')
        router = ProcessRouter(EvidencePolicy(Path(folder), tell=lambda line: None))
        try:
            yield router
        finally:
            router.close()


def _staged_stub(endpoint: str) -> Iterator[Work]:
    """Both sides are ours here: what a handler raises inside gRPC is gRPC's."""
    from lucky_transport_stubs import channel
    from lucky_transport_stubs.staged import channels

    sides = {name: lambda: channel(endpoint) for name in ("grpc", "shm")}
    with _router() as router:
        channels.open_router = lambda: router
        with channels.open_channel(endpoint, {name: make() for name, make in sides.items()}, sides, None) as opened:
            unary = opened.unary_unary("/hazel.rpc.SceneService/GetSceneInfo")

            def ask() -> None:
                assert unary(b"", timeout=DEADLINE_S)
                assert unary.future(b"", timeout=DEADLINE_S).result(timeout=DEADLINE_S)

            yield ask
            assert router.workers.drain(Deadline(DEADLINE_S))


def _stub_long(endpoint: str) -> Iterator[Work]:
    from lucky_transport_stubs import channel

    numbers = itertools.count(1)
    with channel(endpoint) as opened:
        unary = opened.unary_unary("/lucky_transport.v1.StateService/SetState")

        def ask() -> None:
            request, answer = long_messages(next(numbers))
            assert unary(request, timeout=DEADLINE_S) == answer

        yield ask


def _stub_future(endpoint: str) -> Iterator[Work]:
    with _channel(endpoint) as opened:
        unary = opened.unary_unary("/hazel.rpc.SceneService/GetSceneInfo")

        def ask() -> None:
            done: list[Any] = []
            future = unary.future(b"", timeout=DEADLINE_S)
            future.add_done_callback(done.append)
            assert future.result(timeout=DEADLINE_S)

        yield ask


def _stub_stream(endpoint: str) -> Iterator[Work]:
    with _channel(endpoint) as opened:
        many = opened.unary_stream("/hazel.rpc.AgentService/StreamPolicySlotState")
        answers = many(_MANY_ITEMS)
        short = itertools.count()

        def read() -> None:
            next(answers)
            if next(short) % 4 == 0:
                left = many(_MANY_ITEMS)
                next(left)
                left.cancel()

        yield read


def _reads(open_stream: Callable[[], Any], number_of: Callable[[Any], int]) -> Work:
    stream, last = open_stream(), -1

    def read() -> None:
        nonlocal last
        number = number_of(next(stream))
        assert number > last, f"{number} came after {last}"
        last = number

    return read


def _agent_step(endpoint: str) -> Iterator[Work]:
    """One call per agent: what is interrupted may have made some of the calls of an exchange."""
    yield from steps(f"{endpoint}?service=agent", step_timeout_s=DEADLINE_S)


#: Kind of work -> the engine, its endpoint's scheme, and what yields the work.
KINDS: dict[str, tuple[str, str, Callable[[str], Iterator[Work]]]] = {
    "unary": ("echo", "shm", calls),
    "long": ("echo", "shm", _long),
    "stream": ("echo", "shm", _stream),
    "streams": ("echo", "shm", _streams),
    "images": ("echo", "shm", _images),
    "shared": ("echo", "shm", _shared),
    "begun": ("echo", "shm", _begun),
    "step": ("echo", "shm", steps),
    "sessions": ("cartpole", "shm", _sessions),
    "staged": ("echo", "shm", _staged),
    "staged stub": ("echo", "shm", _staged_stub),
    "stub unary": ("echo", "shm", stubs),
    "stub long": ("echo", "shm", _stub_long),
    "stub future": ("echo", "shm", _stub_future),
    "stub stream": ("echo", "shm", _stub_stream),
    "stream in process": ("echo", "inproc", _stream_in_process),
    "step in process": ("echo", "inproc", steps),
    "sessions in process": ("cartpole", "inproc", _sessions),
    "grpc unary": ("echo", "grpc", calls),
    "grpc stream": ("echo", "grpc", _stream),
    "grpc images": ("echo", "grpc", _images),
    "grpc shared": ("echo", "grpc", _shared),
    "grpc begun": ("echo", "grpc", _begun),
    "grpc step": ("echo", "grpc", steps),
    "grpc agent step": ("echo", "grpc", _agent_step),
    "grpc agents step": ("echo", "grpc", _agent_step),
    "grpc sessions": ("cartpole", "grpc", _sessions),
    "aio stub unary": ("echo", "shm", WORKLOADS["aio"]),
    **LOOP_KINDS,
}


def interrupt(work: Work, times: int, moments: random.Random) -> int:
    """Interrupt the work so many times and do it twice after each; return how often the handler's error was lost.

    It is lost where Python can raise nothing: in a finalizer.
    """
    armed = False
    lost = 0

    def handler(*_: Any) -> None:
        nonlocal armed
        armed = False
        raise Interrupted

    before = signal.signal(signal.SIGALRM, handler)
    try:
        for _ in range(times):
            faulthandler.dump_traceback_later(_HANGS_S, exit=True)
            try:
                armed = True
                signal.setitimer(signal.ITIMER_REAL, moments.uniform(1e-6, _LONGEST_S))
                while armed:
                    work()
                    time.sleep(0)  # CPython 3.11 may leave a signal that another thread got until the GIL is taken
                lost += 1
            except Interrupted:
                pass
            except Exception as error:
                if "Exception " not in str(error):  # grpcio takes what is raised in a message's code for its failure
                    raise
            work()
            work()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        faulthandler.cancel_dump_traceback_later()
    return lost


def num_envs(kind: str) -> int:
    """Return how many envs the engine of that kind of work has."""
    return 3 if kind == "grpc agents step" else 1


def run(kinds: list[str], interrupts: int, seed: int, running: str = "") -> None:
    """Interrupt each kind of work so many times; one line each on stdout. running: the endpoint of an engine."""
    sys.unraisablehook = lambda args: None if args.exc_type is Interrupted else sys.__unraisablehook__(args)
    moments = random.Random(seed)
    for kind in kinds:
        engine, scheme, work = KINDS[kind]
        endpoint = "grpc://127.0.0.1:0" if scheme == "grpc" else f"{scheme}://{unique_name()}"
        with contextlib.ExitStack() as stack:
            if running:
                endpoint = running
            elif scheme == "inproc":
                stack.enter_context(api.serve(engine, endpoint))
            else:
                process = EngineProcess(engine, [endpoint], num_envs=num_envs(kind))
                stack.callback(process.stop)
                endpoint = str(process.endpoints[0])
            once = stack.enter_context(contextlib.contextmanager(work)(endpoint))
            is_loop = isinstance(once, LoopWork)
            lost = cancel(once, interrupts, moments) if is_loop else interrupt(once, interrupts, moments)
            print(f"{kind}: usable after each of {interrupts} interrupts, {lost} of them in finalizers", flush=True)


@click.command()
@click.option("--interrupts", default=1000, show_default=True, help="Of each kind of work.")
@click.option("--kind", "kinds", multiple=True, type=click.Choice(sorted(KINDS)), help="All when left out.")
@click.option("--seed", default=1, show_default=True)
@click.option("--endpoint", default="", help="Of a running engine of this kind of work; one is started when left out.")
def main(interrupts: int, kinds: tuple[str, ...], seed: int, endpoint: str) -> None:
    """Interrupt work with an engine at random moments."""
    run(list(kinds or KINDS), interrupts, seed, endpoint)


if __name__ == "__main__":
    main()
