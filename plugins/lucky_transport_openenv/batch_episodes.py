"""Episodes on engines without worlds: each is one env of the batch, which steps alone while the others hold.

The first episode takes the stepping lease and the last one gives it back, so while agents play no other client steps
this engine, and an agent is refused while another client does.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from lucky_transport.call import Call
from lucky_transport.deadline import Deadline
from lucky_transport.engine import HOLD, RESET, Buffers
from lucky_transport.env.resetting import neutral_actions
from lucky_transport.errors import ConfigError, PeerTimeout, SessionEnded, SpecError, Unimplemented
from lucky_transport.host.host import Host
from lucky_transport.host.lease import Lease
from lucky_transport.messages import SetResetOptionsRequest, SetSeedsRequest
from lucky_transport.messages.methods import method
from lucky_transport.spec.actions import Bounds, check_actions
from lucky_transport.spec.batch_spec import BatchSpec
from lucky_transport_openenv.episode import Episode, Episodes, View, needs_reset, no_place
from lucky_transport_openenv.messages import observation_of, observation_schema, row_schema, write_action
from lucky_transport_openenv.options import ServerOptions

_SET_SEEDS = method("/lucky_transport.v1.BatchService/SetSeeds")
_SET_OPTIONS = method("/lucky_transport.v1.BatchService/SetResetOptions")


class BatchEpisodes(Episodes):
    """Hands out the envs of one batch. Raises ConfigError for options that need worlds, or too large a capacity.

    An engine that cannot hold envs has one episode, whatever its batch: its other envs step beside it.
    """

    has_ticks = False

    def __init__(self, host: Host, options: ServerOptions) -> None:
        self.spec: BatchSpec = host.spec
        self.engine = host.spec.engine
        places = host.spec.num_envs if host.spec.hold else 1
        needing_worlds = {
            "rate": options.rate_hz is not None,
            "map": bool(options.map_name),
            "ticks": options.ticks > 1,
        }
        for name, is_given in needing_worlds.items():
            if is_given:
                raise ConfigError(
                    f"option {name}: engine {self.engine!r} has no worlds, it is stepped", backend="openenv"
                )
        if options.capacity is not None and options.capacity > places:
            raise ConfigError(
                f"capacity={options.capacity}: engine {self.engine!r} has room for {places}",
                backend="openenv",
                hint="serve it with --num-envs" if host.spec.hold else "it cannot hold envs while others step",
            )
        self.capacity = options.capacity or places
        self.action_schema = row_schema(self.spec.action, self.spec.action_parts, self.spec.action_names)
        self.observation_schema = observation_schema(self.spec)
        self._host = host
        self._longest_s = options.longest_s
        self._lock = threading.Lock()
        self._stepping = threading.Lock()
        self._players: dict[int, BatchEpisode] = {}
        self._neutral = neutral_actions(self.spec)
        self._buffers = Buffers.allocate(self.spec)
        self._lease: Lease | None = None
        self._bounds = Bounds(self.spec.action)

    def open(self) -> BatchEpisode:
        with self._lock:
            free = [env for env in range(self.capacity) if env not in self._players]
            if not free:
                raise no_place(self.capacity)
            episode = self._players[free[0]] = BatchEpisode(self, free[0])
            return episode

    def release(self, episode: BatchEpisode) -> None:
        """Take an episode's env back; with the last one the lease is released. Idempotent, and waits for no step."""
        with self._lock:
            if self._players.get(episode.env) is not episode:
                return
            del self._players[episode.env]
        self._rest()

    def _rest(self) -> None:
        """Release the lease where nobody plays, unless there is a step under way, which does so at its end."""
        while not self._players and self._lease is not None and self._stepping.acquire(blocking=False):
            try:
                if not self._players:
                    self._lease.release()
                    self._lease = None
            finally:
                self._stepping.release()

    def call(self, row: Any, request: Any) -> Any:
        """Return the engine's response to a typed call."""
        return self._host.call(row, request, Call("openenv", Deadline(self._longest_s)))

    def implements(self, row: Any) -> bool:
        """True when the engine answers that method."""
        return self._host.implements(row)

    def exchange(
        self, episode: BatchEpisode, action: Any, code: int
    ) -> tuple[Any, float, bool, bool, dict[str, float]]:
        """Step or reset an episode's env and return its observation, reward, flags and terms by name.

        action: JSON values, None for a neutral one. Raises Busy where another client drives the engine, PeerTimeout
        where another episode's step lasts for too long, SessionEnded once the episode is closed.
        """
        spec, env = self.spec, episode.env
        if not self._stepping.acquire(timeout=Deadline(self._longest_s).remaining_s):
            raise PeerTimeout(f"engine {self.engine!r} was in another step for {self._longest_s:g} s", hint="try again")
        try:
            if self._players.get(env) is not episode:
                raise SessionEnded("the episode was closed, or idle for too long", hint="connect again")
            actions = self._neutral.copy()
            if action is not None:
                write_action(spec, actions[env : env + 1], action)
                if not spec.action_parts:
                    self._bounds.check(check_actions(spec, actions, "action"), "action")
            control = np.full(spec.num_envs, HOLD if spec.hold else code, np.uint8)
            control[env] = code
            if self._lease is None:
                self._lease = self._host.drive("agents over openenv", self._buffers)
            np.copyto(self._buffers.actions, actions)
            self._lease.step(control)
            buffers = self._buffers
            names = (*spec.reward_terms, *spec.termination_terms)
            column = cast("NDArray[np.float32]", buffers.signals[:, env])
            terms = dict(zip(names, column.tolist(), strict=True))
            return (
                observation_of(spec, buffers.observations[env]),
                float(buffers.rewards[env]),
                bool(buffers.terminated[env]),
                bool(buffers.truncated[env]),
                terms,
            )
        finally:
            self._stepping.release()
            self._rest()


class BatchEpisode(Episode):
    """One env of the batch. env: its number."""

    def __init__(self, episodes: BatchEpisodes, env: int) -> None:
        self.env = env
        self._episodes = episodes
        self._ticks = 0
        self._last: View | None = None

    def reset(self, seed: int | None, map_name: str, options: Mapping[str, Any]) -> View:
        if map_name:
            raise SpecError(f"map {map_name!r}: engine {self._episodes.engine!r} has no maps", hint="leave it out")
        if options:
            self._set_options(options)
        if seed is not None:
            self._set_seed(seed)
        observation, _, _, _, _ = self._episodes.exchange(self, None, RESET)
        self._ticks = 0
        self._last = View(observation, None, False, False, 0, 0)
        return self._last

    def _set_options(self, options: Mapping[str, Any]) -> None:
        if self._episodes.spec.num_envs > 1:
            raise SpecError(
                f"options {dict(options)}: they would hold for all {self._episodes.spec.num_envs} envs of the engine",
                hint="leave them out, or serve the engine with --num-envs 1",
            )
        answer = self._episodes.call(_SET_OPTIONS, SetResetOptionsRequest(None, json.dumps(dict(options))))
        if not answer.success:
            raise SpecError(f"engine {self._episodes.engine!r} refused the options: {answer.message}")

    def _set_seed(self, seed: int) -> None:
        if not self._episodes.implements(_SET_SEEDS):
            raise Unimplemented(f"engine {self._episodes.engine!r} takes no seeds", hint="reset without a seed")
        seeds = [0] * self._episodes.spec.num_envs
        mask = bytearray(len(seeds))
        seeds[self.env], mask[self.env] = seed, 1
        answer = self._episodes.call(_SET_SEEDS, SetSeedsRequest(seeds, bytes(mask)))
        if not answer.success:
            raise SpecError(f"engine {self._episodes.engine!r} refused seed {seed}: {answer.message}")

    def act(self, action: Any, ticks: int | None) -> View:
        if ticks is not None:
            raise SpecError(f"ticks {ticks}: engine {self._episodes.engine!r} takes one step at a time")
        if self._last is None or self._last.done:
            raise needs_reset("step", self._last is not None)
        if action is None:
            raise SpecError("action is missing", hint="see the schema of actions")
        observation, reward, terminated, truncated, terms = self._episodes.exchange(self, action, 0)
        self._ticks += 1
        self._last = View(observation, reward, terminated, truncated, self._ticks, 1, {"terms": terms})
        return self._last

    def observe(self) -> View:
        if self._last is None:
            raise needs_reset("observe", False)
        seen = self._last
        return View(seen.observation, 0.0, seen.terminated, seen.truncated, seen.ticks, 0, seen.details)

    def keep(self) -> None:
        pass

    def close(self) -> None:
        self._episodes.release(self)
