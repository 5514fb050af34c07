"""The client end.

openra://127.0.0.1:9999                               the batch service, which engines of this project offer
openra://127.0.0.1:9999?service=bridge&sessions=8     eight sessions of the bridge as a batch of eight envs
"""

from __future__ import annotations

from lucky_transport.config import Settings
from lucky_transport.deadline import Deadline
from lucky_transport.endpoint import Endpoint
from lucky_transport.errors import NotReachable, PeerDied, PeerTimeout, SpecError, Unimplemented
from lucky_transport.sessions.transport import SessionTransport
from lucky_transport.transport import Transport
from lucky_transport.world import WorldBatch
from lucky_transport_grpc import client as grpc_client
from lucky_transport_openra.bridge_sessions import BridgeSessions
from lucky_transport_openra.options import ClientOptions, client_options
from lucky_transport_openra.skirmish.batch import SkirmishBatch
from lucky_transport_openra.skirmish.world import SkirmishWorlds


def connect(endpoint: Endpoint, settings: Settings) -> Transport:
    """Return a transport to the engine at `openra://host:port`, whose service never changes afterwards.

    Raises ConfigError (a malformed endpoint), NotReachable (no server answers within `connect_timeout_s`),
    Unimplemented (it has no batch service).
    """
    options = client_options(endpoint)
    if options.service == "bridge":
        return BridgeTransport(endpoint, settings, options)
    batch = Endpoint("grpc", endpoint.address, (("service", "batch"),))
    try:
        transport = grpc_client.connect(batch, settings)
    except NotReachable as error:
        told = str(error).removesuffix(f"; {error.hint}")
        raise _not_reachable(told.replace(str(batch), str(endpoint))) from error
    except (Unimplemented, SpecError) as error:
        hint = f"OpenRA-RL's engine has none: play its sessions, {endpoint.scheme}://{endpoint.address}?service=bridge"
        raise Unimplemented(f"{endpoint} has no batch service", backend="openra", hint=hint) from error
    transport.name = "openra"
    return transport


class BridgeTransport(SessionTransport):
    """Steps sessions behind a bridge as envs, each step of an env one call; `close` ends the connection too."""

    name = "openra"

    def __init__(
        self,
        endpoint: Endpoint,
        settings: Settings,
        options: ClientOptions | None = None,
        batch: WorldBatch | None = None,
    ) -> None:
        """Connect, and check that a server answers; sessions are made by the first step. Raises NotReachable.

        batch: how a game is a row; by default that of the skirmish, whose moves name the skirmish's own units.
        """
        options = options or ClientOptions()
        worlds = SkirmishWorlds()
        worlds.batch = batch or SkirmishBatch(options.ticks or SkirmishBatch.ticks_per_step)
        self._sessions = BridgeSessions(endpoint, settings, worlds=worlds)
        try:
            _check_reachable(self._sessions, endpoint, settings)
            super().__init__(
                self._sessions,
                options.sessions,
                seed=options.seed,
                map_name=options.map_name,
                options={"bots": options.bots} if options.bots else {},
                engine="openra",
                timeout_s=settings.step_timeout_s,
            )
        except BaseException:
            self._sessions.close()
            raise

    def close(self) -> None:
        super().close()
        self._sessions.close()


def _check_reachable(sessions: BridgeSessions, endpoint: Endpoint, settings: Settings) -> None:
    try:
        sessions.bridge.state("", Deadline(settings.connect_timeout_s))
    except (PeerDied, PeerTimeout) as error:
        raise _not_reachable(f"no engine at {endpoint} within {settings.connect_timeout_s:g} s: {error}") from error


def _not_reachable(what: str) -> NotReachable:
    return NotReachable(
        what,
        backend="openra",
        hint="start one: lucky-transport serve skirmish --endpoint openra://127.0.0.1:9999 (or OpenRA-RL's engine), or "
        "raise connect_timeout_s (LUCKY_CONNECT_TIMEOUT_S)",
    )
