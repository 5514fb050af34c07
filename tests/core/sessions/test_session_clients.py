"""Clients of sessions: many calls under way together, answers that make no sense, batches of sessions as one env."""

from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future
from contextlib import closing
from typing import Any

import numpy as np
import pytest

from lucky_transport import api
from lucky_transport.deadline import Deadline
from lucky_transport.engine import HOLD, RESET, TICK, Engine
from lucky_transport.engines.cartpole import CartPoleWorlds, make_engine
from lucky_transport.env.vector_env import VectorEnv
from lucky_transport.errors import (
    Busy,
    ClosedError,
    ConfigError,
    LocalProtocolError,
    PeerDied,
    PeerTimeout,
    RemoteProtocolError,
    SessionEnded,
    SpecError,
    Unimplemented,
)
from lucky_transport.host.host import Host
from lucky_transport.inproc import InprocTransport
from lucky_transport.messages import AdvanceSessionResponse, SessionStatus, SetSeedsRequest
from lucky_transport.messages.methods import method
from lucky_transport.process import unique_name
from lucky_transport.sessions.api import AdvanceRequest, AdvanceResult, WorldSnapshot
from lucky_transport.sessions.batch import WorldsEngine
from lucky_transport.sessions.batch_advance import MAX_IN_FLIGHT, BatchAdvance
from lucky_transport.sessions.client import SessionClient, worlds_of
from lucky_transport.sessions.session import SessionLimits
from lucky_transport.sessions.sessions import Sessions
from lucky_transport.sessions.transport import SessionTransport
from lucky_transport.testing.contract import EngineContract
from lucky_transport.testing.suite import every, open_reference, zeros
from tests.core.sessions.conftest import Limited
from tests.support.scripted_engine import ScriptedEngine
from tests.support.waiting import in_a_child, until


@pytest.mark.parametrize("engine", ["toy", "toy:idle", "mujoco:quadruped", "gymnasium:CartPole-v1", "one's own"])
def test_an_engine_without_sessions_says_so_whatever_its_variant(engine: str) -> None:
    with pytest.raises(Unimplemented, match=rf"^engine '?\"?{engine}'?\"? has no sessions; step it as a batch$"):
        worlds_of(engine)


def test_a_variant_of_an_engine_with_sessions_has_them() -> None:
    assert worlds_of("cartpole:any").__class__ is worlds_of("cartpole").__class__


@pytest.mark.parametrize("transport", ["inproc", "shm"])
def test_a_session_of_a_running_batch_engine_is_unimplemented(transport: str) -> None:
    with (
        api.serve("toy", f"{transport}://{unique_name()}") as serving,
        api.open_transport(serving.endpoints[0]) as client,
        pytest.raises(Unimplemented, match="engine 'toy' has no sessions"),
    ):
        SessionClient(client)


@pytest.fixture
def newer() -> Iterator[SessionClient]:
    """A client of an engine that knows other phases, and advances without showing its world."""
    service = "/lucky_transport.v1.SessionService/"
    answers = {
        f"{service}GetSession": lambda request: SessionStatus(phase="melting"),
        f"{service}AdvanceSession": lambda request: AdvanceSessionResponse(),
    }
    with api.serve(ScriptedEngine(services=answers), "inproc:") as serving:
        client = api.open_transport(serving.endpoints[0])
        yield SessionClient(client, worlds_of("cartpole"))
        client.close()


@pytest.mark.parametrize(
    ("ask", "text"),
    [
        (lambda sessions: sessions.state("one"), "a session is in phase 'melting'; is the engine newer than this"),
        (lambda sessions: sessions.advance("one"), "the engine's answer shows no world; the peer is broken"),
    ],
    ids=["phase", "world"],
)
def test_an_answer_that_cannot_be_understood_is_the_peers_fault(
    newer: SessionClient, ask: Callable[[SessionClient], Any], text: str
) -> None:
    with pytest.raises(RemoteProtocolError, match=text):
        ask(newer)


@pytest.mark.parametrize("value", [float("nan"), {1, 2}, object()], ids=["no number", "a set", "an object"])
def test_options_that_are_no_json_are_refused_before_anything_is_sent(newer: SessionClient, value: Any) -> None:
    with pytest.raises(SpecError, match="the session's options cannot go to the engine as JSON: "):
        newer.create(options={"wind": value})


def test_options_that_are_no_json_object_are_refused_by_the_engine() -> None:
    create = method("SessionService/CreateSession")
    with open_reference("cartpole", 1) as client, pytest.raises(SpecError, match=r"'\[\]' is no JSON object"):
        client.call(create, create.request(options_json="[]"))


def outcome(ticks: int) -> AdvanceResult:
    return AdvanceResult(None, ticks, False, "", 0.0)


class Wire:
    """Calls that are answered by a script. log: what happened; answers: what comes of the nth call begun."""

    def __init__(self, *answers: AdvanceResult | BaseException) -> None:
        self.log: list[str] = []
        self.most_under_way = 0
        self.under_way = 0
        self._answers = iter(answers)

    def begin(self) -> Future[Any]:
        answer = next(self._answers)
        self.log.append("begin")
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        return Call(self, answer)

    def advance(self, requests: int) -> BatchAdvance:
        return BatchAdvance([self.begin] * requests, lambda done: done)


class Call(Future[Any]):
    """One of them."""

    def __init__(self, wire: Wire, answer: AdvanceResult | BaseException) -> None:
        super().__init__()
        self._wire = wire
        self._answer = answer

    def result(self, timeout: float | None = None) -> Any:
        self._wire.log.append("await")
        if isinstance(self._answer, KeyboardInterrupt):
            raise self._answer
        self._wire.under_way -= 1
        if isinstance(self._answer, BaseException):
            raise self._answer
        return self._answer

    def cancel(self) -> bool:
        self._wire.under_way -= 1
        self._wire.log.append("cancel")
        return True


def test_all_calls_are_begun_before_the_first_is_awaited() -> None:
    wire = Wire(outcome(1), outcome(2), outcome(3))
    assert wire.advance(3).run() == [outcome(1), outcome(2), outcome(3)]
    assert wire.log == ["begin"] * 3 + ["await"] * 3


def test_the_first_error_is_raised_when_all_have_ended() -> None:
    wire = Wire(outcome(1), SessionEnded("second"), PeerDied("third"), outcome(4))
    with pytest.raises(SessionEnded, match="second"):
        wire.advance(4).run()
    assert wire.under_way == 0


def test_a_request_that_cannot_be_begun_stops_no_other() -> None:
    wire = Wire(outcome(1), outcome(2))

    def refuse() -> Future[Any]:
        raise PeerDied("gone")

    with pytest.raises(PeerDied, match="gone"):
        BatchAdvance([wire.begin, refuse, wire.begin], lambda done: done).run()
    assert wire.log == ["begin", "begin", "await", "await"]


def test_what_was_refused_is_begun_again_once_others_are_done() -> None:
    wire = Wire(Busy("no slot"), outcome(2), Busy("no slot"), outcome(1), Busy("no slot"), outcome(3))
    assert wire.advance(3).run() == [outcome(1), outcome(2), outcome(3)]


def test_busy_is_raised_when_a_whole_round_was_refused_and_the_others_stay_done() -> None:
    wire = Wire(outcome(1), Busy("no slot"), Busy("no slot"), outcome(2))
    together = wire.advance(2)
    with pytest.raises(Busy, match="no slot"):
        together.run()
    assert together.run() == [outcome(1), outcome(2)]


def test_so_many_calls_are_under_way_and_no_more() -> None:
    count = 2 * MAX_IN_FLIGHT + 1
    wire = Wire(*(outcome(ticks) for ticks in range(count)))
    assert [done.ticks for done in wire.advance(count).run()] == list(range(count))
    assert wire.most_under_way == MAX_IN_FLIGHT


def test_ctrl_c_leaves_no_call_open() -> None:
    wire = Wire(outcome(1), KeyboardInterrupt(), outcome(3))
    with pytest.raises(KeyboardInterrupt):
        wire.advance(3).run()
    assert wire.under_way == 0


# in the engine's own process


def test_more_requests_than_slots_are_no_reason_for_busy(limited: Limited, worlds: Any) -> None:
    with limited(slots=1, slot_timeout_s=0.0) as sessions:
        ids = [sessions.create() for _ in range(8)]
        for session in ids:
            sessions.latest(session)
        assert [done.ticks for done in sessions.advance_all([AdvanceRequest(session) for session in ids])] == [1] * 8


@pytest.fixture
def carts() -> Generator[Sessions]:
    sessions = Sessions(CartPoleWorlds(), "cartpole")
    yield sessions
    sessions.close()


def test_a_session_that_is_lost_fails_the_exchange_and_no_more(carts: Sessions) -> None:
    with SessionTransport(carts, 2) as batch:
        batch.step(zeros(batch))
        carts.find(carts.ids()[1]).destroy()
        with pytest.raises(SessionEnded):
            batch.step(zeros(batch))
        with pytest.raises(LocalProtocolError, match=r"recv\(\) without a send"):
            batch.recv()


def test_it_takes_seeds_and_nothing_else(carts: Sessions) -> None:
    with SessionTransport(carts, 2) as batch:
        rows = []
        for _ in range(2):
            assert batch.call(method("BatchService/SetSeeds"), SetSeedsRequest([8, 9])).success
            rows.append(batch.step(zeros(batch), every(batch, 1)).observations.copy())
        assert rows[0].tobytes() == rows[1].tobytes()
        refused = batch.call(method("BatchService/SetSeeds"), SetSeedsRequest([8]))
        assert not refused.success
        with pytest.raises(Unimplemented, match="engine 'sessions' does not implement"):
            batch.call(method("SceneService/GetSceneInfo"), None)
        assert not batch.capabilities.commands


def test_a_create_that_is_refused_leaves_no_session_and_may_be_tried_again() -> None:
    limits = SessionLimits(sessions=3)
    with closing(Sessions(CartPoleWorlds(), "cartpole", limits)) as carts, SessionTransport(carts, 3) as batch:
        other = carts.create()
        with pytest.raises(Busy, match="all 3 sessions are in use"):
            batch.step(zeros(batch))
        assert carts.ids() == [other]
        with pytest.raises(Busy):  # or what builds those of before is still at it
            batch.step(zeros(batch))
        assert carts.ids() == [other]
        carts.destroy(other)
        until(lambda: not is_busy(batch))
        assert batch.step(zeros(batch)).seq == 2


def is_busy(batch: SessionTransport) -> bool:
    try:
        batch.step(zeros(batch))
    except Busy:
        return True
    return False


@pytest.mark.parametrize("control", [np.zeros(3, np.uint8), np.full(2, 0.5), np.zeros((2, 2), np.uint8)])
def test_a_refused_control_changes_nothing(carts: Sessions, control: Any) -> None:
    with SessionTransport(carts, 2) as batch:
        with pytest.raises((TypeError, ValueError)):
            batch.send(np.full(2, 5), control)
        assert (batch.actions.tolist(), batch.out_of_bounds) == ([0, 0], 0)
        batch.step(np.full(2, 5))
        assert (batch.actions.tolist(), batch.out_of_bounds) == ([5, 5], 2)


class Late(Sessions):
    """Carts whose calls find their deadline expired, so often as `late` says: they do what one tick does, no more."""

    late = 0

    def _in_time(self, deadline: Deadline | None) -> Deadline | None:
        self.late -= 1
        return Deadline(0) if self.late >= 0 else deadline

    def advance_all(self, requests: Sequence[AdvanceRequest], deadline: Deadline | None = None) -> list[AdvanceResult]:
        return super().advance_all(requests, self._in_time(deadline))

    def restart(self, session_id: str, seed: int | None = None, deadline: Deadline | None = None) -> WorldSnapshot:
        return super().restart(session_id, seed, self._in_time(deadline))


@pytest.mark.parametrize("late", [1, 2, 3, 4])
def test_an_exchange_out_of_time_stays_open_and_does_no_tick_twice(late: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CartPoleWorlds.batch, "ticks_per_step", 3)

    timeouts = 0

    def walk(carts: Late, late: int) -> list[bytes]:
        nonlocal timeouts
        frames: list[bytes] = []
        with closing(carts), SessionTransport(carts, 3) as batch:
            for at, control in enumerate([None, None, [RESET, 0, HOLD], None, [0, RESET, RESET], None]):
                carts.late = late
                batch.send(np.full(3, at % 2), None if control is None else np.array(control, np.uint8))
                while True:
                    try:
                        frame = batch.recv()
                        break
                    except PeerTimeout:
                        timeouts += 1
                        with pytest.raises(LocalProtocolError, match="while a frame is outstanding"):
                            batch.send(zeros(batch))
                frames += [frame.observations.tobytes(), frame.rewards.tobytes(), frame.signals.tobytes()]
                assert frame.seq == at + 1
        return frames

    assert walk(Late(CartPoleWorlds(), "cartpole"), late) == walk(Late(CartPoleWorlds(), "cartpole"), 0)
    assert timeouts >= 3  # in each exchange that only advances


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_it_belongs_to_the_process_that_made_it(carts: Sessions) -> None:
    with SessionTransport(carts, 2) as batch:
        batch.step(zeros(batch))
        batch.send(zeros(batch))

        def refused() -> bool:
            asked = (batch.recv, lambda: batch.call(method("BatchService/SetSeeds"), SetSeedsRequest([1, 2])))
            for ask in asked:
                with pytest.raises(ClosedError, match=r"belongs to the parent process; connect again after fork"):
                    ask()
            batch.close()
            return len(carts.ids()) == 2

        assert in_a_child(refused)
        assert batch.recv().seq == 2


class TestCartPole(EngineContract):
    def make_engine(self, num_envs: int) -> Engine:
        return make_engine("", num_envs, wind=2.0)


class ReplacedWorlds(CartPoleWorlds):
    """Carts that cannot start over in place. made, closed: worlds, in this order. seeds: of those that were made."""

    def __init__(self) -> None:
        self.seeds: list[int | None] = []
        self.made: list[Any] = []
        self.closed: list[Any] = []

    def create(self, map_name: str, seed: int | None, options: Any) -> Any:
        world: Any = super().create(map_name, seed, options)
        world.restart = lambda seed: False
        world.close = lambda: self.closed.append(world)
        self.made.append(world)
        self.seeds.append(seed)
        return world


class TestReplacedWorlds(EngineContract):
    def make_engine(self, num_envs: int) -> Engine:
        return WorldsEngine(ReplacedWorlds(), "replaced", num_envs)


def test_a_world_that_is_replaced_is_closed() -> None:
    worlds = ReplacedWorlds()
    with closing(Host(WorldsEngine(worlds, "replaced", 2))) as host, VectorEnv(InprocTransport(host)) as env:
        env.reset(seed=1)
        replaced, worlds.made = worlds.made, []
        env.reset(seed=2)
        assert worlds.closed == replaced
    assert worlds.closed == replaced + worlds.made


def test_the_first_episode_after_a_reset_with_seeds_has_these_seeds() -> None:
    worlds = ReplacedWorlds()
    with closing(Host(WorldsEngine(worlds, "replaced", 2))) as host, VectorEnv(InprocTransport(host)) as env:
        for seed in (1, 5, 5):
            env.reset(seed=seed)
            env.reset()
    assert worlds.seeds[::4] == [1, 5, 5]
    assert worlds.seeds[1::4] == [2, 6, 6]
    assert worlds.seeds[4:8] == worlds.seeds[8:]


def test_a_time_limit_truncates_and_a_fall_terminates() -> None:
    with api.make("cartpole", transport="inproc", num_envs=2, options={"max_ticks": 3}) as env:
        env.reset(seed=0)
        ends = [env.step(np.array([0, 1]))[2:4] for _ in range(3)]
        assert [bool(truncated.any()) for _, truncated in ends] == [False, False, True]
        assert not any(terminated.any() for terminated, _ in ends)


def test_a_step_of_several_ticks_ends_with_the_episode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CartPoleWorlds.batch, "ticks_per_step", 3)
    with api.make("cartpole", transport="inproc", num_envs=1, options={"max_ticks": 7}) as env:
        env.reset(seed=0)
        steps = [env.step(np.array([0]))[1:4] for _ in range(3)]
        assert [reward.tolist() for reward, *_ in steps] == [[3], [3], [1]]
        assert [truncated.tolist() for *_, truncated in steps] == [[False], [False], [True]]


def test_an_env_that_only_ticks_is_not_pushed() -> None:
    with open_reference("cartpole", 1, initial_angle=0) as client:
        client.step(zeros(client), every(client, RESET))
        assert not client.step(zeros(client), every(client, TICK)).observations.any()
        assert client.step(zeros(client)).observations.any()


def test_worlds_that_are_no_rows_make_no_batch(worlds: Any, sessions: Sessions) -> None:
    with pytest.raises(SpecError, match="cannot be rows of a batch"):
        SessionTransport(sessions, 1)
    with pytest.raises(SpecError, match="the worlds of engine 'scripted' cannot be rows of a batch; use its sessions"):
        WorldsEngine(worlds, "scripted")


@pytest.mark.parametrize(
    ("options", "kind", "text"),
    [
        ({"gravity": 1}, ConfigError, "no option 'gravity'; options: initial_angle, wind, max_ticks"),
        ({"wind": "strong"}, SpecError, "expected numbers for initial_angle, wind, max_ticks"),
        ({"max_ticks": True}, SpecError, "expected numbers for initial_angle, wind, max_ticks"),
    ],
)
def test_a_wrong_option_is_refused_before_any_start(options: dict[str, Any], kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        make_engine("", 1, **options)
