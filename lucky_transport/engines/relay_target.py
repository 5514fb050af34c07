"""The connection of a relay to its engine: opened again when the engine has gone and come back."""

from __future__ import annotations

import logging
import threading

from lucky_transport.api import check_offered_envs, open_transport
from lucky_transport.config import load_settings
from lucky_transport.deadline import Deadline
from lucky_transport.endpoint import Endpoint
from lucky_transport.errors import (
    ClosedError,
    NotReachable,
    PeerDied,
    RemoteProtocolError,
    SpecError,
    TransportError,
)
from lucky_transport.messages import GetAgentSchemaRequest
from lucky_transport.messages.methods import method
from lucky_transport.transport import Transport

_log = logging.getLogger("lucky_transport")
_SCHEMA = method("/hazel.rpc.AgentService/GetAgentSchema")
#: How long a step or call looks for an engine that has gone: long enough to connect to one that is there.
_RECONNECT_S = 1.0


class RelayTarget:
    """The engine at `endpoint`, as all clients of one relay use it; safe to use from any thread."""

    def __init__(self, endpoint: Endpoint, num_envs: int) -> None:
        """Connect; raises what `open_transport` raises, SpecError for another number of envs than asked for."""
        self.endpoint = endpoint
        self._settings = load_settings()
        transport = open_transport(endpoint, self._settings)
        try:
            check_offered_envs(transport, num_envs, str(endpoint))
        except SpecError:
            transport.close()
            raise
        self.spec = transport.spec
        self._transport: Transport | None = transport
        self._closed = False
        self._failed_attempts = 0
        self._failure = ""
        self._lock = threading.Lock()

    def transport(self) -> Transport:
        """Return the open transport; the engine is looked for where it was lost.

        Raises NotReachable (it is still away), SpecError (another engine is there now), ClosedError.
        """
        current = self._transport
        if current is not None:
            return current
        failed_attempts = self._failed_attempts
        with self._lock:
            if self._closed:
                raise ClosedError("the relay is closed", backend=self.spec.engine)
            if self._transport is None:
                if self._failed_attempts != failed_attempts:  # another thread has just looked in vain
                    raise NotReachable(self._failure, backend=self.spec.engine)
                self._transport = self._open_again()
            return self._transport

    def _open_again(self) -> Transport:
        timeout_s = min(_RECONNECT_S, self._settings.connect_timeout_s)
        try:
            transport = open_transport(self.endpoint, load_settings({"connect_timeout_s": timeout_s}))
        except TransportError as error:
            self._failed_attempts += 1
            cause = str(error).removesuffix(f"; {error.hint}")
            self._failure = f"{cause}; the relay connects by itself once the engine is there"
            raise NotReachable(self._failure, backend=self.spec.engine) from error
        if transport.spec != self.spec:
            found = transport.spec
            transport.close()
            raise SpecError(
                f"another engine is at {self.endpoint} now: {found.engine!r} with {found.num_envs} envs, this relay "
                f"began with {self.spec.engine!r} and {self.spec.num_envs}, or its arrays or terms differ",
                backend=self.spec.engine,
                hint="restart the relay",
            )
        _log.warning("relay: the engine at %s is back", self.endpoint)
        return transport

    def lost(self, transport: Transport, error: TransportError) -> PeerDied:
        """Drop the transport, on which an exchange failed, and return the error that tells the client so."""
        with self._lock:
            if self._transport is transport:
                self._transport = None
                _log.warning("relay: the connection to the engine at %s is lost: %s", self.endpoint, error)
                transport.close()
        cause = str(error).removesuffix(f"; {error.hint}")
        return PeerDied(
            f"the connection to the engine at {self.endpoint} is lost: {cause}",
            backend=self.spec.engine,
            hint="the relay connects again once the engine is there; then reset",
        )

    def call_failed(self, transport: Transport, error: TransportError) -> TransportError:
        """Return what the client gets for a call or stream that failed; drops a transport that is dead.

        An engine may say "unavailable" of one method, so that another one is tried before all others lose theirs.
        """
        if not isinstance(error, (PeerDied, ClosedError, RemoteProtocolError)):
            return error
        try:
            transport.call(_SCHEMA, GetAgentSchemaRequest(), Deadline(_RECONNECT_S))
        except (PeerDied, ClosedError):
            return self.lost(transport, error)
        except TransportError:
            return error
        return error

    def close(self) -> None:
        """End the connection; idempotent."""
        with self._lock:
            self._closed = True
            transport, self._transport = self._transport, None
        if transport is not None:
            transport.close()
