"""The sizes, dtypes and names of a batch: all that a client knows of an engine before the first exchange.

An observation or an action is one array per env; where it has parts, that array is a record of them (see
`lucky_transport.spec.composite`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.errors import SpecError
from lucky_transport.nesting import finite, parse_json
from lucky_transport.spec.array_spec import DTYPES, ArraySpec, check_kinds
from lucky_transport.spec.composite import Part, check_parts
from lucky_transport.spec.spaces import space_of
from lucky_transport.version import compare_version, version

if TYPE_CHECKING:
    from gymnasium.spaces import Space

__all__ = ["DTYPES", "ArraySpec", "BatchSpec", "Part", "total_reward"]


@dataclass(frozen=True, slots=True)
class BatchSpec:
    """Everything fixed about a batch of `num_envs` envs that step together.

    `reward_terms` and `termination_terms` name the rows of a frame's `signals`, in that order, no name twice among
    either; `timeout_terms` are those termination terms that truncate. `observation_names` / `action_names` name the
    flat elements (empty: unnamed). `observation_terms` are (name, elements) in order, `action_groups` (name, indices
    into the flat action).
    `step_s` is the simulated time of one step in seconds (0: unknown). `reset_ticks` is 1 for an engine that cannot
    show a reset observation without one tick. `resets_itself` is True where an env that ended starts its next episode
    in that very step: the frame of its end shows the new episode, and there is no final observation. `attributes` are
    JSON values for `VectorEnv.get_attr`.

    `observation_parts` / `action_parts`: the arrays of a composite observation or action; then `observation` / `action`
    is the row that they are packed into (`lucky_transport.spec.composite.pack`). `info_parts` lie behind the
    observation parts in the same row and come out in the info of a step.
    """

    engine: str
    num_envs: int
    observation: ArraySpec
    action: ArraySpec
    reward_terms: tuple[str, ...] = ("reward",)
    termination_terms: tuple[str, ...] = ()
    timeout_terms: tuple[str, ...] = ()
    observation_names: tuple[str, ...] = ()
    action_names: tuple[str, ...] = ()
    observation_terms: tuple[tuple[str, int], ...] = ()
    action_groups: tuple[tuple[str, tuple[int, ...]], ...] = ()
    reset_ticks: int = 0
    hold: bool = True
    step_s: float = 0.0
    attributes: Mapping[str, Any] = field(default_factory=dict[str, Any])
    resets_itself: bool = False
    observation_parts: tuple[Part, ...] = ()
    action_parts: tuple[Part, ...] = ()
    info_parts: tuple[Part, ...] = ()

    def __post_init__(self) -> None:
        if self.num_envs < 1:
            raise SpecError(f"num_envs {self.num_envs}: expected at least 1")
        if not self.reward_terms:
            raise SpecError("a batch needs at least one reward term")
        for what in ("reward_terms", "termination_terms"):
            terms: tuple[str, ...] = getattr(self, what)
            twice = next((term for i, term in enumerate(terms) if term in terms[:i]), None)
            if twice is not None:
                raise SpecError(f"{what} has {twice!r} twice; give each term a name of its own")
        for term in self.timeout_terms:
            if term not in self.termination_terms:
                raise SpecError(
                    f"timeout term {term!r} is no termination term; add it to termination_terms, which has: "
                    f"{', '.join(self.termination_terms) or 'none'}"
                )
        if not 0 <= self.step_s < math.inf:
            raise SpecError(f"step_s {self.step_s}: expected seconds >= 0")
        if self.reset_ticks not in (0, 1):
            raise SpecError(f"reset_ticks {self.reset_ticks}: expected 0 or 1")
        for names, size, what in (
            (self.observation_names, self.observation.size, "observation_names"),
            (self.action_names, self.action.size, "action_names"),
        ):
            if names and len(names) != size:
                raise SpecError(f"{what} has {len(names)} names for {size} elements")
        if self.observation_parts or self.info_parts:
            check_parts("observation", self.observation, self.observation_parts, self.info_parts)
        if self.action_parts:
            check_parts("action", self.action, self.action_parts)

    @property
    def num_terms(self) -> int:
        """Rows of a frame's signals: reward terms, then termination terms."""
        return len(self.reward_terms) + len(self.termination_terms)

    @property
    def observation_shape(self) -> tuple[int, ...]:
        """Shape of a batch of observations."""
        return (self.num_envs, *self.observation.shape)

    @property
    def action_shape(self) -> tuple[int, ...]:
        """Shape of a batch of actions."""
        return (self.num_envs, *self.action.shape)

    @property
    def has_parts(self) -> bool:
        """True when observations or actions are rows of parts."""
        return bool(self.observation_parts or self.action_parts)

    def observation_space(self) -> Space[Any]:
        """Return the Gymnasium space of one env's observation."""
        return space_of("observation", self.observation, self.observation_parts)

    def action_space(self) -> Space[Any]:
        """Return the Gymnasium space of one env's action."""
        return space_of("action", self.action, self.action_parts)

    def to_json(self) -> str:
        """Return the spec, and which version wrote it, as JSON with sorted keys (equal specs give equal text)."""
        written_by = {_VERSION: version()} if version() else {}
        return json.dumps(self.to_plain() | written_by, sort_keys=True, separators=(",", ":"), allow_nan=False)

    def to_plain(self) -> dict[str, Any]:
        """Return the spec as values of JSON's types."""
        plain = {f.name: getattr(self, f.name) for f in fields(self)}
        plain["observation"], plain["action"] = self.observation.to_plain(), self.action.to_plain()
        for key in _PARTS:
            parts: tuple[Part, ...] = plain.pop(key)
            if parts:  # the JSON of a spec without them stays as it was
                plain[key] = [part.to_plain() for part in parts]
        if not self.resets_itself:
            del plain["resets_itself"]
        plain["attributes"] = dict(self.attributes)
        return plain

    @classmethod
    def from_json(cls, text: str | bytes) -> BatchSpec:
        """Return the spec that `to_json` wrote; another version of its writer is logged once.

        Raises SpecError when the text is no such JSON; unknown keys (of a newer peer) are ignored.
        """
        try:
            plain = parse_json(text, parse_float=finite, parse_constant=finite)
            known = {f.name for f in fields(cls)}
            values: dict[str, Any] = {k: v for k, v in plain.items() if k in known}
            check_kinds(values, _BATCH_KINDS)
            for key in ("observation", "action"):
                values[key] = ArraySpec.from_plain(values[key])
            for key in _PARTS & values.keys():
                values[key] = tuple(Part.from_plain(part) for part in values[key])
            for key in ("reward_terms", "termination_terms", "timeout_terms", "observation_names", "action_names"):
                if key in values:
                    values[key] = tuple(str(name) for name in values[key])
            if "observation_terms" in values:
                values["observation_terms"] = tuple(
                    (str(name), int(size)) for name, size in values["observation_terms"]
                )
            if "action_groups" in values:
                groups = values["action_groups"]
                values["action_groups"] = tuple((str(name), tuple(int(i) for i in at)) for name, at in groups)
            spec = cls(**values)
            if isinstance(theirs := plain.get(_VERSION), str):  # the engine kits say none
                compare_version(spec.engine, theirs)
            return spec
        except SpecError:
            raise
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
            raise SpecError(f"the peer's batch spec is malformed: {type(error).__name__}: {error}") from error


#: Where the JSON says which version wrote it.
_VERSION = "lucky_transport"
#: The fields that hold parts.
_PARTS = {"observation_parts", "action_parts", "info_parts"}

#: What JSON values of a spec may be; a peer's text is not to be trusted.
_BATCH_KINDS: dict[str, tuple[type, ...]] = {
    "engine": (str,),
    "num_envs": (int,),
    "reset_ticks": (int,),
    "hold": (bool,),
    "resets_itself": (bool,),
    "step_s": (int, float),
    "attributes": (dict,),
    **dict.fromkeys(("reward_terms", "termination_terms", "timeout_terms", "observation_names"), (list,)),
    **dict.fromkeys(("action_names", "observation_terms", "action_groups", *_PARTS), (list,)),
}


def total_reward(
    signals: NDArray[np.float32], num_reward_terms: int, out: NDArray[np.float32] | None = None
) -> NDArray[np.float32]:
    """Return the sum of the reward rows: float32 (num_envs,), added one row after the other in manifest order.

    The order matters: float32 addition is not associative, and engine, client and parity check must agree bit for bit.
    `signals` is float32 (terms, num_envs), reward rows first. Written into `out` when given.
    """
    if out is None:
        out = np.empty(signals.shape[1:], np.float32)
    np.copyto(out, signals[0])
    for row in range(1, num_reward_terms):
        np.add(out, signals[row], out)
    return out
