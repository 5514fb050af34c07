"""The transport without a wire, and an engine at several endpoints, in this process and in one of its own."""

import itertools
import re
import signal
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from lucky_transport import api
from lucky_transport.endpoint import Endpoint
from lucky_transport.engines.toy import ToyEngine
from lucky_transport.errors import (
    ClosedError,
    ConfigError,
    EngineFailed,
    LocalProtocolError,
    NotReachable,
    SpecError,
    TransportError,
    UnknownName,
)
from lucky_transport.futures import on_cancel, settle
from lucky_transport.host.host import Host
from lucky_transport.process import EngineProcess
from lucky_transport.serving import Server, Serving
from lucky_transport.testing.contract import TransportContract
from lucky_transport.transport import Capabilities
from tests.support.interrupted_moments import interrupted_at
from tests.support.scripted_engine import ScriptedEngine
from tests.support.waiting import PATIENCE_S, at_once


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


class Recorded(Server):
    """Writes down what happens to it."""

    def __init__(self, name: str, diary: list[str], *, fails: bool = False) -> None:
        self._name = name
        self._diary = diary
        self._fails = fails

    def start(self, host: Host) -> Endpoint:
        self._diary.append(f"start {self._name}")
        if self._fails:
            raise NotReachable("port taken")
        return Endpoint("test", self._name)

    def stop(self, grace_s: float = 1.0) -> None:
        self._diary.append(f"stop {self._name}")


def ending(diary: list[str]) -> ScriptedEngine:
    """Return an engine that writes down when it is closed."""
    return ScriptedEngine(on_close=lambda: diary.append("close engine"))


def test_servers_start_in_order_and_stop_in_reverse_before_the_engine() -> None:
    diary: list[str] = []
    with Serving(ending(diary), [Recorded("a", diary), Recorded("b", diary)]) as serving:
        assert [str(endpoint) for endpoint in serving.endpoints] == ["test://a", "test://b"]
    serving.stop()
    assert diary == ["start a", "start b", "stop b", "stop a", "close engine"]


def test_a_failed_start_stops_the_others_and_the_engine() -> None:
    diary: list[str] = []
    with pytest.raises(NotReachable, match="port taken"):
        Serving(ending(diary), [Recorded("a", diary), Recorded("b", diary, fails=True)])
    assert diary == ["start a", "start b", "stop a", "close engine"]


def test_several_threads_may_stop_it() -> None:
    diary: list[str] = []
    serving = Serving(ending(diary), [Recorded("a", diary)])
    at_once(*[serving.stop] * 4)
    assert diary == ["start a", "stop a", "close engine"]


@pytest.mark.exhaustive
def test_an_engine_process_is_ready_when_it_is_there_and_ends_when_told() -> None:
    process = EngineProcess("toy", ["inproc://a", "inproc://b"], num_envs=2, seed=3, options={"obs_size": 4})
    assert [str(endpoint) for endpoint in process.endpoints] == ["inproc://a", "inproc://b"]
    assert process.exit_report() == ""
    assert process.stop() == 0
    assert process.stop() == 0


def test_an_engine_process_that_never_gets_ready_tells_why() -> None:
    with pytest.raises(NotReachable, match="toy ended before it was ready: exit status 2"):
        EngineProcess("toy", ["inproc:"], options={"obs_size": 4}, wait="lazy")


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("engine", "options", "kind", "text"),
    [
        ("toy", {"obs_size": 0}, SpecError, "obs_size 0"),
        (
            "toy",
            {"obs_szie": 3},
            ConfigError,
            "engine 'toy' has no option 'obs_szie'; did you mean 'obs_size'? ",
        ),
        (
            "toy:idel",
            {},
            UnknownName,
            "engine 'toy' has no variant 'idel'; did you mean 'toy:idle'? use toy",
        ),
        ("gymnasium:CartPool-v1", {}, UnknownName, "no Gymnasium env 'CartPool-v1'; did you mean 'CartPole-v1'"),
        ("taoy", {}, UnknownName, "no engine 'taoy'; did you mean 'toy'? known: "),
    ],
)
def test_what_is_wrong_is_the_same_error_in_a_process_of_its_own(
    engine: str, options: dict[str, Any], kind: type[TransportError], text: str
) -> None:
    with pytest.raises(kind) as here:
        api.make_engine(engine, **options)
    with pytest.raises(kind) as there:
        EngineProcess(engine, ["inproc:"], options=options)
    assert text in str(there.value)
    assert (str(there.value), there.value.hint) == (str(here.value), here.value.hint)


@pytest.mark.parametrize("num_envs", [0, -1, 2.5, "4", True])
def test_an_impossible_number_of_envs_is_a_wrong_setting_everywhere(num_envs: Any) -> None:
    for attempt in (
        lambda: EngineProcess("toy", ["inproc:"], num_envs=num_envs),
        lambda: api.make_engine("toy", num_envs),
        lambda: api.make("toy", num_envs),
        lambda: api.make(num_envs=num_envs, endpoint="shm://lucky_absent", connect_timeout_s=0),
    ):
        with pytest.raises(ConfigError, match=r"num_envs = .*; expected a whole number of envs, at least 1"):
            attempt()


@pytest.mark.exhaustive
def test_what_a_failing_engine_said_on_stderr_is_in_its_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "talkative.py").write_text(
        "import gymnasium, sys\n"
        "def make(**options):\n"
        "    print('the motor is cold', file=sys.stderr)\n"
        "    raise RuntimeError('it does not start')\n"
        "gymnasium.register('Cold-v0', 'talkative:make')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(EngineFailed, match=r"RuntimeError: it does not start\n  the motor is cold$"):
        EngineProcess("gymnasium:talkative:Cold-v0", ["inproc:"])


@pytest.mark.exhaustive
def test_a_killed_engine_process_has_an_exit_report() -> None:
    process = EngineProcess("toy", ["inproc:"])
    process.kill()
    assert process.exit_report(PATIENCE_S) == "signal SIGKILL"
    assert process.stop() == -signal.SIGKILL
    assert process.exit_report() == "signal SIGKILL"
