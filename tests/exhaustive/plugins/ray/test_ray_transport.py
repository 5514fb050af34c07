"""One batch over two nodes of a Ray cluster gives what one engine gives, and outlives its actors and nodes."""

import os
import re
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("ray", reason="Ray is not installed: pip install 'lucky-transport[ray]'")

from lucky_transport import api, deadline
from lucky_transport import messages as m
from lucky_transport.deadline import Deadline
from lucky_transport.env.vector_env import VectorEnv
from lucky_transport.errors import (
    ClosedError,
    ConfigError,
    LocalProtocolError,
    PeerDied,
    PeerTimeout,
    Unimplemented,
)
from lucky_transport.messages.methods import method
from lucky_transport.testing.suite import outcome
from lucky_transport.testing.trajectories import first_difference, record_env
from tests.support.waiting import until, until_none_left

ray: Any = pytest.importorskip("ray")
Make = Callable[..., VectorEnv]

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning"),
]

TOY = "engine=toy&actors=2&num_envs=5&seed=3&cpus=1"


def _without_losses(found: Any) -> Any:
    """Take the term that ray adds out of a trajectory, and return it."""
    del found["termination_terms._actor_lost"]
    return found.pop("termination_terms.actor_lost")


def pid_of(env: Any, actor: int) -> int:
    """The process of an actor."""
    return int(re.findall(r"pid (\d+)", env.transport.places[actor])[0])


def kill(env: VectorEnv, actor: int) -> None:
    """Kill the process of an actor; it is gone when this returns."""
    pid = pid_of(env, actor)
    os.kill(pid, signal.SIGKILL)
    until(lambda: not _runs(pid))


def test_every_autoreset_mode_gives_the_trajectory_of_one_engine(make: Make) -> None:
    env = make(f'{TOY}&options={{"episode_steps":7}}')
    envs: list[VectorEnv] = []  # one that is dropped closes the transport
    for mode in ("NextStep", "SameStep", "Disabled"):
        over_ray = VectorEnv(env.transport, autoreset_mode=mode)
        envs.append(over_ray)
        with api.make("toy", 5, seed=3, options={"episode_steps": 7}, transport="inproc", autoreset_mode=mode) as alone:
            found, expected = record_env(over_ray, 30, seed=11), record_env(alone, 30, seed=11)
        assert expected["truncated"].any()
        assert not _without_losses(found).any()
        assert first_difference(found, expected) is None, mode


def test_an_engine_of_worlds_gives_the_same_too(make: Make) -> None:
    env = make("engine=cartpole&actors=2&num_envs=3&transport=inproc")
    with api.make("cartpole", 3, transport="inproc") as alone:
        found, expected = record_env(env, 40, seed=5), record_env(alone, 40, seed=5)
    _without_losses(found)
    assert expected["terminated"].any()
    assert first_difference(found, expected) is None


def test_a_killed_node_truncates_its_envs_and_the_others_go_on(
    make: Make, nodes: Any, caplog: pytest.LogCaptureFixture
) -> None:
    env = make(f"{TOY}&restarts=1")
    transport: Any = env.transport
    with api.make("toy", 5, seed=3, transport="inproc") as alone:
        env.reset(seed=1)
        alone.reset(seed=1)
        actions = np.full(env.action_space.shape or (), 0.25, np.float32)
        observations, rewards, terminated, truncated, info = env.step(actions)
        expected = alone.step(actions)
        pids = [pid_of(env, actor) for actor in range(2)]
        nodes.kill()
        until(lambda: not all(map(_runs, pids)))  # what ran there takes a moment to die
        last = observations
        observations, rewards, terminated, truncated, info = env.step(actions)
        expected = alone.step(actions)
        lost = info["termination_terms/actor_lost"]
        assert lost.tolist() in ([True] * 3 + [False] * 2, [False] * 3 + [True] * 2)
        assert info["_termination_terms/actor_lost"].all()
        assert truncated[lost].all()
        assert not terminated[lost].any()
        assert not rewards[lost].any()
        assert observations[lost].tobytes() == last[lost].tobytes()
        for found, alike in zip((observations, rewards, terminated, truncated), expected, strict=False):
            assert found[~lost].tobytes() == alike[~lost].tobytes()
        assert "was lost; its envs are reset, the others go on" in caplog.text
        observations, rewards, _, truncated, info = env.step(actions)  # NextStep resets them, on another actor
        assert not truncated.any()
        assert not rewards[lost].any()
        assert info["_termination_terms/actor_lost"].tolist() == (~lost).tolist()
        expected = alone.step(actions)
        assert observations[~lost].tobytes() == expected[0][~lost].tobytes()
        assert sorted(transport.restarts) == [0, 1]
        assert all(transport.places)


def test_seeds_for_no_env_are_set_as_one_engine_sets_them(make: Make) -> None:
    request = m.SetSeedsRequest([1, 2, 3, 4, 5], bytes(5))
    with api.make("toy", 5, transport="inproc") as alone:
        expected = alone.transport.call(method("/lucky_transport.v1.BatchService/SetSeeds"), request)
    assert make(TOY).transport.call(method("/lucky_transport.v1.BatchService/SetSeeds"), request) == expected


def test_an_actor_that_dies_before_a_reset_is_replaced_by_one_that_does_it(make: Make) -> None:
    env = make(TOY)
    env.reset(seed=0)
    kill(env, 0)
    with api.make("toy", 5, seed=3, transport="inproc") as alone:
        found = env.reset(seed=9)[0]
        assert found.tobytes() == alone.reset(seed=9)[0].tobytes()
        actions = env.action_space.sample()
        assert env.step(actions)[0].tobytes() == alone.step(actions)[0].tobytes()
    transport: Any = env.transport
    assert transport.restarts == [1, 0]


def test_what_was_lost_starts_again_with_the_seeds_of_the_last_reset(make: Make) -> None:
    env = make(TOY)
    env.reset(seed=5)
    env.reset(seed=[None, 77, None, None, None], options={"reset_mask": np.array([False, True, False, False, False])})
    with api.make("toy", 5, seed=3, transport="inproc") as alone:
        expected = alone.reset(seed=[5, 77, 7, 8, 9])[0]
    for _ in range(2):  # the seeds hold for the second loss too
        kill(env, 0)
        lost = env.step(env.action_space.sample())[4]["termination_terms/actor_lost"]
        assert lost.any()
        found = env.step(env.action_space.sample())[0]
        assert found[lost].tobytes() == expected[lost].tobytes()


def test_an_actor_that_takes_longer_to_start_than_a_call_may_take_is_awaited(make: Make) -> None:
    env = make(f'{TOY}&transport=inproc&options={{"start_delay_s":1.0}}', command_timeout_s=0.5, step_timeout_s=0.5)
    env.reset(seed=0)
    kill(env, 0)
    env.reset(seed=9)
    kill(env, 1)
    assert env.step(env.action_space.sample())[4]["termination_terms/actor_lost"].any()
    env.step(env.action_space.sample())  # resets what was lost
    transport: Any = env.transport
    assert transport.restarts == [1, 1]
    assert all(transport.places)


def test_a_close_while_an_engine_starts_leaves_nothing(make: Make) -> None:
    env = make(TOY)
    transport: Any = env.transport
    env.reset(seed=0)
    before = _segments_of_actors()
    kill(env, 0)
    assert env.step(env.action_space.sample())[4]["termination_terms/actor_lost"].any()
    assert transport.places[0] == ""
    made = until(lambda: _segments_of_actors() - before)
    env.close()
    until_none_left(lambda: [path for path in made if path.exists()])


def test_what_an_actor_and_its_engine_leave_is_removed_by_whoever_replaces_them(make: Make) -> None:
    env = make(TOY)
    env.reset(seed=0)
    actor = pid_of(env, 0)
    left = set(Path("/dev/shm").glob(f"lucky_{actor}_*"))
    engines = [int(pid) for pid in _children(actor)]
    for pid in engines:
        os.kill(pid, signal.SIGSTOP)  # it sees nothing of its actor's end, so it removes nothing
    kill(env, 0)
    for pid in engines:
        os.kill(pid, signal.SIGKILL)
    until_none_left(lambda: [pid for pid in engines if _runs(pid)])
    assert left
    assert all(path.exists() for path in left)
    assert env.step(env.action_space.sample())[4]["termination_terms/actor_lost"].any()
    env.step(env.action_space.sample())  # the engine that resets them has started
    assert not [path for path in left if path.exists()]


def _segments_of_actors() -> set[Path]:
    """The files in shared memory that belong to actors that run."""

    def is_an_actors(path: Path) -> bool:
        with suppress(OSError):
            return Path(f"/proc/{path.name.split('_')[1]}/cmdline").read_bytes().startswith(b"ray::")
        return False

    return {path for path in Path("/dev/shm").glob("lucky_*_*") if is_an_actors(path)}


def test_an_actor_that_is_lost_too_often_is_an_error(make: Make) -> None:
    env = make(f"{TOY}&restarts=0&transport=inproc")
    env.reset(seed=0)
    kill(env, 1)
    with pytest.raises(PeerDied, match=r"actor 1 \(envs 3 to 4, .*was lost and has been replaced 0 times"):
        env.step(env.action_space.sample())


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_an_engine_that_dies_in_its_actor_is_lost_as_the_actor_is(make: Make, how: signal.Signals) -> None:
    env = make(TOY)
    env.reset(seed=0)
    engines = [int(pid) for pid in _children(pid_of(env, 1))]
    for pid in engines:
        os.kill(pid, how)
    assert engines
    until_none_left(lambda: [pid for pid in engines if _runs(pid)])
    info = env.step(env.action_space.sample())[4]
    assert info["termination_terms/actor_lost"].tolist() == [False] * 3 + [True] * 2


def _children(pid: int) -> list[str]:
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return file.read().split()


def test_errors_arrive_as_what_they_are(make: Make) -> None:
    with pytest.raises(ConfigError, match="engine 'toy' has no option 'obs_sice'; did you mean 'obs_size'"):
        make(f'{TOY}&options={{"obs_sice":3}}')
    env = make(f"{TOY}&transport=inproc")
    with api.make("toy", 5, transport="inproc") as alone:
        for call in (
            lambda one: one.transport.recv(),
            lambda one: one.transport.send(np.zeros((5, 99))),
            lambda one: one.transport.send(np.full(one.transport.spec.action_shape, np.nan)),
            lambda one: one.step(one.action_space.sample()),
            lambda one: one.reset(seed=[1]),
        ):
            assert outcome(env, call) == outcome(alone, call).replace("inproc", "ray")


def test_typed_calls_reach_the_engines(make: Make) -> None:
    env = make(f"{TOY}&transport=inproc")
    transport: Any = env.transport
    info = method("SceneService/GetSceneInfo")
    with api.make("toy", 5, transport="inproc") as alone:
        expected = outcome(alone, lambda one: one.transport.call(info, m.GetSceneInfoRequest()))
        assert outcome(env, lambda one: one.transport.call(info, m.GetSceneInfoRequest())) == expected
    with pytest.raises(Unimplemented, match="ResetAgent is not there over ray: it concerns one engine"):
        transport.call(method("AgentService/ResetAgent"), m.ResetAgentRequest("agent_0"))
    assert transport.implements(method("AgentService/Step")) is False
    with pytest.raises(LocalProtocolError):
        transport.call(method("MujocoSceneService/StreamFullState"), m.GetFullStateRequest())


def test_a_deadline_ends_a_wait_and_the_frame_comes_later(make: Make) -> None:
    env = make(f'{TOY}&transport=inproc&options={{"step_delay_s":0.3}}')
    transport: Any = env.transport
    env.reset(seed=0)
    transport.send(env.action_space.sample())
    with pytest.raises(PeerTimeout, match=r"actor 0 .* did not end its step within 0\.01 s"):
        transport.recv(Deadline(0.01))
    assert transport.recv().seq == 2


def test_an_actor_with_too_many_calls_waiting_refuses_the_next(make: Make) -> None:
    env = make(f'{TOY}&transport=inproc&options={{"step_delay_s":2.0}}')
    transport: Any = env.transport
    schema, request = method("AgentService/GetAgentSchema"), m.GetAgentSchemaRequest("agent_0")
    transport.send(np.zeros(transport.spec.action_shape, np.float32))  # the actors are busy with it
    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(lambda _: outcome(transport, lambda one: one.call(schema, request)), range(6)))
    assert "no error" in found
    assert [one for one in found if "Busy: actor 0" in one and "has too many calls waiting" in one]
    assert transport.recv().seq == 1


def test_each_actor_on_a_node_of_its_own_or_not_at_all(
    make: Make, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deadline, "NOTICE_AFTER_S", 0.0)
    env = make(f"{TOY}&placement=strict&transport=inproc")
    env.reset(seed=0)
    env.close()
    with pytest.raises(PeerTimeout, match="the cluster had no 3 nodes with 1 free CPUs each within 1 s"):
        make("engine=toy&actors=3&num_envs=3&placement=strict", start_timeout_s=1.0)
    with pytest.raises(PeerTimeout, match="did not end its start of its engine within 3 s; see whether the cluster"):
        make("engine=toy&actors=3&num_envs=3&cpus=2&transport=inproc", start_timeout_s=3.0)
    assert "gives up after 3 s" in caplog.text


def test_close_leaves_no_actor_and_no_connection_of_its_own(make: Make) -> None:
    env = make(f"{TOY}&transport=inproc")
    pids = [pid_of(env, 0), pid_of(env, 1)]
    env.close()
    with pytest.raises(ClosedError):
        env.transport.step(env.transport.actions)
    assert ray.is_initialized()  # the program's own connection stays
    until_none_left(lambda: [pid for pid in pids if os.path.exists(f"/proc/{pid}") and _runs(pid)])
    env.close()


def _runs(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
