"""The order of an engine's work on a GPU and its client's, kept by the device: neither process waits for it.

Two events that both processes have: `frame` is recorded behind the engine's work of each step, `client` behind the
client's work of each step. Each side's stream waits for the other's event. A wait for an event that was never recorded
is none: CUDA documents that such an event stands for an empty set of work (cuEventRecord). A wait that is queued ends
when the recorded work does; of work that dies with its process CUDA documents nothing, so a side that finds its peer
dead queues no wait and holds on to no other.
"""

from __future__ import annotations

from lucky_transport.cuda.driver import CudaDriver, DeviceCopy


class DeviceEvents:
    """The two events of one engine on one device, in one of the two processes."""

    def __init__(self, driver: CudaDriver, ordinal: int, frame: int, client: int) -> None:
        self._driver = driver
        self._ordinal = ordinal
        self._frame, self._client = frame, client

    def wait_frame(self, stream: int) -> None:
        """Have later work of the client's stream come after the engine's last step."""
        self._driver.enqueue(stream, self._ordinal, (self._frame,), None, 0)

    def record_client(self, stream: int, copy: DeviceCopy | None = None) -> None:
        """Have the engine's next step come after what a stream of the client was given so far, and after `copy`.

        The copy comes after the engine's last step, and after what other streams recorded.
        """
        self._driver.enqueue(stream, self._ordinal, (self._client, self._frame), copy, self._client)

    def wait_client(self, stream: int) -> None:
        """Have later work of the engine's stream come after the client's."""
        self._driver.enqueue(stream, self._ordinal, (self._client,), None, 0)

    def record_frame(self, stream: int) -> None:
        """Have the client's later work come after what the engine's stream was given so far."""
        self._driver.enqueue(stream, self._ordinal, (), None, self._frame)

    @property
    def is_done(self) -> bool:
        """True when nothing that was recorded is still under way, and so nothing waits for it."""
        return all(self._driver.is_done(event, self._ordinal) for event in (self._frame, self._client))

    def close(self) -> None:
        """Close both; DeviceError where the driver cannot."""
        for event in (self._frame, self._client):
            self._driver.close_event(event, self._ordinal)
