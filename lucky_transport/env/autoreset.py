"""Gymnasium's three ways of starting the next episode, and the errors for a step that has to wait for a reset.

    NEXT_STEP   the step after the end resets the env: its action is ignored, reward 0, flags False
    SAME_STEP   the step that ends the episode returns the reset observation; the last one is in info["final_obs"]
    DISABLED    nothing resets by itself; the caller passes options={"reset_mask": mask}

The mode is chosen at construction and never changes.
"""

from __future__ import annotations

from enum import Enum

import gymnasium.error
import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from lucky_transport.errors import ClosedError, ConfigError, LocalProtocolError, SpecError, TransportError
from lucky_transport.spec.batch_spec import BatchSpec


class NeedsReset(LocalProtocolError, gymnasium.error.ResetNeeded):
    """`step` was called where only `reset` can follow; also catchable as `gymnasium.error.ResetNeeded`."""


class NotSteppable(Enum):
    """Why an env cannot step now; the value is what the error says."""

    FRESH = "the env was never reset"
    LOST = "the last step or reset failed, so the envs' state is unknown"
    UNDER_WAY = "the step that step_async() began is under way"
    SENT = "envs that send() began are under way"
    ENDED = "some envs have ended and autoreset is disabled"
    CLOSED = "the env is closed"


def state_error(what: str, reason: NotSteppable, ended: NDArray[np.bool_] | None, *, backend: str) -> TransportError:
    """Return the error for `what` refused for `reason`; `ended`: bool (num_envs,), the envs that wait for a reset."""
    if reason is NotSteppable.CLOSED:
        return ClosedError(f"{what}: the env is closed", backend=backend, hint="make a new one")
    text, hint = f"{what} is not possible: {reason.value}", "call reset()"
    if reason is NotSteppable.UNDER_WAY:
        return LocalProtocolError(text, backend=backend, hint="call step_wait() first")
    if reason is NotSteppable.SENT:
        return LocalProtocolError(text, backend=backend, hint="call recv() until none is")
    if ended is not None and reason is NotSteppable.ENDED:
        text += f" (envs {np.flatnonzero(ended).tolist()})"
        hint = "pass their mask to reset(options={'reset_mask': mask})"
    return NeedsReset(text, backend=backend, hint=hint)


def no_step_error(reason: NotSteppable | None, *, backend: str) -> TransportError:
    """Return the error for `step_wait` without a step under way, in an env that is in this state."""
    if reason is NotSteppable.CLOSED:
        return state_error("step_wait", reason, None, backend=backend)
    return LocalProtocolError(
        "step_wait() without a step under way", backend=backend, hint="call step_async(actions) first"
    )


def no_envs_error(reason: NotSteppable | None, *, backend: str) -> TransportError:
    """Return the error for `recv` without an env under way, in an env that is in this state."""
    if reason in (NotSteppable.CLOSED, NotSteppable.LOST, NotSteppable.UNDER_WAY):
        return state_error("recv", reason, None, backend=backend)
    return LocalProtocolError(
        "recv() without an env under way", backend=backend, hint="call send(actions, env_ids) first"
    )


def parse_mode(mode: AutoresetMode | str) -> AutoresetMode:
    """Return the mode that `mode` is, names or spells by its value ("NextStep", "NEXT_STEP", "same_step").

    Raises ConfigError naming the three modes.
    """
    if isinstance(mode, AutoresetMode):
        return mode
    by_name = {_plain(known.name): known for known in AutoresetMode}
    found = by_name.get(_plain(str(mode)))
    if found is None:
        names = ", ".join(repr(known.value) for known in AutoresetMode)
        raise ConfigError(f"autoreset_mode {mode!r}: expected one of {names} or a gymnasium.vector.AutoresetMode")
    return found


def _plain(name: str) -> str:
    return name.replace("_", "").lower()


def check_mode(mode: AutoresetMode, spec: BatchSpec, can_hold: bool) -> None:
    """Raise SpecError when the engine or the transport cannot do what `mode` needs.

    SAME_STEP resets the ended envs while the others hold still; a single env has no others, and an engine that resets
    them itself has done it already.
    """
    if mode is AutoresetMode.SAME_STEP and spec.num_envs > 1 and not can_hold and not spec.resets_itself:
        raise SpecError(
            f"autoreset_mode SAME_STEP resets some of {spec.num_envs} envs while the others hold still, "
            f"which engine {spec.engine!r} cannot do",
            backend=spec.engine,
            hint="use autoreset_mode=NEXT_STEP, or num_envs=1",
        )
