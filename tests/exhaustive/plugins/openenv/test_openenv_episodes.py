"""OpenEnv's own client plays episodes on engines with worlds and on batches."""

import threading
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import Any

import numpy as np
import pytest

pytest.importorskip("openenv", reason="OpenEnv is not installed: pip install 'lucky-transport[openenv]'")

from lucky_transport import api
from lucky_transport.engine import HOLD, RESET
from lucky_transport.engines.cartpole import CartPoleCommand, CartPoleWorlds
from lucky_transport.errors import Busy, ConfigError, NotReachable, PeerTimeout, SessionEnded, Unimplemented
from lucky_transport.host.host import Host
from lucky_transport.messages import SetSeedsRequest
from lucky_transport.messages.methods import method
from lucky_transport.process import unique_name
from lucky_transport.sessions.sessions import Sessions
from lucky_transport.testing.suite import open_reference
from lucky_transport_openenv.batch_episodes import BatchEpisodes
from lucky_transport_openenv.options import ServerOptions
from tests.support.scripted_engine import ScriptedEngine
from tests.support.waiting import PATIENCE_S, until

pytestmark = pytest.mark.filterwarnings("ignore")  # of foreign packages, in the server's own threads too

Serve = Callable[..., Any]
Client = Callable[..., Any]
RIGHT: dict[str, Any] = {"action": [{"move_right": True}]}
SET_SEEDS = method("BatchService/SetSeeds")
#: Of the toy.
ACTION = [0.0, 0.0]
LEFT: dict[str, Any] = {"action": [{"move_right": False}]}


@pytest.fixture
def env(serve: Serve, client: Client) -> Any:
    """A client of a cart-pole of its own."""
    return client(serve("cartpole"))


# worlds


def test_an_episode_is_the_session_that_the_same_actions_make(env: Any) -> None:
    sessions = Sessions(CartPoleWorlds(), "cartpole")
    session = sessions.create(seed=7)
    result = env.reset(seed=7)
    assert (result.reward, result.done) == (None, False)
    gained, expected = 0.0, sessions.advance(session, 0)
    while not result.done:
        result = env.step(RIGHT)
        expected = sessions.advance(session, 1, [CartPoleCommand(True)])
        assert result.observation["observation"]["pole_angle"] == expected.observation.pole_angle
        gained += result.reward
    assert (result.observation["terminated"], result.observation["details"]["result"]) == (True, expected.result)
    assert gained == expected.score > 0
    sessions.close()


def test_a_step_takes_as_many_ticks_as_it_or_the_endpoint_says(serve: Serve, client: Client) -> None:
    env = client(serve("cartpole", ticks=3))
    env.reset(seed=1)
    assert env.step({"action": []}).observation["ticks_passed"] == 3
    assert env.step({"action": [], "ticks": 2}).observation["ticks"] == 5


def test_a_reset_starts_over_and_options_make_another_world(env: Any) -> None:
    first = env.reset(seed=3).observation["observation"]
    env.step(LEFT)
    assert env.reset(seed=3).observation["observation"] == first
    tilted = env.reset(seed=3, options={"initial_angle": 0.1}).observation["observation"]
    assert tilted["pole_angle"] == 0.1


def test_clients_play_apart_up_to_the_capacity_and_the_next_one_is_refused(serve: Serve, client: Client) -> None:
    serving = serve("cartpole", capacity=2)
    one, two = client(serving), client(serving)
    assert one.reset(seed=1).observation["observation"] != two.reset(seed=2).observation["observation"]
    one.step(RIGHT)
    assert two.step(LEFT).observation["ticks"] == 1
    third = client(serving)
    with pytest.raises(RuntimeError, match="RESOURCE_EXHAUSTED: all 2 episodes are in use; try again"):
        third.reset()
    two.close()
    until(lambda: len(serving.host.sessions.ids()) == 1)
    assert third.reset(seed=1).observation["ticks"] == 0


@pytest.mark.parametrize("has_begun", [False, True])
@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda env: env.reset(map_name="moon"), "INVALID_ARGUMENT: no map 'moon'; there are flat"),
        (lambda env: env.reset(speed=3), "INVALID_ARGUMENT: reset takes no speed"),
        (lambda env: env.reset(options={"sails": 2}), "option sails=2; expected numbers for"),
        (lambda env: env.step({"action": [{"move_right": "yes"}]}), "CartPoleCommand.move_right: expected True or"),
        (lambda env: env.step({"action": [{"jump": True}]}), "no field 'jump'"),
    ],
    ids=["map", "argument", "option", "value", "field"],
)
def test_what_makes_no_sense_is_told_with_its_status_and_the_episode_goes_on(
    env: Any, call: Callable[[Any], object], text: str, has_begun: bool
) -> None:
    is_step = "jump" in text or "CartPole" in text
    if has_begun:
        env.reset(seed=0)
    with pytest.raises(RuntimeError) as refused:
        call(env)
    expected = text if has_begun or not is_step else "FAILED_PRECONDITION: step: no episode has begun; reset first"
    assert expected in str(refused.value)
    if has_begun and is_step:
        assert env.step(RIGHT).observation["ticks"] == 1
    assert env.reset(seed=0).done is False


def test_an_episode_that_has_ended_needs_a_reset(env: Any) -> None:
    env.reset(seed=0)
    assert env.step({"action": [], "ticks": 10_000}).done
    with pytest.raises(RuntimeError, match="FAILED_PRECONDITION: step: the episode has ended; reset first"):
        env.step(RIGHT)
    assert env.state()["done"] is True


# worlds that run by themselves


def test_a_world_that_runs_by_itself_does_not_wait_for_a_slow_agent(serve: Serve, client: Client) -> None:
    serving = serve("skirmish", rate=500, map="arena")
    env = client(serving)
    env.reset(seed=1)
    (session,) = serving.host.sessions.ids()
    seen = env.step({"action": []}).observation
    until(lambda: serving.host.sessions.state(session).ticks >= seen["ticks"] + 40)  # the agent thinks
    later = env.step({"action": []}).observation
    assert later["ticks"] - seen["ticks"] == later["ticks_passed"] >= 40


def test_an_action_has_had_its_effect_in_what_the_step_shows(serve: Serve, client: Client) -> None:
    env = client(serve("cartpole", rate=100))
    before = env.reset(seed=1).observation["observation"]["cart_velocity"]
    assert env.step(RIGHT).observation["observation"]["cart_velocity"] > before + 0.1


def test_the_end_that_an_agent_missed_is_what_it_sees_next(serve: Serve, client: Client) -> None:
    serving = serve("cartpole", rate=0)
    env = client(serving)
    env.reset(seed=1)
    (session,) = serving.host.sessions.ids()
    until(lambda: serving.host.sessions.state(session).is_over)
    result = env.step(RIGHT)
    assert (result.done, result.observation["details"]["result"]) == (True, "fell")


def test_a_server_that_stops_ends_the_steps_that_wait(serve: Serve, client: Client) -> None:
    serving = serve("cartpole", rate=0.001)
    env = client(serving)
    env.reset(seed=1)
    (session,) = serving.host.sessions.ids()
    until(lambda: serving.host.sessions.state(session).ticks == 1)  # which comes at once, the next one after 1000 s
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(env.step, RIGHT)
        until(lambda: serving.host.sessions.find(session).world_lock.snapshots.waiting)
        serving.stop(grace_s=0.2)
        assert waiting.exception(PATIENCE_S) is not None


def test_an_episode_without_a_call_for_too_long_ends_and_the_client_is_told(serve: Serve, client: Client) -> None:
    serving = serve("cartpole", idle=0.1)
    env = client(serving)
    env.reset(seed=1)
    until(lambda: not serving.host.sessions.ids())
    with pytest.raises(RuntimeError, match="ABORTED: the episode was closed, or idle for too long; connect again"):
        env.step(RIGHT)


# batches


def test_an_env_of_a_batch_is_an_episode_and_the_others_hold(serve: Serve, client: Client) -> None:
    """By turns at random, with and without a seed, each agent sees what its env of an equal batch shows."""
    serving = serve("toy", 2)
    agents, has_ended = [client(serving) for _ in range(2)], [True, True]
    ends: set[str] = set()
    generator = np.random.default_rng(0)
    with open_reference("toy", 2) as reference:
        spec = reference.spec
        names = (*spec.reward_terms, *spec.termination_terms)
        for number in range(600):
            env = int(generator.integers(2)) if number > 1 else number
            control = np.full(2, HOLD, np.uint8)
            actions = generator.uniform(-1, 1, spec.action_shape).astype(np.float32)
            if not has_ended[env]:
                control[env] = 0
                result = agents[env].step({"action": actions[env].tolist()})
            else:
                control[env] = RESET
                seed = None if number % 3 else number
                if seed is not None:
                    reference.call(SET_SEEDS, SetSeedsRequest([seed, seed], bytes([env == 0, env == 1])))
                result = agents[env].reset(seed=seed)
            frame, seen = reference.step(actions, control), result.observation
            assert seen["observation"] == frame.observations[env].tolist()
            assert (result.reward or 0) == frame.rewards[env]
            assert (seen["terminated"], seen["truncated"]) == (frame.terminated[env], frame.truncated[env])
            terms = dict(zip(names, frame.signals[:, env].tolist(), strict=True))
            assert seen["details"].get("terms", terms) == terms
            has_ended[env] = result.done
            assert result.done == bool(frame.terminated[env] or frame.truncated[env])
            ends |= {end for end in ("terminated", "truncated") if seen[end]}
    assert ends == {"terminated", "truncated"}


def test_a_batch_has_as_many_episodes_as_envs(serve: Serve, client: Client) -> None:
    serving = serve("toy", 1)
    env = client(serving)
    env.reset(seed=5)
    with pytest.raises(RuntimeError, match="RESOURCE_EXHAUSTED: the only episode is in use"):
        client(serving).reset()


def test_agents_and_another_driver_keep_each_other_out(serve: Serve, client: Client) -> None:
    name = unique_name()
    serving = serve("toy", 1, also=f"inproc://{name}")
    env = client(serving)
    with api.open_transport(f"inproc://{name}") as other:
        zeros = np.zeros(other.spec.action_shape, np.float32)
        other.step(zeros)
        with pytest.raises(RuntimeError, match="RESOURCE_EXHAUSTED: engine 'toy' is driven by inproc client"):
            env.reset()
    env.reset()
    with api.open_transport(f"inproc://{name}") as other:
        with pytest.raises(Busy, match="driven by agents over openenv"):
            other.step(zeros)
        env.close()
        until(lambda: not serving.host.driver)
        other.step(zeros)


@contextmanager
def _standing(longest_s: float = PATIENCE_S) -> Generator[tuple[Host, Any, Any, Any, Callable[[], None]]]:
    """Yield the host of two envs, an episode of each, the first one's step, which stands, and what lets it go on."""
    stands, go = threading.Event(), threading.Event()

    def stand(control: Any) -> None:
        if not (control == RESET).any():
            stands.set()
            assert go.wait(PATIENCE_S)

    with closing(Host(ScriptedEngine(2, on_step=stand))) as host, ThreadPoolExecutor(1) as pool:
        episodes = BatchEpisodes(host, ServerOptions(longest_s=longest_s))
        one, two = episodes.open(), episodes.open()
        for episode in (one, two):
            episode.reset(None, "", {})
        stepping = pool.submit(one.act, ACTION, None)
        assert stands.wait(PATIENCE_S)
        yield host, one, two, stepping, go.set


def test_closing_an_episode_waits_for_no_step_and_the_last_step_frees_the_engine() -> None:
    with _standing() as (host, one, two, stepping, go), ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(two.act, ACTION, None)
        one.close()
        two.close()
        assert host.driver
        go()
        assert stepping.result(PATIENCE_S).ticks == 1
        with pytest.raises(SessionEnded, match="the episode was closed"):
            waiting.result(PATIENCE_S)
        assert not host.driver


def test_a_step_waits_for_another_episodes_step_no_longer_than_a_call_may_take() -> None:
    with _standing(longest_s=0.05) as (_, _, two, stepping, go):
        with pytest.raises(PeerTimeout, match=r"was in another step for 0\.05 s"):
            two.act(ACTION, None)
        go()
        assert stepping.result(PATIENCE_S).ticks == 1
        assert two.act(ACTION, None).ticks == 1


def test_a_wrong_action_of_a_batch_is_refused_before_the_engine_sees_it(serve: Serve, client: Client) -> None:
    env = client(serve("pendulum"))
    env.reset()
    with pytest.raises(RuntimeError, match=r"INVALID_ARGUMENT: action has shape \(3,\), expected"):
        env.step({"action": [0.0, 0.0, 0.0]})
    with pytest.raises(RuntimeError, match="out of bounds"):
        env.step({"action": [1e6]})
    assert env.step({"action": [0.0]}).observation["ticks"] == 1


def test_observations_and_actions_of_several_arrays_are_nested_as_in_the_spaces(serve: Serve, client: Client) -> None:
    serving = serve("toy:composite")
    env = client(serving)
    space = serving.host.spec.action_space()
    space.seed(0)
    action = _plain(space.sample())
    seen = env.reset(seed=1).observation["observation"]
    assert set(seen) == set(serving.host.spec.observation_space().spaces)
    assert env.step({"action": action}).observation["ticks"] == 1
    name = next(iter(action))
    with pytest.raises(RuntimeError, match=rf'action\["{name}"\] is missing'):
        env.step({"action": {key: value for key, value in action.items() if key != name}})


def _plain(sample: Any) -> Any:
    if isinstance(sample, dict):
        return {name: _plain(one) for name, one in sample.items()}
    return [_plain(one) for one in sample] if isinstance(sample, tuple) else np.asarray(sample).tolist()


# the server


@pytest.mark.parametrize(
    ("engine", "options", "text"),
    [
        ("toy", {"capacity": 2}, "has room for 1"),
        ("toy", {"rate": 5}, "has no worlds"),
        ("cartpole", {"map": "moon"}, "there are flat"),
        ("cartpole", {"capasity": 2}, "did you mean 'capacity'"),
        ("cartpole", {"rate": "fast"}, "expected ticks a second"),
    ],
)
def test_a_server_that_could_not_keep_its_word_does_not_start(
    serve: Serve, engine: str, options: dict[str, Any], text: str
) -> None:
    with pytest.raises(ConfigError, match=text):
        serve(engine, **options)


def test_a_port_that_is_taken_is_an_error_and_our_own_clients_are_told_what_to_use(serve: Serve) -> None:
    endpoint = serve("cartpole").endpoints[0]
    with pytest.raises(NotReachable, match="another process has it"):
        api.serve("cartpole", str(endpoint))
    with pytest.raises(Unimplemented, match="GenericEnvClient"):
        api.open_transport(endpoint)
