"""What an env tells beside observations: the `info` dict of a step, and the attributes of the env.

The info has a frame's signals: one column per term, never one dict per env.

    info["reward_terms/alive"]         float32 (num_envs,)     info["_reward_terms/alive"]         bool (num_envs,)
    info["termination_terms/time_out"] bool (num_envs,)        info["_termination_terms/time_out"] bool (num_envs,)
    info["reward_terms"]["alive"]      the same column          info["_reward_terms"]               the same mask

Each column has Gymnasium's mask "_<name>". A row is valid when its env stepped; a row of an env that was reset instead
is zero and masked out. Info parts of the spec come out beside the terms, under their own names; they are part of the
row of an observation, so an env that was reset has them too.

The columns are flat because that is what loggers and TorchRL read: TorchRL takes an array for every name of an info,
and stops at a dict.

In every autoreset mode the terms explain the reward and the flags returned beside them. Masks and all-False columns are
shared between steps and therefore read-only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from lucky_transport.spec.batch_spec import BatchSpec
from lucky_transport.spec.composite import Path, Record, Tree, nested, tree_of

#: Names that stacks written against `gymnasium.Env` use, and the attribute that answers them.
_ALIASES = {"_max_episode_steps": "max_episode_steps"}


class Info(dict[str, Any]):
    """The info of a step: a dict of columns named "group/name", and `info["group"]` is a dict of the group's columns.

    A group is found by subscript, `get` and `in`; iterating shows columns only.
    """

    __slots__ = ()

    def __missing__(self, name: str) -> Info:
        group = Info(self._columns(name))
        if not group:
            raise KeyError(name)
        return group

    def _columns(self, group: str) -> Iterator[tuple[str, Any]]:
        """Yield the columns of a group and their masks by the names that they have in it."""
        plain, mask = f"{group}/", f"_{group}/"
        for name, column in self.items():
            if name.startswith(plain):
                yield name[len(plain) :], column
            elif name.startswith(mask):
                yield f"_{name[len(mask) :]}", column

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or (isinstance(name, str) and any(self._columns(name)))

    def get(self, key: str, default: Any = None, /) -> Any:
        """Return the column or the group of that name, `default` where there is neither."""
        try:
            return self[key]
        except KeyError:
            return default

    def copy(self) -> Info:
        """Return a new info of the same columns."""
        return Info(self)


class TermColumns:
    """Turns the signals of one spec into infos.

    names: of all terms, reward terms first. reward_columns: the names that reward terms have in an info. shared: what
    most steps have in common, every row valid and no termination term set.
    """

    def __init__(self, spec: BatchSpec) -> None:
        self.names = (*spec.reward_terms, *spec.termination_terms)
        self.reward_columns = [f"reward_terms/{name}" for name in spec.reward_terms]
        self._terminations = [f"termination_terms/{name}" for name in spec.termination_terms]
        every = np.ones(spec.num_envs, np.bool_)
        none = np.zeros(spec.num_envs, np.bool_)
        every.flags.writeable = none.flags.writeable = False
        self._no_flags = bytes(4 * len(spec.termination_terms) * spec.num_envs)
        self.shared = dict.fromkeys(self.reward_columns) | dict.fromkeys(self._terminations, none) | self._masks(every)

    def info(self, signals: NDArray[np.float32], valid: NDArray[np.bool_] | None = None) -> Info:
        """Return the info of a step; the columns are views of `signals`, float32 (terms, num_envs), which the caller
        gives away. `valid`: bool (num_envs,), the envs that have terms (None: all).
        """
        info = Info(self.shared)
        # zip's keyword `strict` costs 0.2 us a call, a tenth of what this whole env may add to a step
        info.update(zip(self.reward_columns, signals))  # noqa: B905
        flags = signals[len(self.reward_columns) :]
        if flags.tobytes() != self._no_flags:  # a third of what numpy.count_nonzero takes for one env
            info.update(zip(self._terminations, flags.astype(np.bool_)))  # noqa: B905
        if valid is not None:
            info.update(self._masks(valid))
        return info

    def _masks(self, mask: NDArray[np.bool_]) -> dict[str, Any]:
        names = ("reward_terms", "termination_terms", *self.reward_columns, *self._terminations)
        return {f"_{name}": mask for name in names}


class InfoParts:
    """Turns the info parts in the rows of one spec's observations into infos, whose names are the parts' paths."""

    def __init__(self, spec: BatchSpec) -> None:
        self._tree = tree_of("info", spec.info_parts)
        self._record = Record(spec.info_parts, spec.observation.size)
        self._all = np.ones(spec.num_envs, np.bool_)
        self._all.flags.writeable = False

    def info(self, rows: NDArray[np.uint8], valid: NDArray[np.bool_] | None = None) -> Info:
        """Return name -> copy of the part, (num_envs, *shape), and "_name" -> mask, for parts and groups of them.

        `rows`: uint8 (num_envs, row_bytes). `valid`: bool (num_envs,), the envs that have values (None: all); the rows
        of the others are zero.
        """
        found = {path: array.copy() for path, array in self._record.views(rows).items()}
        if valid is not None:
            for array in found.values():
                array[~valid] = 0
        info = Info()
        _add(info, "", self._tree, found, self._all if valid is None else valid)
        return info


def _add(info: Info, group: str, tree: Tree, found: Mapping[Path, NDArray[Any]], mask: NDArray[np.bool_]) -> None:
    """Put the parts of `tree` into `info`, under the names that they have in `group`."""
    for name, branch in cast("dict[str, Tree]", tree).items():
        if isinstance(branch, dict):
            _add(info, f"{group}{name}/", branch, found, mask)
        else:
            info[f"{group}{name}"] = nested(branch, lambda part: found[part.path])
        info[f"_{group}{name}"] = mask


def attributes_of(spec: BatchSpec) -> Mapping[str, Any]:
    """Return attribute name -> value: those of the spec, Gymnasium's aliases of them, and `render_fps` if known."""
    table = dict(spec.attributes)
    for alias, name in _ALIASES.items():
        if name in table:
            table.setdefault(alias, table[name])
    fps = frames_per_second(spec)
    if fps is not None:
        table["render_fps"] = fps
    return table


def frames_per_second(spec: BatchSpec) -> int | float | None:
    """Return how many steps make a simulated second (a whole number as int), None when the step's time is unknown."""
    given = spec.attributes.get("render_fps")
    if given is not None:
        return given
    if not spec.step_s:
        return None
    rate = round(1 / spec.step_s, 6)
    return int(rate) if rate.is_integer() else rate
