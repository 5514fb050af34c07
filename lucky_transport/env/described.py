"""What Gymnasium's API asks of a vector env beside stepping: spaces, metadata, attributes and images."""

from __future__ import annotations

import warnings
from typing import Any

import gymnasium
from gymnasium.envs.registration import EnvSpec
from gymnasium.spaces import Space
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from lucky_transport.closing import Closing
from lucky_transport.env.infos import attributes_of, frames_per_second
from lucky_transport.env.rendering import RENDER_MODES, EnvRenderer, can_render
from lucky_transport.spec.batch_spec import BatchSpec
from lucky_transport.transport import Transport


class DescribedEnv(gymnasium.vector.VectorEnv[Any, Any, NDArray[Any]], Closing):
    """A vector env as an engine's spec describes it. A subclass sets the attributes, then calls `_describe`."""

    observation_space: Space[Any]
    action_space: Space[Any]
    single_observation_space: Space[Any]
    single_action_space: Space[Any]
    transport: Transport
    batch_spec: BatchSpec
    autoreset_mode: AutoresetMode

    def _describe(self, renderer: EnvRenderer | None) -> None:
        """Set what Gymnasium's API asks of an env: spaces, metadata and attributes; none of it changes later."""
        spec = self.batch_spec
        self.num_envs = spec.num_envs
        observation_space, action_space = spec.observation_space(), spec.action_space()
        self.single_observation_space, self.single_action_space = observation_space, action_space
        self.observation_space = batch_space(observation_space, spec.num_envs)
        self.action_space = batch_space(action_space, spec.num_envs)
        self._renderer = renderer
        self.render_mode = None if renderer is None else RENDER_MODES[0]
        render_modes = list(RENDER_MODES) if renderer is not None or can_render(self.transport) else []
        self.metadata = {"render_modes": render_modes, "autoreset_mode": self.autoreset_mode}
        fps = frames_per_second(spec)
        if fps is not None:
            self.metadata["render_fps"] = fps
        self._attributes = dict(attributes_of(spec))
        env_id = spec.attributes.get("env_id")
        if env_id is not None:
            self.spec = EnvSpec(env_id, max_episode_steps=spec.attributes.get("max_episode_steps"))
            self._attributes["spec"] = self.spec

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """Return an attribute of the envs, once per env; raises AttributeError naming those there are."""
        if name not in self._attributes:
            raise AttributeError(
                f"the envs have no attribute {name!r}; they have: {', '.join(sorted(self._attributes))}"
            )
        return (self._attributes[name],) * self.num_envs

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Return an attribute of the envs (as Gymnasium's `call` does for what cannot be called), or render them."""
        if name == "render":
            return self.render()
        return self.get_attr(name)

    def set_attr(self, name: str, values: Any) -> None:
        """Raise AttributeError: the engine's attributes are fixed."""
        raise AttributeError(
            f"attribute {name!r} cannot be set: it is engine {self.batch_spec.engine!r}'s own; pass "
            f"reset(options={{...}}), or start the engine with other options"
        )

    def render(self) -> tuple[Any, ...]:
        """Return one image per env, uint8 (height, width, 3), of the state after the last step or reset.

        Without a render mode it warns and returns None per env, as Gymnasium's own envs do. Raises PeerTimeout,
        PeerDied, ClosedError, EngineFailed.
        """
        if self._renderer is None:
            remedy = "pass make(..., render_mode='rgb_array')"
            if not self.metadata["render_modes"]:
                remedy += ", which takes a camera of the engine: what envs draw themselves is not carried"
            warnings.warn(f"render() without a render mode shows nothing; {remedy}", stacklevel=2)
            return (None,) * self.num_envs
        return self._renderer.render()

    def __repr__(self) -> str:
        return (
            f"VectorEnv({self.batch_spec.engine}, num_envs={self.num_envs}, transport={self.transport.name}, "
            f"autoreset_mode={self.autoreset_mode.name})"
        )
