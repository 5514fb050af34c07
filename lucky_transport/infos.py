"""A frame's signals as the `info` dict of a vector env: one column per term, never one dict per env.

    info["reward_terms"]["alive"]         float32 (num_envs,)     info["_reward_terms"]      bool (num_envs,)
    info["termination_terms"]["time_out"] bool (num_envs,)        info["_termination_terms"] bool (num_envs,)

Inside, each column has Gymnasium's mask "_<name>" too. A row is valid when its env stepped; a row of an env that was
reset instead is zero and masked out. Info parts of the spec come out beside the terms, under their own names; they are
part of the row of an observation, so an env that was reset has them too.

Rule 1: the terms explain the reward and the flags returned beside them, in every autoreset mode.
Rule 2: nothing here loops over envs. Masks and all-False columns are shared between steps and therefore read-only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from lucky_transport.composite import Path, Record, Tree, nested, tree_of
from lucky_transport.specs import BatchSpec

__all__ = ["InfoParts", "TermColumns"]


class TermColumns:
    """Turns the signals of one spec into info dicts. `names`: of all terms, reward terms first."""

    def __init__(self, spec: BatchSpec) -> None:
        self.names = (*spec.reward_terms, *spec.termination_terms)
        self._rewards = spec.reward_terms
        self._terminations = spec.termination_terms
        self._split = len(spec.reward_terms)
        self._all = np.ones(spec.num_envs, np.bool_)
        none = np.zeros(spec.num_envs, np.bool_)
        self._all.flags.writeable = none.flags.writeable = False
        # what most steps share: every row valid, no termination term set
        self._reward_masks = _masks(self._rewards, self._all)
        self._no_terminations = dict.fromkeys(self._terminations, none) | _masks(self._terminations, self._all)

    def info(self, signals: NDArray[np.float32]) -> dict[str, Any]:
        """Return the info of a step in which every env stepped; the columns are views of `signals`, float32
        (terms, num_envs), which the caller gives away.
        """
        # zip's keyword `strict` costs 0.2 us a call, a tenth of what this whole env may add to a step
        rewards = self._reward_masks.copy()
        rewards.update(zip(self._rewards, signals))  # noqa: B905
        terminations = self._no_terminations.copy()
        flags = signals[self._split :]
        if np.count_nonzero(flags):
            terminations.update(zip(self._terminations, flags.astype(np.bool_)))  # noqa: B905
        return {
            "reward_terms": rewards,
            "_reward_terms": self._all,
            "termination_terms": terminations,
            "_termination_terms": self._all,
        }

    def masked_info(self, signals: NDArray[np.float32], valid: NDArray[np.bool_]) -> dict[str, Any]:
        """Return the info where only the envs of `valid`, bool (num_envs,), have terms."""
        info = self.info(signals)
        info["reward_terms"].update(_masks(self._rewards, valid))
        info["termination_terms"].update(_masks(self._terminations, valid))
        info["_reward_terms"] = info["_termination_terms"] = valid
        return info


def _masks(names: tuple[str, ...], mask: NDArray[np.bool_]) -> dict[str, Any]:
    return {f"_{name}": mask for name in names}


class InfoParts:
    """Turns the info parts in the rows of one spec's observations into info dicts, nested as their paths say."""

    def __init__(self, spec: BatchSpec) -> None:
        self._tree = tree_of("info", spec.info_parts)
        self._record = Record(spec.info_parts, spec.observation.size)
        self._all = np.ones(spec.num_envs, np.bool_)
        self._all.flags.writeable = False

    def info(self, rows: NDArray[np.uint8], valid: NDArray[np.bool_] | None = None) -> dict[str, Any]:
        """Return name -> copy of the part, (num_envs, *shape), and "_name" -> mask, at every level.

        `rows`: uint8 (num_envs, row_bytes). `valid`: bool (num_envs,), the envs that have values (None: all); the rows
        of the others are zero.
        """
        found = {path: array.copy() for path, array in self._record.views(rows).items()}
        if valid is not None:
            for array in found.values():
                array[~valid] = 0
        return _masked(self._tree, found, self._all if valid is None else valid)


def _masked(tree: Tree, found: Mapping[Path, NDArray[Any]], mask: NDArray[np.bool_]) -> dict[str, Any]:
    table: dict[str, Any] = {}
    for name, branch in cast("dict[str, Tree]", tree).items():
        if isinstance(branch, dict):
            table[name] = _masked(branch, found, mask)
        else:
            table[name] = nested(branch, lambda part: found[part.path])
        table[f"_{name}"] = mask
    return table
