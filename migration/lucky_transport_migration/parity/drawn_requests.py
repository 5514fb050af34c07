"""The requests of a proof: to each method a row of valid ones and a row of corrupted ones, the same ones for a seed.

In corrupted ones some fields have what the table of cases knows. Others are such that no wire can carry them: a number
out of its type's range, a value of another type, text that is none. A client has to refuse those before anything is
sent. Valid ones have what an engine says exists, and what fits together; their numbers are what their wire type holds
exactly, so a request means the same with and without a wire.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Any

import numpy as np

from lucky_transport.messages import EntityId, MotionGraphInputValue, Quat, SimulationContract, Vec3
from lucky_transport.messages.fields import fields_of
from lucky_transport.messages.methods import Method
from lucky_transport_migration.parity.inventory import Known
from lucky_transport_migration.parity.request_table import RequestTable

#: Of the corrupted requests so many are such that no wire can carry them.
_UNSENDABLE = 0.2

_NOT_OF_KIND: Mapping[str, tuple[Any, ...]] = {
    "i32": (2**31, -(2**31) - 1, 1.5, "7"),
    "u32": (-1, 2**32, 1.5, "7"),
    "u64": (-1, 2**64, 1.5, "7"),
    "f32": ("1.0", [1.0], 1e39, 10**400),
    "f64": ("1.0", [1.0], 10**400),
    "bool": ("yes", [True]),
    "str": ("\ud800", 7, b"text"),
    "bytes": ("text", 7),
    "message": (5, "text", [1]),
    "struct": (5, "text", [1]),
}


@dataclass(frozen=True, slots=True)
class Made:
    """A request's message. is_unsendable: no wire can carry it."""

    message: Any
    is_unsendable: bool = False


class DrawnRequests:
    """Requests made from what is `known`, without end."""

    def __init__(self, known: Known, seed: int) -> None:
        self._table = RequestTable(partial(named, known), partial(fitting, known))
        self._seed = seed
        self._randoms: dict[str, Random] = {}

    def valid(self, row: Method) -> Made:
        """Return the next request that the engine can be expected to answer."""
        return Made(self._table.random(row.request, self._random("valid", row), 0.0))

    def corrupted(self, row: Method) -> Made:
        """Return the next one that something is wrong with."""
        random = self._random("corrupted", row)
        if fields_of(row.request) and random.random() < _UNSENDABLE:
            return Made(_unsendable(self._table.random(row.request, random, 0.0), random), is_unsendable=True)
        return Made(self._table.random(row.request, random, random.uniform(0.5, 1.0)))

    def _random(self, kind: str, row: Method) -> Random:
        key = f"{self._seed} {kind} {row.name}"
        return self._randoms.setdefault(key, Random(key))


def _unsendable(request: Any, random: Random) -> Any:
    """Return the request with one value that no wire can carry."""
    field = random.choice(fields_of(type(request)))
    inner = getattr(request, field.name)
    if field.shape == "one" and field.message is not None and inner is not None and random.random() < 0.6:
        return replace(request, **{field.name: _unsendable(inner, random)})
    wrong = random.choice(_NOT_OF_KIND[field.kind])
    if field.shape != "one":
        wrong = random.choice(([wrong] if field.shape == "list" else {"key": wrong}, None, 5))
    return replace(request, **{field.name: wrong})


#: As `Known.named`, for each engine alike.
_POOLS: Mapping[str, Sequence[Any]] = {
    "EntityId.id": (0, 1, 2),
    "input_id": range(1, 6),  # no method lists them
    "Transform.rotation": (Quat(0.0, 0.0, 0.0, 1.0), Quat(0.0, 0.0, 1.0, 0.0), Quat(0.5, 0.5, 0.5, 0.5)),
    "Transform.scale": (Vec3(1.0, 1.0, 1.0),),
    "IndexedQposEntry.value": (0.0, 0.25, -0.5),
    "default_pos": (0.0, 0.25, -0.5),
    "preset": (0, 1),
    "capture": (0,),
    "scope": (0, 1),
    "target_fps": (0, 60, 120),
    "width": (16, 24, 40),
    "height": (16, 24),
    "format": ("", "raw", "jpeg"),
    "options_json": ("", "{}"),
}

#: Inputs of a motion graph, one of each type; the reference engine has the first and the last.
_INPUTS = (
    {"input_id": 1, "value": MotionGraphInputValue(float_val=0.25)},
    {"input_id": 2, "value": MotionGraphInputValue(bool_val=True)},
    {"input_id": 3, "value": MotionGraphInputValue(int_val=2)},
    {"input_id": 4, "value": MotionGraphInputValue(vec3_val=Vec3(0.03125, 0.0, 0.0))},
    {"input_id": 5, "value": MotionGraphInputValue(trigger=True)},
)


def named(known: Known, field: str) -> Sequence[Any]:
    """Return the values that the field of that full name may have, none where nothing is known."""
    message, _, name = field.rpartition(".")
    keys = (field, f"Camera.{name}", name) if "Camera" in message else (field, name)
    return next((pools[key] for key in keys for pools in (known.named, _POOLS) if key in pools), ())


def fitting(known: Known, message: type, random: Random) -> Mapping[str, Any]:
    """Return the values of fields of a message that have to fit each other, or what an engine has."""
    return {"params": {}, **_FITTING.get(message.__name__, lambda *_: {})(known, random)}


def _numbers(random: Random, count: int, low: float = -1.0, high: float = 1.0) -> list[float]:
    return [float(np.float32(random.uniform(low, high))) for _ in range(count)]


def _values(message: Any) -> dict[str, Any]:
    return {each.name: getattr(message, each.name) for each in fields_of(type(message))}


def _contract(known: Known, random: Random) -> Mapping[str, Any]:
    found = _values(SimulationContract())
    drawn = [name for name in found if name in known.randomizations]
    for name in random.sample(drawn, min(len(drawn), random.randrange(4))):
        limits = known.randomizations[name]
        low, high = limits.range_min, min(limits.range_max, limits.range_min + 1.0)
        numbers = sorted(_numbers(random, 3 if "3" in limits.type else 2, low, high))
        found[name] = numbers if isinstance(found[name], list) else numbers[0]
    return found


def _step(known: Known, random: Random) -> Mapping[str, Any]:
    actions = _numbers(random, known.action_size, -0.5, 0.5) if random.random() < 0.6 else []
    is_rich = known.named.get("Camera.name") and random.random() < 0.3
    return {"actions": actions, "timeout_s": 0.0, **({} if is_rich else {"camera_requests": [], "action_groups": []})}


def _group(known: Known, random: Random) -> Mapping[str, Any]:
    indices = [index for index in range(known.action_size) if random.random() < 0.2]
    return {"group_name": "", "actions": _numbers(random, len(indices), -0.5, 0.5), "action_indices": indices}


def _qpos(known: Known, random: Random) -> Mapping[str, Any]:
    joints = max(known.nq - 7, 0)
    bulk = [0.0, 0.0, 0.5, 1.0, 0.0, 0.0, 0.0, *_numbers(random, joints)] if joints and random.random() < 0.5 else []
    return {"bulk": bulk, "force": random.random() < 0.8}


def _command(known: Known, random: Random, *, is_number: bool) -> Mapping[str, Any]:
    rows = [{"slot_id": slot, "command_id": command} for slot, command, number in known.commands if number == is_number]
    return random.choice(rows or [{}])


def _running(known: Known, random: Random) -> Mapping[str, Any]:
    """About the slot whose policy a round starts."""
    return {"entity": EntityId(known.robots[0]), "slot_id": known.slots[0]} if known.robots and known.slots else {}


#: By class of message.
_FITTING: Mapping[str, Callable[[Known, Random], Mapping[str, Any]]] = {
    "StepRequest": _step,
    "ActionGroupEntry": _group,
    "SimulationContract": _contract,
    "CameraConfig": lambda known, random: {
        **_values(known.camera),
        "width": random.choice((16, 32)),
        "height": random.choice((16, 24)),
        "enabled": random.random() < 0.8,
    },
    "SetLidarConfigRequest": lambda known, random: {
        **_values(known.lidar),
        "sensor": random.randrange(len(known.agents)),
        "channels": random.randint(1, 4),
        "azimuth_bins": random.randint(1, 16),
    },
    "SetLidarReturnParamsRequest": lambda known, random: _values(known.returns),
    "SetQposRequest": _qpos,
    "SetControlRequest": lambda known, random: {"bulk": _numbers(random, random.choice((0, known.nu)))},
    "SetPolicyCommandFloatRequest": partial(_command, is_number=True),
    "GetPolicyCommandFloatRequest": partial(_command, is_number=True),
    "SetPolicyCommandBoolRequest": partial(_command, is_number=False),
    "GetPolicyCommandBoolRequest": partial(_command, is_number=False),
    "SetMotionGraphInputRequest": lambda known, random: random.choice(_INPUTS),
    "FireMotionGraphTriggerRequest": lambda known, random: _INPUTS[-1],
    "GetPolicyBasePoseRequest": _running,
    "GetPolicyLastActionRequest": _running,
    "SetSeedsRequest": lambda known, random: {
        "seeds": [random.getrandbits(64) for _ in known.agents],
        "mask": bytes(random.randint(0, 1) for _ in known.agents) if random.random() < 0.5 else b"",
    },
}
