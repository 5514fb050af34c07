"""The checker of vector envs: envs that keep the contract pass, and each planted defect is found by its rule."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from lucky_transport import api
from lucky_transport.testing import VectorEnvFaults, check_vector_env

NEXT, SAME, OFF = AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP, AutoresetMode.DISABLED
MODES = [NEXT, SAME, OFF]


def gymnasiums_own(mode: AutoresetMode = NEXT, env_id: str = "CartPole-v1", **options: Any) -> SyncVectorEnv:
    return SyncVectorEnv([lambda: gymnasium.make(env_id, **options)] * 3, autoreset_mode=mode)


def ours(mode: AutoresetMode, engine: str = "toy", **settings: Any) -> Any:
    return api.make(engine, 3, transport="inproc", autoreset_mode=mode, **settings)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("env_id", ["CartPole-v1", "Pendulum-v1"])
def test_gymnasiums_own_envs_pass(mode: AutoresetMode, env_id: str) -> None:
    env = gymnasiums_own(mode, env_id, max_episode_steps=20)
    notes = check_vector_env(env, steps=45)
    # Gymnasium pops the mask out of the options
    assert len(notes) == (mode is OFF)
    assert all("reset_mask" in note for note in notes)
    env.close()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("engine", ["toy", "toy:composite", "cartpole", "gymnasium:CartPole-v1"])
def test_our_envs_pass(mode: AutoresetMode, engine: str) -> None:
    options = {"episode_steps": 9} if engine.startswith("toy") else {}
    with ours(mode, engine, options=options) as env:
        assert check_vector_env(env, steps=60) == []


def test_a_wrapped_env_passes() -> None:
    with ours(NEXT, options={"episode_steps": 9}) as env:
        assert check_vector_env(gymnasium.wrappers.vector.RecordEpisodeStatistics(env), steps=30) == []


def test_views_pass_where_they_are_announced() -> None:
    with ours(NEXT, options={"episode_steps": 9}, copy=False) as env:
        assert check_vector_env(env, steps=30, copy=False) == []
        with pytest.raises(VectorEnvFaults) as caught:
            check_vector_env(env, steps=30)
    assert list(caught.value.faults) == ["overwritten"]


def test_episodes_that_do_not_end_are_told_of() -> None:
    env = gymnasiums_own(env_id="Pendulum-v1")
    (note,) = check_vector_env(env, steps=5)
    assert note == "no episode ended within 5 steps: nothing of autoreset was checked"
    env.close()


class Planted(gymnasium.vector.VectorEnv[Any, Any, Any]):
    """An env with a defect: `change` gets the result of each step, and what it returns is returned; `reset` resets."""

    def __init__(
        self,
        mode: AutoresetMode = NEXT,
        change: Callable[..., Any] = lambda result: result,
        reset: Callable[..., Any] = lambda plain, seed, options: plain.reset(
            seed=seed, options=options and {**options}
        ),
    ) -> None:
        self.plain, self.change, self.reset_by = gymnasiums_own(mode, max_episode_steps=15), change, reset
        self.num_envs = 3
        self.metadata = dict(self.plain.metadata)
        for name in ("single_observation_space", "single_action_space", "observation_space", "action_space"):
            setattr(self, name, getattr(self.plain, name))

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return self.reset_by(self.plain, seed, options)

    def step(self, actions: Any) -> Any:
        return self.change(self.plain.step(actions))

    def close_extras(self, **kwargs: Any) -> None:
        self.plain.close()


@pytest.fixture
def plant() -> Iterator[Callable[..., Planted]]:
    """Makes planted envs, and closes them."""
    with ExitStack() as made:

        def make(*args: Any, kind: type[Planted] = Planted, **kwargs: Any) -> Planted:
            return made.enter_context(closing(kind(*args, **kwargs)))

        yield make


def faults_of(env: Any) -> dict[str, str]:
    with pytest.raises(VectorEnvFaults) as caught:
        check_vector_env(env, steps=60)
    assert all(f"{rule}: {text}" in str(caught.value) for rule, text in caught.value.faults.items())
    return caught.value.faults


def test_the_env_that_defects_are_planted_in_passes_without(plant: Callable[..., Planted]) -> None:
    for mode in MODES:
        assert check_vector_env(plant(mode), steps=60) == []


def _with_info(result: Any, **more: Any) -> Any:
    return (*result[:4], result[4] | more)


EVERY = np.ones(3, np.bool_)


def _at_ends(**more: Any) -> Callable[[Any], Any]:
    return lambda result: _with_info(result, **more) if "final_obs" in result[4] else result


@pytest.mark.parametrize(
    ("rule", "mode", "change"),
    [
        ("step", NEXT, lambda r: (*r[:2], r[2] | r[3], r[4])),
        ("rewards", NEXT, lambda r: (r[0], r[1].tolist(), *r[2:])),
        ("rewards", NEXT, lambda r: (r[0], r[1][:, None], *r[2:])),
        ("rewards", NEXT, lambda r: (r[0], r[1].astype(np.int64), *r[2:])),
        ("rewards", NEXT, lambda r: (r[0], r[1] * np.nan, *r[2:])),
        ("terminated", NEXT, lambda r: (*r[:2], r[2].view(np.uint8), *r[3:])),
        ("truncated", NEXT, lambda r: (*r[:3], r[3].tolist(), r[4])),
        ("truncated", NEXT, lambda r: (*r[:2], r[2], r[2], r[4])),
        ("observation", NEXT, lambda r: (r[0].astype(np.float64), *r[1:])),
        ("observation", NEXT, lambda r: (r[0][:2], *r[1:])),
        ("observation", NEXT, lambda r: (r[0] * np.nan, *r[1:])),
        ("info", NEXT, lambda r: (*r[:4], [{}, {}, {}])),
        ("info", NEXT, lambda r: _with_info(r, height=[1, 2, 3], _height=EVERY)),
        ("info", NEXT, lambda r: _with_info(r, height=1.5, _height=EVERY)),
        ("info", NEXT, lambda r: _with_info(r, height=np.zeros(2), _height=EVERY)),
        ("info", NEXT, lambda r: _with_info(r, episode={"r": np.zeros(3), "_r": EVERY}, _episode=EVERY)),
        ("info mask", NEXT, lambda r: _with_info(r, height=np.zeros(3), _height=EVERY.view(np.uint8))),
        (
            "info mask",
            NEXT,
            lambda r: _with_info(r, group={"height": np.zeros(3), "_height": [True] * 3}, _group=EVERY),
        ),
        ("final_obs", NEXT, lambda r: _with_info(r, final_obs=r[0], _final_obs=EVERY)),
        ("final_obs", SAME, lambda r: (*r[:4], {name: value for name, value in r[4].items() if "final" not in name})),
        ("final_obs", SAME, _at_ends(_final_obs=~EVERY)),
        ("final_obs", SAME, _at_ends(final_obs=np.full((3, 4), 1e9, np.float32))),
    ],
)
def test_a_defect_of_a_step_is_found(
    plant: Callable[..., Planted], rule: str, mode: AutoresetMode, change: Callable[..., Any]
) -> None:
    assert list(faults_of(plant(mode, change))) == [rule]


def test_a_reward_for_the_step_that_resets_is_found(plant: Callable[..., Planted]) -> None:
    faults = faults_of(plant(change=lambda r: (r[0], r[1] + 1, *r[2:])))
    assert "in NEXT_STEP that step resets" in faults["next_step"]


@pytest.mark.parametrize(
    ("mode", "rule"), [(SAME, "final_obs"), ("NextStep", "autoreset_mode"), (None, "autoreset_mode")]
)
def test_a_mode_that_is_not_the_envs_or_none_is_found(plant: Callable[..., Planted], mode: Any, rule: str) -> None:
    env = plant(NEXT)
    env.metadata["autoreset_mode"] = mode
    assert list(faults_of(env)) == [rule]


def test_observations_that_the_next_step_overwrites_are_found(plant: Callable[..., Planted]) -> None:
    buffer = np.zeros((3, 4), np.float32)

    def into_buffer(result: Any) -> Any:
        buffer[:] = result[0]
        return (buffer, *result[1:])

    assert list(faults_of(plant(change=into_buffer))) == ["overwritten"]


def pops_all(plain: SyncVectorEnv, seed: Any, options: Any) -> Any:
    (options or {}).clear()
    return plain.reset(seed=seed)


def refuses_options(plain: SyncVectorEnv, seed: Any, options: Any) -> Any:
    if options:
        raise ValueError(f"unknown options {options}")
    return plain.reset(seed=seed)


@pytest.mark.parametrize(
    ("rule", "mode", "reset"),
    [
        ("options", OFF, lambda plain, seed, options: plain.reset(seed=seed, options=options)),  # pops the mask
        ("options", NEXT, pops_all),
        ("options", NEXT, refuses_options),
        ("reset_mask", OFF, lambda plain, seed, options: plain.reset(seed=seed)),
        ("seed", NEXT, lambda plain, seed, options: plain.reset(options=options)),
        ("seed", NEXT, lambda plain, seed, options: plain.reset(seed=[seed] * 3 if isinstance(seed, int) else seed)),
    ],
    ids=["pops the mask", "pops all", "refuses options", "resets all", "forgets the seed", "seeds all alike"],
)
def test_a_defect_of_a_reset_is_found(
    plant: Callable[..., Planted], rule: str, mode: AutoresetMode, reset: Callable[..., Any]
) -> None:
    assert list(faults_of(plant(mode, reset=reset))) == [rule]


def test_dynamics_that_no_seed_decides_are_found(plant: Callable[..., Planted]) -> None:
    generator = np.random.default_rng()
    faults = faults_of(plant(change=lambda r: (r[0], r[1] * (1 + generator.random()), *r[2:])))
    assert "another trajectory the second time" in faults["seed"]


def test_returned_arrays_that_are_the_envs_own_are_found(plant: Callable[..., Planted]) -> None:
    total = np.zeros(3)

    def running_total(result: Any) -> Any:
        total[:] += result[1]
        return (result[0], total, *result[2:])

    def restarts(plain: SyncVectorEnv, seed: Any, options: Any) -> Any:
        total[:] = 0
        return plain.reset(seed=seed, options=options)

    assert list(faults_of(plant(SAME, running_total, restarts))) == ["shared memory"]


def test_spaces_that_do_not_fit_and_no_vector_env_are_found(plant: Callable[..., Planted]) -> None:
    env = plant()
    env.action_space = env.single_action_space
    assert list(faults_of(env)) == ["action_space"]
    env = plant()
    env.num_envs = 0
    assert list(faults_of(env)) == ["num_envs"]
    single: Any = gymnasium.make("CartPole-v1")
    assert list(faults_of(single)) == ["class"]
    single.close()


class FixedSpec(Planted):
    def __setattr__(self, name: str, value: Any) -> None:
        if name == "spec":
            raise AttributeError("spec is fixed")
        super().__setattr__(name, value)


def test_a_spec_that_cannot_be_set_is_found(plant: Callable[..., Planted]) -> None:
    assert list(faults_of(plant(kind=FixedSpec))) == ["spec"]


class Draws(Planted):
    """Renders what `images` is."""

    render_mode = "rgb_array"
    images: Any = ()

    def render(self) -> Any:
        return self.images


@pytest.mark.parametrize(
    ("images", "fps", "passes"),
    [
        ((np.zeros((4, 6, 3), np.uint8),) * 3, 50, True),
        ((np.zeros((4, 6, 3), np.uint8),) * 3, None, False),
        ((np.zeros((4, 6, 3), np.uint8),), 50, False),
        ((np.zeros((4, 6, 3)),) * 3, 50, False),
        (np.zeros((3, 4, 6, 3), np.uint8), 50, False),
    ],
)
def test_images_are_checked(plant: Callable[..., Planted], images: Any, fps: int | None, passes: bool) -> None:
    env: Any = plant(kind=Draws)
    env.images = images
    env.metadata.pop("render_fps", None)
    if fps:
        env.metadata["render_fps"] = fps
    if passes:
        assert check_vector_env(env, steps=20) == []
    else:
        assert list(faults_of(env)) == ["render"]
