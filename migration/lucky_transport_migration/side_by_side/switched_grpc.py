"""gRPC of a test process over shared memory, for each test whose `lucky_grpc` is "shm".

What such a test and its fixtures make, channels and servers, of grpc and grpc.aio, goes over shared memory where its
address is one of this host, and so do those of the processes that they start. A server stays reachable over gRPC:
what no server of these processes serves in shared memory, such as an emulator, is called as always.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from lucky_transport.call_counts import Calls, read
from lucky_transport.config import load_settings
from lucky_transport.errors import plural
from lucky_transport.process import unique_name
from lucky_transport.registry import load

#: What to do where calls stayed on gRPC.
REMEDY = (
    "Have the fixture that starts the server ask for lucky_grpc, so that it is made anew for each transport; make the "
    "channel by grpc.insecure_channel(...) once the server has started, not by a name that was imported from grpc."
)


class SwitchedGrpc:
    """The switch of a session, which is made once: a server of one test is found by the channels of the next one.

    Raises MissingExtra without grpcio.
    """

    def __init__(self) -> None:
        make = load("lucky_transport_stubs.run.here:switch_here", owner="the fixture lucky_grpc", extra="grpc")
        self._calls_on_grpc = load("lucky_transport_stubs.run.here:calls_on_grpc", owner="the fixture lucky_grpc")
        pair = f"localhost:*=shm://{unique_name()}_{{port}}"
        settings = {"transport": "auto", "grpc_map": pair, "grpc_serve": pair, "grpc_serve_only": False}
        self._folder = TemporaryDirectory(prefix="lucky-grpc-", ignore_cleanup_errors=True)
        #: Switches this process for a while; raises ConfigError where it is switched already.
        self.switched: Callable[[], AbstractContextManager[None]] = make(
            load_settings(settings), Path(self._folder.name)
        )

    def close(self) -> None:
        """Remove the counts."""
        self._folder.cleanup()

    def counts(self) -> Counter[Calls]:
        """Return how often each method was called so far, by its callers and as its servers saw it, and each channel of
        gRPC's own in this process: one that was made before the switch counts nothing itself.
        """
        found = Counter[Calls]()
        switched = (one for process in read(Path(self._folder.name)) for one in process.calls)
        for one in (*switched, *self._calls_on_grpc()):
            found[replace(one, count=0)] += one.count
        return found

    def since(self, before: Counter[Calls]) -> tuple[int, str]:
        """Return the calls over shared memory since `before`, and why all stayed on gRPC; "" where they did not."""
        made = Counter({one: count for one, count in (self.counts() - before).items() if one.method})
        over_shm = sum(count for one, count in made.items() if one.endpoint and one.role == "client")
        stayed = {one: count for one, count in made.items() if not one.endpoint}
        if over_shm or not stayed:
            return over_shm, ""
        one = min(stayed, key=lambda call: ("client", "server", "channel").index(call.role))
        count = sum(stayed[other] for other in stayed if other.role == one.role)
        return 0, f"{plural(count, 'call')} went over gRPC, none over shared memory ({one.target}: {one.why})\n{REMEDY}"
