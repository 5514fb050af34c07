"""The engine's end of envs that are stepped on their own: a thread that finds what the client has sent."""

from __future__ import annotations

import logging
import threading

from lucky_transport.errors import SegmentError, TransportError
from lucky_transport.host.env_steps import EnvSteps
from lucky_transport.host.host import Host, Lease
from lucky_transport.shm.segment.env_words import EngineEnvWords
from lucky_transport.shm.segment.segment import Segment
from lucky_transport.shm.timing import PEER_POLL_NS

_log = logging.getLogger("lucky_transport")


class EnvServer:
    """Serves one client, from its first send until `close`; it takes over the client's lease."""

    def __init__(self, host: Host, lease: Lease, segment: Segment, strategy: int) -> None:
        self._segment = segment
        self._words = EngineEnvWords(segment, strategy)
        self._publishing = threading.Lock()
        self._closed = False
        self._steps = EnvSteps(host, lease, self._on_ended)
        self._thread = threading.Thread(target=self._run, name=f"shm envs {segment.name}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        seen = 0
        try:
            while not self._closed:
                seen = self._words.wait(seen, PEER_POLL_NS)
                self._segment.mapping.check()
                self._steps.begin(self._words.sent())
        except SegmentError as error:
            _log.error("the envs of shm://%s are stepped no more: %s", self._segment.name, error)

    def _on_ended(self, env: int, failure: TransportError | None) -> None:
        with self._publishing:
            if not self._closed:  # else the words may be another client's by now
                self._words.publish(env, failure)

    def close(self) -> None:
        """Begin no more steps and wait for those under way; the lease is given back then."""
        with self._publishing:
            self._closed = True
        self._thread.join()
        self._steps.close()
