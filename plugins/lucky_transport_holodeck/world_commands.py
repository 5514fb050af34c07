"""Commands to the world itself, as far as our engines have anything like it.

    CustomCommand "SetSeeds", [seed]        the seed of env 0; env i gets seed + i; they count from the next reset

What our engines have nothing for (weather, props, viewport, render quality, debug drawing) is taken and has no effect.
An unknown CustomCommand is refused; the original ends its process on one.
"""

from __future__ import annotations

from lucky_transport.errors import RemoteProtocolError
from lucky_transport.host.host import Host
from lucky_transport.messages import SetSeedsRequest
from lucky_transport.messages.methods import method
from lucky_transport_holodeck.commands import HolodeckCommand

__all__ = ["SET_SEEDS", "obey"]

SET_SEEDS = "SetSeeds"
_SEEDS = method("/lucky_transport.v1.BatchService/SetSeeds")

#: Commands of Holodeck's own worlds.
_WITHOUT_EFFECT = {
    *("SetWeather", "SetHour", "SetFogDensity", "SetDayCycle", "SpawnProp"),
    *("CupGameConfig", "StartCupGame", "CleanUpConfig"),
}


def obey(host: Host, command: HolodeckCommand) -> None:
    """Carry out a command that is about no agent; raises RemoteProtocolError or the engine's own TransportError."""
    if command.kind != "CustomCommand":
        return
    name = command.strings[0]
    if name == SET_SEEDS and len(command.numbers) == 1 and command.numbers[0] >= 0:
        first = int(command.numbers[0])
        answer = host.call(_SEEDS, SetSeedsRequest([first + env for env in range(host.spec.num_envs)]))
        if not answer.success:
            raise RemoteProtocolError(f"the engine refused seed {first}: {answer.message}")
    elif name not in _WITHOUT_EFFECT:
        raise RemoteProtocolError(
            f"CustomCommand {name!r} with the numbers {command.numbers}", hint=f"known: {SET_SEEDS} with one number"
        )
