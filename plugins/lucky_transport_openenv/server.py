"""The engine end: an OpenEnv environment over HTTP and WebSocket.

    lucky-transport serve skirmish --endpoint openenv://127.0.0.1:8000
    openenv://127.0.0.1:8000?capacity=4&rate=25         see `lucky_transport_openenv.options`

`access` says which requests are answered.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import uuid
from typing import Any

from lucky_transport.config import Settings
from lucky_transport.deadline import Deadline
from lucky_transport.endpoint import Endpoint
from lucky_transport.errors import EngineFailed, NotReachable
from lucky_transport.host.host import Host
from lucky_transport.limits import limit_reached
from lucky_transport.serving import Server
from lucky_transport_openenv.access import CONNECTION, AccessControl
from lucky_transport_openenv.app import EpisodeServer
from lucky_transport_openenv.batch_episodes import BatchEpisodes
from lucky_transport_openenv.environment import EngineEpisodes
from lucky_transport_openenv.episode import Episodes
from lucky_transport_openenv.models import observation_class
from lucky_transport_openenv.options import ServerOptions, server_options
from lucky_transport_openenv.runtime import uvicorn
from lucky_transport_openenv.tools import method_tools
from lucky_transport_openenv.world_episodes import WorldEpisodes

_BACKLOG = 128


def server(endpoint: Endpoint, settings: Settings) -> OpenEnvServer:
    """Return a server for `openenv://host:port` (port 0: a free one); raises ConfigError."""
    return OpenEnvServer(endpoint, settings)


class OpenEnvServer(Server):
    """Lets agents play on a host's engine."""

    def __init__(self, endpoint: Endpoint, settings: Settings) -> None:
        self._endpoint = endpoint
        self._address = endpoint.host_and_port("openenv://127.0.0.1:8000")
        self._options = server_options(endpoint, settings.step_timeout_s)
        self._settings = settings
        self._running: _Running | None = None

    def start(self, host: Host) -> Endpoint:
        episodes = _episodes(host, self._options)
        offer = EngineEpisodes(
            episodes,
            observation_class(episodes),
            tuple(method_tools(host, self._options)),
            f"engine {host.spec.engine} of lucky_transport, {episodes.capacity} episodes at once",
        )
        application = EpisodeServer(offer, self._options.idle_s, self._options.longest_s)
        access = AccessControl(application, self._address[0], self._settings, self._options.max_bytes)
        with contextlib.ExitStack() as undo:
            listening = undo.enter_context(self._listen())
            port = listening.getsockname()[1]
            running = _Running(application, access, self._options, listening)
            running.start(Deadline(self._settings.start_timeout_s))
            undo.pop_all()
        self._running = running
        return self._endpoint.with_address(f"{self._address[0]}:{port}")

    def _listen(self) -> socket.socket:
        try:
            host, port = self._address
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            return socket.create_server((host.strip("[]"), port), family=family, backlog=_BACKLOG)
        except OSError as error:
            raise NotReachable(
                f"cannot serve at {self._endpoint}: {error.strerror or error}",
                backend="openenv",
                hint=limit_reached(error)[1]
                or "another process has it, or it is not an address of this machine; port 0 takes a free one",
            ) from error

    def stop(self, grace_s: float = 1.0) -> None:
        if self._running is not None:
            self._running.stop(grace_s)
            self._running = None


def _episodes(host: Host, options: ServerOptions) -> Episodes:
    return BatchEpisodes(host, options) if host.sessions is None else WorldEpisodes(host.sessions, options)


class _Running:
    """The HTTP server on a thread of its own."""

    def __init__(
        self, application: EpisodeServer, access: AccessControl, options: ServerOptions, listening: socket.socket
    ) -> None:
        self._application = application
        self._listening = listening
        config = uvicorn.Config(
            access,
            log_level="warning",
            lifespan="on",
            timeout_keep_alive=max(5.0, options.idle_s),  # an episode may belong to the connection
            ws_max_size=options.max_bytes,
            ws_ping_interval=None,
        )
        config.load()
        protocol = config.http_protocol_class

        def connected(*, app_state: dict[str, Any], **arguments: Any) -> Any:
            return protocol(app_state={**app_state, CONNECTION: uuid.uuid4().hex}, **arguments)

        config.http_protocol_class = connected
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._serve, name="lucky-openenv", daemon=True)
        self._failure: BaseException | None = None

    def _serve(self) -> None:
        try:
            self._server.run(sockets=[self._listening])
        except BaseException as error:  # told by `start`
            self._failure = error

    def start(self, deadline: Deadline) -> None:
        """Return once it answers. Raises EngineFailed when it cannot."""
        self._thread.start()
        while not self._server.started:
            self._thread.join(0.01)
            if not self._thread.is_alive() or deadline.expired:
                self.stop(0.0)
                why = "it ended" if self._failure is None else f"{type(self._failure).__name__}: {self._failure}"
                raise EngineFailed(f"the HTTP server did not start: {why}", backend="openenv")

    def stop(self, grace_s: float) -> None:
        """End it: clients have `grace_s` to go, then their connections are closed."""
        self._server.config.timeout_graceful_shutdown = grace_s
        self._server.should_exit = True
        self._application.end_episodes()
        self._thread.join(grace_s + 2.0)
        self._listening.close()
