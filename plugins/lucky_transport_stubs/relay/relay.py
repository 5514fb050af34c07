"""A relay: a server in shared memory, a channel to its upstream, and the counts that `ls`, `top` and `inspect` show."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Self

from lucky_transport.call_counts import CallCounters, Calls, new_folder
from lucky_transport.endpoint import Endpoint
from lucky_transport.errors import NotReachable
from lucky_transport.shm.files.server_description import described
from lucky_transport_stubs.relay.forwarding import Forwarding
from lucky_transport_stubs.relay.upstream import open_channel, target_at
from lucky_transport_stubs.run.targets import TargetMap
from lucky_transport_stubs.server.server import server

DEFAULT_MAX_CALLS = 1000
#: So many methods are counted; callers may name any number of them.
_MOST_COUNTED = 1024
#: The limits of messages are those of the client and of the upstream server.
_OPTIONS = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1))


class Relay:
    """Serves the gRPC server at `upstream` at `endpoint`, as a context.

    endpoint: shm://NAME; {host} and {port} stand for those of the upstream, as in the map of `lucky-transport run`.
    max_calls: that are under way at once; more are RESOURCE_EXHAUSTED. Raises ConfigError for endpoints that are none,
    NotReachable where the name is taken.
    """

    def __init__(self, upstream: str, endpoint: str, max_calls: int = DEFAULT_MAX_CALLS) -> None:
        where = Endpoint.parse(upstream)
        target = target_at(where)
        self.endpoint = TargetMap([f"*={endpoint}"]).endpoint_of(target)
        self._channel = open_channel(where)
        _remove_left_over(Endpoint.parse(self.endpoint).address)
        self._pool = ThreadPoolExecutor(max_calls, thread_name_prefix="lucky-relay")
        self._folder = new_folder()
        self._counters = CallCounters(self._folder)
        self._counted: set[str] = set()
        name = f"{where.scheme}://{where.address}"  # without the files of its certificates
        self._server = server(self._pool, (Forwarding(self._channel, name),), None, _OPTIONS, max_calls)
        self._server.on_call, self._server.counts = self._count, str(self._folder)
        self._server.target_of, self._server.is_relay = lambda address: target, True
        self._target = target
        try:
            self._server.add_insecure_port(self.endpoint)
        except RuntimeError as error:
            self._close()
            raise NotReachable(str(error), backend="shm", hint="give another --endpoint") from error

    def __enter__(self) -> Self:
        self._server.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop(0.0)

    def stop(self, grace_s: float) -> None:
        """Refuse new calls, let those under way end within `grace_s` seconds, cancel the rest. Idempotent."""
        self._server.stop(grace_s).wait()
        self._close()

    def _close(self) -> None:
        self._channel.close()
        self._pool.shutdown(wait=False)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _count(self, address: str, method: str) -> None:
        if method in self._counted or len(self._counted) < _MOST_COUNTED:
            self._counted.add(method)
            here = f"shm://{Endpoint.parse(address).address}"
            self._counters.counter(Calls(self._target, here, "", method, role="server")).add()


def _remove_left_over(name: str) -> None:
    """Remove the counts of a relay of this name that was killed; the listener removes the rest."""
    for _, description, pid in described():
        if description.is_relay and description.name == name and pid is None and description.counts:
            shutil.rmtree(description.counts, ignore_errors=True)
