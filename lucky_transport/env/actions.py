"""What an env does with actions before its transport takes them: nothing, for a plain spec."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from numpy.typing import NDArray

from lucky_transport.env.composite import CompositeActions
from lucky_transport.spec.actions import Bounds, check_actions
from lucky_transport.spec.batch_spec import BatchSpec

#: Takes actions as the caller passed them and returns an array that the transport takes.
Preparation = Callable[[Any], NDArray[Any]]


def preparation(spec: BatchSpec, composite: CompositeActions | None, *, strict: bool) -> Preparation | None:
    """Return what is done with actions, None for nothing.

    composite: packs those of a spec with parts. strict: values out of bounds are refused.
    """
    if composite is not None:
        return composite.packed
    return partial(_checked, spec, Bounds(spec.action)) if strict else None


def _checked(spec: BatchSpec, bounds: Bounds, actions: Any) -> NDArray[Any]:
    """Return the actions as the spec has them; raises SpecError for others, also out of bounds."""
    checked = check_actions(spec, actions)
    bounds.check(checked)
    return checked


def prepared_after(wait: Callable[[], object], prepared: Preparation | None) -> Preparation:
    """Return what does as `prepared` and calls `wait` when the actions are found good, right before the exchange."""
    return partial(_prepared_after, wait, prepared)


def _prepared_after(wait: Callable[[], object], prepared: Preparation | None, actions: Any) -> NDArray[Any]:
    if prepared is not None:
        actions = prepared(actions)
    wait()
    return actions
