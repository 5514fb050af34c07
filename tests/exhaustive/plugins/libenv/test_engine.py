"""A library as an engine: alone in its handle, sharing one, bound to this memory and then to that.

And in a process of its own: the same over every transport, bit for bit, and its end is an error of the client.
"""

import importlib.util
import re
from collections.abc import Generator
from contextlib import closing, contextmanager
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray

from lucky_transport import api, errors
from lucky_transport.client import Client
from lucky_transport.engine import HOLD, RESET, Buffers
from lucky_transport.env.vector_env import VectorEnv
from lucky_transport.messages import SetSeedsRequest
from lucky_transport.process import unique_name
from lucky_transport.spec.batch_spec import BatchSpec
from lucky_transport.spec.composite import views
from lucky_transport.testing.contract import EngineContract
from lucky_transport.testing.suite import open_reference
from lucky_transport.testing.trajectories import Move, first_difference, random_actions, record_env, record_frames
from lucky_transport.transport import Frame, Transport
from lucky_transport_libenv.engine import SEEDS
from lucky_transport_libenv.env_slice import EnvSlice, Places
from lucky_transport_libenv.library import Library
from lucky_transport_libenv.spaces import batch_spec
from tests.plugins.libenv.conftest import bound, made

pytestmark = pytest.mark.usefixtures("forked_engines")

N = 4


class AloneContract(EngineContract):
    """Each env in a handle of its own: nothing is missing then."""

    settings: ClassVar[dict[str, Any]] = {"handles": N, "seed_option": "seed"}
    sample: str

    @pytest.fixture(autouse=True)
    def _sample(self, sample: str) -> None:
        self.sample = sample

    def make_engine(self, num_envs: int) -> Any:
        return made(self.sample, num_envs, episode_steps=15, libenv=self.settings, seed=3)

    def test_envs_and_episodes_start_differently(self, spec: BatchSpec) -> None:
        """As in the suite, but for the episodes: a reset of an env that is at a start leaves it there."""
        starts: list[NDArray[Any]] = []
        with self.open_client() as client:
            for _ in range(2):
                starts.append(client.step(client.actions, every(RESET)).observations.copy())
                client.step(client.actions)
        rows = np.concatenate(starts)
        assert len(np.unique(rows, axis=0)) == 2 * spec.num_envs


class TestAlone(AloneContract):
    pass


class TestAloneInThreads(AloneContract):
    settings: ClassVar[dict[str, Any]] = {"handles": N, "threads": 2, "seed_option": "seed"}


@contextmanager
def driven(library: str, num_envs: int = N, seed: int = 3, **settings: Any) -> Generator[Transport]:
    """Yield a client of the sample."""
    told = {"seed_option": "seed", **settings}
    engine = made(library, num_envs, episode_steps=15, libenv=told, seed=seed)
    with open_reference(engine) as client:
        yield client


def from_the_start(client: Transport, steps: int) -> list[Move]:
    """Return a reset of all envs and random steps after it."""
    generator = np.random.default_rng(0)
    moves: list[Move] = [(random_actions(client.spec, generator), None) for _ in range(steps)]
    moves[0] = (moves[0][0], every(RESET))
    return moves


def steps_to_the_end(client: Transport) -> Frame:
    """Return the frame in which the first episode of all envs ends."""
    client.step(client.actions, every(RESET))
    frames = [client.step(client.actions).terminated.any() for _ in range(14)]
    assert not any(frames)
    return client.step(client.actions)


def every(code: int, num_envs: int = N) -> NDArray[np.uint8]:
    return np.full(num_envs, code, np.uint8)


# an episode's end


def test_an_ended_env_shows_its_next_episode_and_its_last_reward(sample: str) -> None:
    with driven(sample) as client:
        frame = steps_to_the_end(client)
        assert frame.terminated.tolist() == [1] * N
        assert frame.signals[1].tolist() == [1] * N  # the sample says 255
        assert frame.rewards.all()
        assert views(frame.observations, client.spec.info_parts)["ticks",].tolist() == [0] * N
        assert not frame.truncated.any()


def test_a_reset_of_all_that_have_ended_changes_nothing(sample: str) -> None:
    with driven(sample) as client:
        frame = steps_to_the_end(client)
        start = frame.observations.tobytes()
        frame = client.step(client.actions, every(RESET))
        assert frame.observations.tobytes() == start
        assert not frame.terminated.any()
        assert not frame.rewards.any()


# envs that share a handle


def test_all_envs_step_as_the_library_alone_would(sample: str) -> None:
    """One handle of four rows and four handles of one row are the same envs."""
    with driven(sample) as together, driven(sample, handles=N) as alone:
        moves = from_the_start(alone, 15)
        assert first_difference(record_frames(together, moves), record_frames(alone, moves)) is None


def test_an_ended_env_rests_for_a_step_while_the_others_go_on(sample: str) -> None:
    with driven(sample) as client:
        client.step(client.actions, every(RESET))
        buttons = views(client.actions, client.spec.action_parts)["button",]
        buttons[1] = 3  # ends the episode
        assert client.step(client.actions).terminated.tolist() == [0, 1, 0, 0]
        before = client.actions.copy()
        frame = client.step(client.actions, np.array([0, RESET, 0, 0], np.uint8))
        assert client.actions.tobytes() == before.tobytes(), "the driver's actions were changed"
        assert frame.terminated.tolist() == [0] * N, "the action of the reset env was not ignored"
        assert frame.rewards[1] == 0
        assert infos_now(client).tolist() == [2, 1, 2, 2]


def infos_now(client: Transport) -> NDArray[Any]:
    """Return the ticks after one more step, less that step."""
    views(client.actions, client.spec.action_parts)["button",][:] = 0
    frame = client.step(client.actions)
    return views(frame.observations, client.spec.info_parts)["ticks",] - 1


def test_the_spec_says_what_a_shared_handle_cannot_do(sample: str) -> None:
    with driven(sample) as together, driven(sample, handles=N) as alone:
        assert (together.spec.hold, together.spec.reset_ticks) == (False, 1)
        assert (alone.spec.hold, alone.spec.reset_ticks) == (True, 0)


def test_what_a_shared_handle_cannot_do_is_refused_and_changes_nothing(sample: str) -> None:
    with bound(made(sample, N)) as (engine, buffers):
        engine.step(every(RESET))
        engine.step(None)
        before = buffers.observations.tobytes()
        with pytest.raises(errors.Unimplemented, match=r"env 2 alone cannot be reset amid its episode.*0 to 3 as one"):
            engine.step(np.array([0, 0, RESET, 0], np.uint8))
        with pytest.raises(errors.Unimplemented, match="env 1 cannot hold while others step"):
            engine.step(np.array([0, HOLD, 0, 0], np.uint8))
        assert buffers.observations.tobytes() == before
        engine.step(every(HOLD))
        assert buffers.observations.tobytes() == before


def test_handles_of_several_rows_are_told_apart(sample: str) -> None:
    """Two handles of two rows: one can be reset and held as a whole while the other steps."""
    with bound(made(sample, N, libenv={"handles": 2})) as (engine, buffers):
        ticks = views(buffers.observations, engine.spec.info_parts)["ticks",]
        engine.step(every(RESET))
        engine.step(None)
        engine.step(np.array([HOLD, HOLD, 0, 0], np.uint8))
        assert ticks.tolist() == [1, 1, 2, 2]
        engine.step(np.array([RESET, RESET, 0, 0], np.uint8))
        assert ticks.tolist() == [0, 0, 3, 3]


# memory


def test_a_second_driver_goes_on_where_the_first_was(sample: str) -> None:
    """set_buffers is called once (the sample ends its process otherwise); rows are copied to other memory."""
    with driven(sample) as undisturbed:
        moves = from_the_start(undisturbed, 14)
        expected = record_frames(undisturbed, moves)
    pieces: list[dict[str, NDArray[Any]]] = []
    engine = made(sample, N, episode_steps=15, libenv={"seed_option": "seed"}, seed=3)
    with api.serve(engine, "inproc:") as serving:
        for start in (0, 5, 10):
            with api.open_transport(serving.endpoints[0]) as client:
                pieces.append(record_frames(client, moves[start : start + 5]))
    found = {name: np.concatenate([piece[name] for piece in pieces]) for name in expected if name != "seq"}
    expected.pop("seq")
    assert first_difference(found, expected) is None


def test_a_library_writes_into_the_drivers_own_memory(sample: str) -> None:
    """Nothing is copied: what the library writes between two exchanges is in the buffers at once."""
    library = Library(sample)
    block = EnvSlice(library, slice(0, 1), {})
    spec = batch_spec(library, block.handle, sample, 1, alone=True)
    buffers = Buffers.allocate(spec)
    try:
        block.attach(Places(spec, buffers), np.zeros(1, np.float32), np.zeros(1, np.uint8))
        buffers.observations.fill(0)
        library.observe(block.handle)
        assert buffers.observations.any()
    finally:
        block.close()


# seeds


def test_a_seed_makes_the_librarys_env_anew(sample: str) -> None:
    with driven(sample) as client:
        first = client.step(client.actions, every(RESET)).observations.tobytes()
        assert client.call(SEEDS, SetSeedsRequest([8, 9, 10, 11])).success
        other = client.step(client.actions, every(RESET)).observations.tobytes()
        assert client.call(SEEDS, SetSeedsRequest([3, 4, 5, 6])).success
        assert client.step(client.actions, every(RESET)).observations.tobytes() == first != other


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (SetSeedsRequest([1]), "1 seeds"),
        (SetSeedsRequest([1 << 31, 0, 0, 0]), "32 bits"),
        (SetSeedsRequest([1, 2, 3, 4], b"\1\0\0\0"), "one in the library"),
        (SetSeedsRequest([1, 2, 3, 4], b"\1"), "mask of 1 bytes for 4 envs"),
    ],
)
def test_seeds_that_cannot_be_kept_are_refused(sample: str, request_: SetSeedsRequest, words: str) -> None:
    with driven(sample) as client:
        answer = client.call(SEEDS, request_)
        assert not answer.success
        assert words in answer.message


def test_without_a_name_for_it_there_is_no_seed(sample: str) -> None:
    with pytest.raises(errors.SpecError, match="has no seeds; name the library's option"):
        made(sample, seed=1, libenv={})


# the library's own functions


def test_a_state_that_was_kept_can_be_returned_to(sample: str) -> None:
    with bound(made(sample, N, seed=5)) as (engine, buffers):
        engine.step(every(RESET))
        engine.step(None)
        state, seen = engine.get_state(2), buffers.observations[2].tobytes()
        engine.step(None)
        engine.step(None)
        assert buffers.observations[2].tobytes() != seen
        others = np.delete(buffers.observations, 2, 0).tobytes()
        engine.set_state(2, state)
        assert buffers.observations[2].tobytes() == seen
        assert np.delete(buffers.observations, 2, 0).tobytes() == others


@pytest.mark.parametrize("env", [-1, 4])
def test_a_state_of_no_env_is_refused(sample: str, env: int) -> None:
    with closing(made(sample, N)) as engine, pytest.raises(errors.SpecError, match=f"env {env}: expected 0 to 3"):
        engine.get_state(env)


# what goes wrong in the making


@pytest.mark.parametrize(
    ("values", "kind", "words"),
    [
        ({"handle": 2}, errors.ConfigError, "no 'handle'; did you mean 'handles'"),
        ({"frobnicate": 2}, errors.ConfigError, "it has handles, threads"),
        ({"handles": 2.0}, errors.SpecError, "expected int"),
        ({"handles": True}, errors.SpecError, "expected int"),
        ({"seed_option": 1}, errors.SpecError, "expected str"),
        ([], errors.SpecError, "expected a dict"),
    ],
)
def test_settings_that_are_none_are_refused(sample: str, values: Any, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        made(sample, libenv=values)


@pytest.mark.parametrize(("num_envs", "values"), [(4, {"handles": 3}), (4, {"handles": 0}), (2, {"threads": 2})])
def test_settings_that_do_not_fit_the_batch_are_refused(sample: str, num_envs: int, values: dict[str, Any]) -> None:
    with pytest.raises(errors.SpecError):
        made(sample, num_envs, libenv=values)


# --- in a process of its own ---


HAS_GRPC = importlib.util.find_spec("grpc") is not None
WIRES = [
    "shm://{name}",
    pytest.param(
        "grpc://127.0.0.1:0", marks=pytest.mark.skipif(not HAS_GRPC, reason="pip install 'lucky-transport[grpc]'")
    ),
]


def trajectory(sample: str, endpoint: str, mode: str, handles: int) -> dict[str, NDArray[Any]]:
    settings = {"handles": handles, "seed_option": "seed"}
    options = {"episode_steps": 9, "libenv": settings}
    with (
        api.serve(f"libenv:{sample}", endpoint.format(name=unique_name()), num_envs=4, options=options) as serving,
        VectorEnv(api.open_transport(serving.endpoints[0]), autoreset_mode=mode) as env,
    ):
        return record_env(env, 40, seed=5)


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(("mode", "handles"), [("NEXT_STEP", 1), ("SAME_STEP", 1), ("SAME_STEP", 4), ("DISABLED", 4)])
def test_trajectories_are_those_without_a_wire(sample: str, wire: str, mode: str, handles: int) -> None:
    expected = trajectory(sample, "inproc://{name}", mode, handles)
    assert expected["terminated"].any()
    assert not expected["truncated"].any()
    assert first_difference(trajectory(sample, wire, mode, handles), expected) is None


@pytest.mark.parametrize("transport", ["inproc", "shm", *(["grpc"] if HAS_GRPC else [])])
def test_a_state_that_was_kept_can_be_returned_to_over_every_transport(sample: str, transport: str) -> None:
    with api.make(f"libenv:{sample}", 3, transport=transport) as env:
        env.reset()
        client = Client(env.transport)
        observations = env.step(env.transport.actions)[0]
        kept = client.state.get_state(env=2)
        for _ in range(3):
            env.step(env.transport.actions)
        answer = client.state.set_state(env=2, state=kept.state)
        parts = env.batch_spec.observation_parts
        row = np.frombuffer(answer.observation, np.uint8).reshape(1, -1)
        seen = views(row, parts)
        assert seen["position",][0].tolist() == observations["position"][2].tolist()
        assert seen["pixels",][0].tolist() == observations["pixels"][2].tolist()


def test_in_same_step_mode_the_trajectory_is_the_librarys_own(sample: str) -> None:
    """No step is lost at an end: what the env shows is what act and observe give, and there is no final observation."""
    found = trajectory(sample, "inproc://{name}", "SAME_STEP", 1)
    with bound(made(sample, 4, episode_steps=9, seed=5)) as (engine, buffers):
        generator = np.random.default_rng(5)
        engine.step(every(RESET))
        for step in range(1, 41):
            buffers.actions[:] = random_actions(engine.spec, generator)
            engine.step(None)
            seen = views(buffers.observations, engine.spec.observation_parts)
            assert found['observations["position"]'][step].tobytes() == seen["position",].tobytes(), step
            assert found["rewards"][step].tobytes() == buffers.rewards.tobytes(), step


def step_until_it_ends(env: VectorEnv) -> None:
    for _ in range(10):
        env.step(env.transport.actions)


@pytest.mark.parametrize(
    ("options", "kind", "words"),
    [
        ({"exit_at": 3}, errors.PeerDied, "exit status 7.*sample: asked to.*at act 3"),
        ({"crash_at": 3}, errors.PeerDied, "signal SIGABRT.*sample: asked to.*at act 3"),
        ({"lines_per_act": 1000, "exit_at": 5}, errors.PeerDied, "to whoever listens"),  # more than a pipe holds
        ({"hang_at": 3}, errors.PeerTimeout, "within 0.5 s"),
    ],
    ids=["exit", "crash", "talkative", "hang"],
)
def test_a_library_that_ends_its_process_or_hangs_is_an_error(
    sample: str, options: dict[str, Any], kind: type[Exception], words: str
) -> None:
    with api.make(f"libenv:{sample}", 2, options=options, transport="shm", step_timeout_s=0.5) as env:
        env.reset()
        with pytest.raises(kind, match=f"(?s){words}"):
            step_until_it_ends(env)


@pytest.mark.parametrize(
    ("options", "kind", "words"),
    [
        ({"pace": 1}, errors.NotReachable, "exit status 1\n  sample: wrong type of option 'pace'"),
        ({"exit_at": True}, errors.NotReachable, "wrong type of option 'exit_at'"),
        ({"makes_nothing": True}, errors.EngineFailed, "libenv_make gave no env"),
    ],
)
def test_an_option_that_the_library_does_not_take_is_an_error_with_its_words(
    sample: str, options: dict[str, Any], kind: type[Exception], words: str
) -> None:
    with pytest.raises(kind, match=re.escape(words)):
        api.make(f"libenv:{sample}", 2, options=options, transport="shm")


def test_options_of_all_types_reach_the_library_as_what_they_are(sample: str) -> None:
    options = {"episode_steps": 7, "pace": 0.5, "makes_nothing": False, "name": b"maze"}
    with api.make(f"libenv:{sample}", 2, options=options, transport="inproc") as env:
        env.reset()
        *_, info = env.step(env.transport.actions)
        assert bytes(info["name"][0]).rstrip(b"\0") == b"maze"
