"""The pipe keeps the transport's contract: frames, trouble, calls, streams, sessions, clients."""

from __future__ import annotations

from lucky_transport import api
from lucky_transport.process import unique_name
from lucky_transport.sessions.client import SessionClient
from lucky_transport.testing.contract import TransportContract
from tests.support.waiting import until


class TestPipe(TransportContract):
    endpoint = "pipe://{name}"

    def test_a_clients_own_sessions_end_with_it(self) -> None:
        """As in the contract; a pipe has one client at a time, so it is the engine that looks on."""
        with api.serve("cartpole", f"pipe://{unique_name()}") as serving:
            sessions = serving.host.sessions
            assert sessions is not None
            with self.connect(serving.endpoints[0]) as leaves:
                kept = SessionClient(leaves, owned=False).create()
                SessionClient(leaves).create()
                assert len(sessions.ids()) == 2
            until(lambda: sessions.ids() == [kept])
