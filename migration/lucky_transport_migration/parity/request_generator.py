"""Requests that an engine can be expected to answer, made from what it says exists.

A field's value comes from the first that knows it: what fits its message, a pool for its name, its kind. Numbers are
what their wire type holds exactly, so a request means the same with and without a wire.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, TypeVar

import numpy as np

from lucky_transport.messages import EntityId
from lucky_transport.messages.fields import Field, fields_of, member
from lucky_transport.messages.scalars import one_of_fields
from lucky_transport_migration.parity.inventory import Known
from lucky_transport_migration.parity.value_cases import CASES

__all__ = ["Fitting", "RequestGenerator"]

T = TypeVar("T")

#: Returns, by class, the values of some fields of a message that was made field by field.
Fitting = Mapping[type[Any], Callable[["RequestGenerator", Any], Mapping[str, Any]]]

#: By the name of a field: the values it may have.
_POOLS: Mapping[str, Callable[[Known], Sequence[Any]]] = {
    "agent_name": lambda known: ["", *known.agents],
    "robot_name": lambda known: ["", *known.agents],
    "viewport_name": lambda known: ["", *known.viewports],
    "slot_id": lambda known: known.slots,
    "filter_by_slot_id": lambda known: [0, *known.slots],
    "descriptor_path": lambda known: known.descriptors,
    "joint_name": lambda known: known.joints,
    "joint_names": lambda known: known.joints,
    "actuator_name": lambda known: known.actuators,
    "actuator_index": lambda known: range(known.nu),
    "qpos_index": lambda known: range(7, known.nq),  # the first seven are a floating base
    "input_id": lambda _: range(1, 6),  # no method lists them
    "sensor": lambda known: range(len(known.agents)),
    "preset": lambda _: (0, 1),
    "capture": lambda _: (0,),
    "target_fps": lambda _: (0, 60, 120),
    "width": lambda _: (16, 24, 40),
    "height": lambda _: (16, 24),
    "format": lambda _: ("", "raw", "jpeg"),
    "kind": lambda _: (0, 1),
    "mode": lambda _: (1, 2),
}

#: Names that a camera's requests use for a camera, and all others for an entity of the scene.
_CAMERA_REQUESTS = {"StreamCameraRequest", "GetCameraConfigRequest", "SetCameraConfigRequest", "GetCameraFrameRequest"}


class RequestGenerator:
    """Makes messages from what is `known`, the same ones in their order for a `seed`.

    fitting: by class of message, the values of fields that have to fit each other.
    """

    def __init__(self, known: Known, seed: str, fitting: Fitting) -> None:
        self.known = known
        self._random = Random(seed)
        self._fitting = fitting
        self._left: dict[str, list[Any]] = {}
        self.integer = self._random.randint

    def choice(self, pool: Sequence[T]) -> T:
        """Return one of the values."""
        return self._random.choice(pool)

    def chance(self, percent: int) -> bool:
        """Return True in about so many cases of a hundred."""
        return self._random.random() * 100 < percent

    def some(self, pool: Sequence[T], most: int = 3) -> list[T]:
        """Return up to `most` different values of `pool`."""
        return self._random.sample(pool, self._random.randint(0, min(most, len(pool))))

    def number(self, low: float = -1.0, high: float = 1.0) -> float:
        """Return a number between the two that float32 holds."""
        return float(np.clip(np.float32(self._random.uniform(low, high)), np.float32(low), np.float32(high)))

    def case(self, kind: str) -> Any:
        """Return a value that programs get wrong; each one comes before any comes again."""
        if not self._left.get(kind):
            self._left[kind] = self._random.sample(CASES[kind], len(CASES[kind]))
        return self._left[kind].pop()

    def make(self, message: type[Any]) -> Any:
        """Return a message of that class."""
        camera = message.__name__ in _CAMERA_REQUESTS
        made = message(**{field.name: self._value(field, camera) for field in fields_of(message)})
        if (fitting := self._fitting.get(message)) is not None:
            for name, value in fitting(self, made).items():
                setattr(made, name, value)
            return made
        rivals = one_of_fields(message)
        for rival in rivals[1:] if rivals and self.chance(50) else rivals[:-1]:
            setattr(made, rival, getattr(message(), rival))
        return made

    def _value(self, field: Field, camera: bool) -> Any:
        known = self.known
        if field.name == "name" and field.kind == "str":
            return self._one_of(known.camera_names if camera else known.entity_names, "")
        if field.message is EntityId:
            ids = known.robots if field.name == "entity" else known.cameras if camera else known.entities
            return EntityId(self._one_of(ids, 0))
        pool = _POOLS.get(field.name, lambda _: ())(known)
        if field.shape == "map":
            return {}
        if field.shape == "list":
            return self.some(pool) if pool else [self._one(field) for _ in range(self.integer(0, 2))]
        value = self.choice(pool) if pool else self._one(field)
        return value if field.enum is None else member(field.enum, value)

    def _one(self, field: Field) -> Any:
        if field.message is not None:
            return self.make(field.message)
        match field.kind:
            case "bool":
                return self.chance(50)
            case "str":
                return ""
            case "bytes":
                return b""
            case "f32" | "f64":
                return self.number(0.0, 1.0)
            case _:
                return self.integer(0, 2)

    def _one_of(self, pool: Sequence[Any], otherwise: Any) -> Any:
        return self.choice(pool) if pool else otherwise
