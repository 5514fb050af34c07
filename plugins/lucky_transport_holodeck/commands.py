"""Commands from client to engine: JSON in a block of 1 MiB.

    {"commands": [{"type": "SpawnAgent", "params": [{"value": 1.0}, ..., {"value": "UAV"}, {"value": "drone"}]}]}0

Parameters of a command are its numbers, then its strings.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from lucky_transport.errors import RemoteProtocolError, SpecError

#: Bytes of the command block.
BUFFER_BYTES = 1 << 20
#: What ends a batch; the real engine's parser wants it.
_END = "0"


@dataclass(frozen=True, slots=True)
class HolodeckCommand:
    """One command: its strings and its numbers, each in their order. Raises SpecError for numbers that JSON cannot
    carry.
    """

    kind: str
    strings: tuple[str, ...] = ()
    numbers: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if not all(math.isfinite(number) for number in self.numbers):
            raise SpecError(
                f"command {self.kind} has the numbers {self.numbers}",
                backend="holodeck",
                hint="send finite numbers: one other makes the engine drop the whole batch",
            )


@dataclass(frozen=True, slots=True)
class _Counts:
    """How many strings and numbers a command has, from least to most."""

    strings: tuple[int, int]
    numbers: tuple[int, int]


_MANY = 1 << 20
_HOLOOCEAN_KINDS: dict[str, _Counts] = {
    "SendAcousticMessage": _Counts((4, 4), (0, 0)),
    "SendOpticalMessage": _Counts((4, 4), (0, 0)),
    "RaycastLidarRate": _Counts((2, 2), (1, 1)),
    "OceanCurrents": _Counts((1, 1), (4, 4)),
    "AdjustFPS": _Counts((0, 0), (1, 1)),
    "AdjustTPS": _Counts((0, 0), (1, 1)),
    "ChangeWeather": _Counts((0, 0), (1, 1)),
    "ChangeTimeOfDay": _Counts((0, 0), (1, 1)),
    "SetRainParameters": _Counts((0, 0), (4, 4)),
    "AirFog": _Counts((0, 0), (5, 5)),
    "WaterFog": _Counts((0, 0), (5, 5)),
    "WaterColor": _Counts((0, 0), (3, 3)),
    "Tide": _Counts((0, 0), (2, 2)),
    "TurnOnFlashlight": _Counts((1, 1), (10, 10)),
    "TurnOffFlashlight": _Counts((1, 1), (0, 0)),
}
#: Commands that HoloOcean has and Holodeck does not.
HOLOOCEAN_COMMANDS = frozenset(_HOLOOCEAN_KINDS)
#: Per command: how many strings, how many numbers. A SpawnAgent has 7 numbers from client 0.3.1 and 8 from later ones;
#: a DebugDraw of HoloOcean's has a lifetime as its twelfth.
KINDS: dict[str, _Counts] = {
    "SpawnAgent": _Counts((2, 2), (7, 8)),
    "AddSensor": _Counts((5, 5), (6, 6)),
    "RemoveSensor": _Counts((2, 2), (0, 0)),
    "RotateSensor": _Counts((2, 2), (3, 3)),
    "RGBCameraRate": _Counts((2, 2), (1, 1)),
    "TeleportCamera": _Counts((0, 0), (6, 6)),
    "RenderViewport": _Counts((0, 0), (1, 1)),
    "AdjustRenderQuality": _Counts((0, 0), (1, 1)),
    "DebugDraw": _Counts((0, 0), (11, 12)),
    "CustomCommand": _Counts((1, _MANY), (0, _MANY)),
    **_HOLOOCEAN_KINDS,
}


def spawn_agent(
    name: str, wire_type: str, location: Iterable[float], rotation: Iterable[float], *, is_main: bool
) -> HolodeckCommand:
    """Return the command that puts an agent into the world (metres; roll, pitch, yaw in degrees)."""
    return HolodeckCommand("SpawnAgent", (wire_type, name), (*location, *rotation, float(is_main)))


def add_sensor(
    agent: str,
    name: str,
    sensor_type: str,
    config: Mapping[str, Any] | None,
    socket: str = "",
    location: Iterable[float] = (0, 0, 0),
    rotation: Iterable[float] = (0, 0, 0),
) -> HolodeckCommand:
    """Return the command that gives an agent a sensor; `config` is its configuration, JSON values.

    Without one an empty object is sent: the original's cameras and range finders abort on anything else.
    """
    text = json.dumps({} if config is None else dict(config))
    return HolodeckCommand("AddSensor", (agent, name, sensor_type, text, socket), (*location, *rotation))


def encode(commands: Iterable[HolodeckCommand]) -> bytes:
    """Return the batch as it is written into the block; raises SpecError when it is longer than the block."""
    batch = {"commands": [{"type": each.kind, "params": _params(each)} for each in commands]}
    data = (json.dumps(batch, allow_nan=False) + _END).encode()
    if len(data) > BUFFER_BYTES:
        raise SpecError(
            f"commands of {len(data)} bytes for a block of {BUFFER_BYTES}",
            backend="holodeck",
            hint="send fewer commands between two ticks",
        )
    return data


def _params(command: HolodeckCommand) -> list[dict[str, Any]]:
    values = (*command.numbers, *command.strings)
    return [{"value": value} for value in values]


def decode(data: bytes) -> list[HolodeckCommand]:
    """Return the commands of a batch; raises RemoteProtocolError when its first value is no such batch."""
    text = data.decode(errors="replace")
    try:
        batch, _ = json.JSONDecoder().raw_decode(text.lstrip())  # behind it may be the tail of a longer batch
        return [_command(plain) for plain in batch["commands"]]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, SpecError) as error:
        raise RemoteProtocolError(
            f"commands that cannot be read ({type(error).__name__}: {error}): {text[:200]!r}",
            backend="holodeck",
            hint="names and texts may not contain quotes or backslashes, numbers have to be finite",
        ) from error


def _command(plain: Any) -> HolodeckCommand:
    values = [param["value"] for param in plain["params"]]
    strings = tuple(value for value in values if isinstance(value, str))
    numbers = tuple(float(value) for value in values if not isinstance(value, str))
    kind = plain["type"]
    if not isinstance(kind, str):
        raise TypeError(f"type is {kind!r}")
    return HolodeckCommand(kind, strings, cast("tuple[float, ...]", numbers))


def problem_of(command: HolodeckCommand) -> str:
    """Return what is wrong with the command's kind or the number of its parameters, "" when nothing is."""
    counts = KINDS.get(command.kind)
    if counts is None:
        return f"no command {command.kind!r}; known: {', '.join(KINDS)}"
    for what, values, (least, most) in (
        ("strings", command.strings, counts.strings),
        ("numbers", command.numbers, counts.numbers),
    ):
        if not least <= len(values) <= most:
            expected = str(least) if least == most else f"{least} to {most}" if most < _MANY else f"at least {least}"
            return f"{command.kind} has {len(values)} {what}, expected {expected}: {values}"
    return ""
