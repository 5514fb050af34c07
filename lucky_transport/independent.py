"""Envs that are stepped on their own: what a client sent and did not receive yet, and the checks of what it sends."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lucky_transport.engine import RESET
from lucky_transport.errors import LocalProtocolError, PeerTimeout, SpecError, SpecTypeError, Unimplemented
from lucky_transport.spec.actions import check_actions
from lucky_transport.spec.batch_spec import BatchSpec


def batch_of(spec: BatchSpec, rows: int) -> BatchSpec:
    """Return the spec of so many of the envs."""
    return spec if rows == spec.num_envs else replace(spec, num_envs=rows)


def together_only(engine: str, slots: int, backend: str) -> Unimplemented:
    """Return the error for an engine that steps all envs together, as each does with several observation slots."""
    if slots > 1:
        return Unimplemented(
            f"with {slots} observation slots all envs step together",
            backend=backend,
            hint="send() and recv() need observation_slots=1, on both sides",
        )
    return Unimplemented(
        f"engine {engine!r} steps its envs together, send() and recv() need one that steps them independently",
        backend=backend,
        hint="use step(); an engine offers it by parallel_envs and step_env (docs/how-to/async-envs.md)",
    )


def envs_late(ended: int, least: int, timeout_s: float, backend: str) -> PeerTimeout:
    """Return the error for a wait in which fewer envs ended than were waited for."""
    return PeerTimeout(
        f"{ended} of {least} envs ended their steps within {timeout_s:g} s",
        backend=backend,
        hint="nothing is lost: wait again, or raise step_timeout_s (LUCKY_STEP_TIMEOUT_S)",
    )


class SentEnvs:
    """The envs under way: each was sent, and not received yet. mask: bool (num_envs,)."""

    def __init__(self, spec: BatchSpec, backend: str) -> None:
        self._spec = spec
        self._backend = backend
        self.mask = np.zeros(spec.num_envs, np.bool_)

    @property
    def count(self) -> int:
        """How many envs are under way."""
        return int(np.count_nonzero(self.mask))

    def check_ids(self, env_ids: ArrayLike | None) -> NDArray[np.int32]:
        """Return the ids of the envs to send, int32 (k,) with k > 0; None stands for all.

        Raises SpecTypeError for what is no integer, SpecError for other shapes, ids out of range and an id twice,
        LocalProtocolError for an env that is under way.
        """
        n = self._spec.num_envs
        given = np.arange(n) if env_ids is None else np.asarray(env_ids)
        if given.size and given.dtype.kind not in "iu":
            raise SpecTypeError(f"env_ids have dtype {given.dtype}, expected integers")
        if given.ndim != 1 or not given.size:
            raise SpecError(f"env_ids have shape {given.shape}, expected (k,) with k from 1 to {n}")
        wrong = given[(given < 0) | (given >= n)]
        if wrong.size:
            raise SpecError(f"env_ids name env {wrong[0]}, expected ids from 0 to {n - 1}")
        ids = given.astype(np.int32)
        twice = np.flatnonzero(np.bincount(ids) > 1)
        if twice.size:
            raise SpecError(f"env_ids name env {twice[0]} more than once")
        if self.mask[ids].any():
            raise LocalProtocolError(
                f"send: envs {ids[self.mask[ids]].tolist()} are under way",
                backend=self._backend,
                hint="receive an env before you send it again",
            )
        return ids

    def check(
        self, actions: ArrayLike, env_ids: ArrayLike | None, control: NDArray[np.uint8] | None
    ) -> tuple[NDArray[Any], NDArray[np.int32], NDArray[np.uint8]]:
        """Return actions (k, *action shape), ids and control bytes as they are to be sent; raises as `check_ids` and
        `check_actions` do, SpecError for control bytes other than 0 and RESET.
        """
        ids = self.check_ids(env_ids)
        rows = check_actions(batch_of(self._spec, ids.size), actions)
        codes = np.zeros(ids.size, np.uint8) if control is None else np.asarray(control)
        if codes.dtype != np.uint8 or codes.shape != ids.shape or (codes & ~np.uint8(RESET)).any():
            raise SpecError(
                f"control is {codes.dtype} {codes.tolist()}, expected uint8 ({ids.size},): 0 or {RESET} per env"
            )
        return rows, ids, codes

    def check_least(self, least: int) -> None:
        """Raise SpecError for less than 1, LocalProtocolError where fewer envs are under way than are waited for."""
        if least < 1:
            raise SpecError(f"recv waits for {least} envs, expected at least 1")
        if least > self.count:
            raise LocalProtocolError(
                f"recv waits for {least} of {self.count} envs under way",
                backend=self._backend,
                hint="send more envs first, or wait for fewer",
            )
