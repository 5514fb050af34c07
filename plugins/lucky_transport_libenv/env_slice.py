"""Rows of a batch that one env of the library steps, and where it reads their actions and writes all else.

The interface has no reset: a row whose episode ended shows its next episode already, and a reset amid an episode makes
the library's env anew, with all its rows. A library is told its places once per env and may keep the pointers, so the
arrays live as long as the env.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.engine import HOLD, RESET, Buffers
from lucky_transport.errors import EngineFailed, Unimplemented
from lucky_transport.spec.batch_spec import BatchSpec
from lucky_transport.spec.composite import Part, Record
from lucky_transport_libenv.interface import LibenvBuffers
from lucky_transport_libenv.library import Library
from lucky_transport_libenv.options import OptionBlock


class Places:
    """Rows of observations, infos and actions of all envs, tensor by tensor, each array (num_envs, *shape).

    observations, infos, actions: in the library's order, views of a driver's buffers, so nothing is copied.
    """

    def __init__(self, spec: BatchSpec, buffers: Buffers) -> None:
        self.observations = _views(spec.observation_parts, buffers.observations)
        self.infos = _views(spec.info_parts, buffers.observations)
        self.actions = _views(spec.action_parts, buffers.actions)

    def is_memory_of(self, buffers: Buffers) -> bool:
        """True when these are views of the memory that `buffers` are."""
        return (
            self.actions[0].ctypes.data == buffers.actions.ctypes.data
            and self.observations[0].ctypes.data == buffers.observations.ctypes.data
        )

    def copy_rows_to(self, other: Places, rows: slice | NDArray[np.intp]) -> None:
        """Make those rows of the observations and infos of `other` the same."""
        for mine, theirs in zip(self.observations + self.infos, other.observations + other.infos, strict=True):
            theirs[rows] = mine[rows]

    def take_actions(self, other: Places, rows: slice) -> None:
        """Make those rows of the actions those of `other`."""
        for mine, theirs in zip(self.actions, other.actions, strict=True):
            mine[rows] = theirs[rows]


def _views(parts: Sequence[Part], rows: NDArray[Any]) -> list[NDArray[Any]]:
    return list(Record(parts, rows.shape[-1]).views(rows).values())


def _pointers(arrays: Sequence[NDArray[Any]], start: int, size: int) -> Any:
    addresses = [array.ctypes.data + env * array.strides[0] for array in arrays for env in range(start, start + size)]
    return (ctypes.c_void_p * len(addresses))(*addresses)


def _table(
    places: Places, rewards: NDArray[np.float32], first: NDArray[np.uint8], start: int, size: int
) -> LibenvBuffers:
    """Return C's table of the rows `start` to `start + size`; it keeps its tables of pointers, not the arrays, alive.

    rewards, first: contiguous, (num_envs,).
    """
    as_pointers = ctypes.POINTER(ctypes.c_void_p)
    ob, info, ac = (_pointers(arrays, start, size) for arrays in (places.observations, places.infos, places.actions))
    return LibenvBuffers(
        ctypes.cast(ob, as_pointers),
        rewards[start:].ctypes.data,
        first[start:].ctypes.data,
        ctypes.cast(info, as_pointers),
        ctypes.cast(ac, as_pointers),
    )


class EnvOperation(Enum):
    """What an exchange does with a slice: nothing, a step of all its rows, a new env of the library."""

    STAY = "stay"
    STEP = "step"
    RENEW = "renew"


class EnvSlice:
    """`rows` (a slice) of a batch and the library's env behind them; made by the constructor, ended by `close`.

    options: what the next env is made with; may be replaced. places: None until `attach`.
    """

    def __init__(self, library: Library, rows: slice, options: Mapping[str, Any]) -> None:
        self.rows = rows
        self.options = options
        self.places: Places | None = None
        self.handle = 0
        self._library = library
        self._pointed_to: list[object] = []  # what the library may still point to lives until its env is closed
        self.make()

    def make(self) -> None:
        """Have the library make an env, in the place of the one before; that one stays when there is no new one.

        Raises SpecError for options that cannot be passed on, EngineFailed when there is no env.
        """
        options = OptionBlock(self.options)
        handle = self._library.make(self.rows.stop - self.rows.start, options.value)
        if not handle:
            raise EngineFailed(
                f"{self._library.path}: libenv_make gave no env for the options {dict(self.options)!r}",
                backend="libenv",
                hint="it may have said why on stderr",
            )
        self.close()
        self.handle = handle
        self._pointed_to = [options]

    def attach(self, places: Places, rewards: NDArray[np.float32], first: NDArray[np.uint8]) -> None:
        """Have the rows in `places`, `rewards` and `first` (num_envs,) from now on, and show the start there."""
        places_in_c = _table(places, rewards, first, self.rows.start, self.rows.stop - self.rows.start)
        self.places = places
        self._pointed_to += [places, rewards, first, places_in_c]
        self._library.set_buffers(self.handle, ctypes.byref(places_in_c))
        self._library.observe(self.handle)

    def plan(self, control: NDArray[np.uint8], first: NDArray[np.uint8], *, renews: bool) -> EnvOperation:
        """Return what these control bytes mean here, before anything is moved.

        renews: a reset shall make a new env even at an episode's start.

        Raises Unimplemented for what the interface cannot do with rows of one env.
        """
        mine = control[self.rows]
        reset = (mine & RESET) != 0
        held = ((mine & HOLD) != 0) & ~reset
        if reset.all() and (renews or not first[self.rows].all()):
            return EnvOperation.RENEW
        amid = np.flatnonzero(reset & (first[self.rows] == 0))
        if amid.size:
            raise self._impossible(f"env {amid[0] + self.rows.start} alone cannot be reset amid its episode")
        if (reset | held).all():
            return EnvOperation.STAY
        if held.any():
            raise self._impossible(f"env {np.flatnonzero(held)[0] + self.rows.start} cannot hold while others step")
        return EnvOperation.STEP

    def _impossible(self, what: str) -> Unimplemented:
        return Unimplemented(
            f"{what}: the library steps envs {self.rows.start} to {self.rows.stop - 1} as one",
            backend="libenv",
            hint='reset all of them, or have an env of its own for each: options={"libenv": {"handles": num_envs}}',
        )

    def step(self, bound: Places, resting: NDArray[np.intp], rest: Sequence[Any]) -> None:
        """Step all rows with the actions in `bound`, whose observations and infos then are the new ones.

        resting: rows (of the batch) whose action is not theirs but `rest`, one value per action tensor.
        """
        assert self.places is not None
        if self.places is bound and not resting.size:
            self._library.act(self.handle)
            self._library.observe(self.handle)
            return
        if self.places is not bound:
            self.places.take_actions(bound, self.rows)
        given = [array[resting] for array in self.places.actions]
        for array, value in zip(self.places.actions, rest, strict=True):
            array[resting] = value
        self._library.act(self.handle)
        self._library.observe(self.handle)
        for array, values in zip(self.places.actions, given, strict=True):
            array[resting] = values  # it is the driver's memory
        self.show(bound)

    def observe(self, bound: Places) -> None:
        """Have the library write its rows again, and show them in `bound`."""
        self._library.observe(self.handle)
        self.show(bound)

    def show(self, bound: Places) -> None:
        """Have the rows of `bound` be the library's last ones."""
        if self.places is not None and self.places is not bound:
            self.places.copy_rows_to(bound, self.rows)

    def close(self) -> None:
        """End the library's env; idempotent."""
        handle, self.handle = self.handle, 0
        if handle:
            self._library.close(handle)
        self.places = None
        self._pointed_to = []
