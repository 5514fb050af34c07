"""Tests of `TransportContract`: server streams. After a failed stream the connection works as before."""

from __future__ import annotations

import gc
import time
from typing import Any

import pytest

from lucky_transport.deadline import Deadline
from lucky_transport.errors import Cancelled, ClosedError, EngineFailed, PeerTimeout
from lucky_transport.messages import (
    GetJointStateRequest,
    StartViewportStreamRequest,
    StreamPolicySlotStateRequest,
    StreamTelemetryRequest,
)
from lucky_transport.messages.methods import method
from lucky_transport.testing.needs import needs
from lucky_transport.testing.suite import PATIENCE_S, STOPPED, TransportSuite, outcome_when, zeros
from lucky_transport.transport import Stream, Transport

_SLOTS = method("AgentService/StreamPolicySlotState")
_JOINT_STREAM = method("MujocoService/StreamJointState")
_TELEMETRY = method("TelemetryService/StreamTelemetry")
_FAILING_STREAM = method("ViewportService/StreamViewport")

#: More items than any transport keeps on the way for a slow reader.
_WINDOW = 256


@needs("streams")
class StreamsContract(TransportSuite):
    """The part of `TransportContract` that is about streams."""

    def test_a_stream_of_everything_loses_nothing_and_ends(self) -> None:
        with self.open_client(slots=3000) as client:
            slots = list(client.stream(_SLOTS, StreamPolicySlotStateRequest()))
            assert [slot.slot_id for slot in slots] == list(range(3000))
            assert slots[-1].name == "slot_2999"

    def test_a_slow_reader_of_everything_loses_nothing(self) -> None:
        with self.open_client(slots=600) as client:
            stream = client.stream(_SLOTS, StreamPolicySlotStateRequest())
            numbers: list[int] = []
            for slot in stream:
                numbers.append(slot.slot_id)
                if slot.slot_id % 200 == 0:
                    time.sleep(0.05)
            assert numbers == list(range(600))
            assert stream.dropped == 0

    def test_after_its_end_a_stream_stays_ended(self) -> None:
        with self.open_client(slots=2) as client:
            stream = client.stream(_SLOTS, StreamPolicySlotStateRequest())
            assert len(list(stream)) == 2
            stream.cancel()
            assert list(stream) == []
            self.check_alive(client)

    def test_telemetry_comes_until_it_is_cancelled(self) -> None:
        with self.open_client() as client:
            stream = client.stream(_TELEMETRY, StreamTelemetryRequest(200))
            frames = [next(stream) for _ in range(5)]
            assert [frame.timestamp_ms for frame in frames] == sorted(frame.timestamp_ms for frame in frames)
            assert {(len(frame.observation_qpos), len(frame.action_ctrl)) for frame in frames} == {(8, 2)}
            self._check_cancelled(stream)
            self.check_alive(client)

    def test_a_stream_cancelled_before_its_first_item_gives_none(self) -> None:
        with self.open_client() as client:
            self._check_cancelled(client.stream(_TELEMETRY, StreamTelemetryRequest(200)))
            self.check_alive(client)

    def test_a_stream_is_cancelled_while_another_thread_waits_in_it(self) -> None:
        with self.open_client() as client:
            stream = client.stream(_TELEMETRY, StreamTelemetryRequest(1))
            next(stream)
            assert outcome_when(stream.cancel, stream, next).startswith("Cancelled:")
            self.check_alive(client)

    @pytest.mark.parametrize("read", [0, 1, 3])
    def test_after_a_cancel_nothing_comes_of_a_stream_that_had_come_whole(self, read: int) -> None:
        with self.open_client(slots=3) as client:
            stream = client.stream(_SLOTS, StreamPolicySlotStateRequest())
            assert [next(stream).slot_id for _ in range(read)] == list(range(read))
            self._let_come(client)
            self._check_cancelled(stream)

    def test_after_a_cancel_nothing_comes_of_the_latest_that_had_come_whole(self) -> None:
        with self.open_client() as client:
            stream = client.stream(_JOINT_STREAM, GetJointStateRequest("nobody"))
            self._let_come(client)
            self._check_cancelled(stream)

    def test_after_a_cancel_an_error_that_had_come_is_not_raised(self) -> None:
        with self.open_client(faulty=True) as client:
            stream = client.stream(_FAILING_STREAM, StartViewportStreamRequest())
            self._let_come(client)
            self._check_cancelled(stream)
            self.check_alive(client)

    def _let_come(self, client: Transport) -> None:
        """Make calls, so that what the engine has sent meanwhile comes in too."""
        for _ in range(50):
            self.check_alive(client)

    def _check_cancelled(self, stream: Stream) -> None:
        stream.cancel()
        stream.cancel()
        for _ in range(2):
            with pytest.raises(Cancelled):
                next(stream)

    def test_a_stream_ends_with_its_with_block(self) -> None:
        with self.open_client() as client:
            with client.stream(_TELEMETRY, StreamTelemetryRequest(200)) as stream:
                next(stream)
            with pytest.raises(Cancelled):
                next(stream)

    def test_dropped_streams_leave_room_for_others(self) -> None:
        """More streams than any transport has threads for, one after the other, none of them ended by hand."""
        with self.open_client() as client:
            for _ in range(300):
                next(client.stream(_TELEMETRY, StreamTelemetryRequest(1000)))
            gc.collect()
            self.check_alive(client)

    def test_many_streams_flow_at_once(self) -> None:
        with self.open_client() as client:
            streams = [client.stream(_TELEMETRY, StreamTelemetryRequest(100)) for _ in range(24)]
            for _ in range(3):
                assert all(len(next(stream).observation_qpos) == 8 for stream in streams)
            client.step(zeros(client))
            self.check_alive(client)
            for stream in streams:
                stream.cancel()

    def test_a_stream_shows_the_world_between_steps_while_it_is_stepped(self) -> None:
        with self.open_client(seed=5) as client:
            stream = client.stream(_JOINT_STREAM, GetJointStateRequest("agent_3"))
            seen: set[bytes] = set()
            for _ in range(4):
                seen.add(client.step(zeros(client)).observations[3].tobytes())
                state = next(stream).state
                assert state.nq == len(state.positions) == 8
            assert len(seen) == 4

    def test_an_answer_that_refuses_ends_the_stream_after_it(self) -> None:
        with self.open_client() as client:
            items = list(client.stream(_JOINT_STREAM, GetJointStateRequest("nobody")))
            assert [item.success for item in items] == [False]
            assert items[0].message == "no robot 'nobody'; there are agent_0 to agent_3"

    def test_a_slow_reader_of_the_latest_stays_fresh_and_counts_what_it_missed(self) -> None:
        with self.open_client() as client:
            stream = client.stream(_TELEMETRY, StreamTelemetryRequest(1000))
            next(stream)
            time.sleep(_WINDOW * 4 / 1000)
            resumed_ms = time.time_ns() // 1_000_000
            stale = 0
            while next(stream).timestamp_ms < resumed_ms:
                stale += 1
            assert stale <= _WINDOW
            assert stream.dropped > 0
            stream.cancel()

    def test_a_failing_stream_gives_its_items_and_then_the_error(self) -> None:
        with self.open_both(faulty=True) as (client, reference):
            found: list[list[object]] = []
            for each in (client, reference):
                items: list[object] = []
                stream = each.stream(_FAILING_STREAM, StartViewportStreamRequest())
                try:
                    items.extend(item.frame_number for item in stream)
                except EngineFailed as error:
                    items.append(str(error))
                found.append(items)
            assert found[0] == found[1]
            assert found[0][:-1] == [0, 1]
            assert "ArithmeticError: toy engine was asked to fail in this stream" in str(found[0][-1])

    def test_a_stream_whose_deadline_has_passed_gives_nothing(self) -> None:
        with self.open_client() as client:
            with pytest.raises(PeerTimeout):
                next(client.stream(_TELEMETRY, StreamTelemetryRequest(100), Deadline(0.0)))
            self.check_alive(client)

    def test_a_stream_ends_at_its_deadline(self) -> None:
        with self.open_client() as client:
            stream = client.stream(_TELEMETRY, StreamTelemetryRequest(100), Deadline(0.3))
            with pytest.raises(PeerTimeout, match=r"0\.3 s"):
                list(stream)
            self.check_alive(client)

    @pytest.mark.parametrize(
        ("kind", "read", "error"),
        [
            (_TELEMETRY, 0, PeerTimeout),
            (_SLOTS, 0, PeerTimeout),
            (_SLOTS, 2, StopIteration),
            (_FAILING_STREAM, 1, PeerTimeout),
            (_FAILING_STREAM, 2, EngineFailed),
        ],
    )
    def test_a_stream_that_was_late_gives_its_end_alone(self, kind: Any, read: int, error: Any) -> None:
        with self.open_client(slots=2, faulty=True) as client:
            deadline = Deadline(0.3)
            stream = client.stream(kind, kind.request(), deadline)
            for _ in range(read):
                next(stream)
            while not deadline.expired:  # meanwhile items come, and are dropped
                self.check_alive(client)
            with pytest.raises(error):
                next(stream)
            if error is not StopIteration:
                self._check_over(stream, error, client)

    def test_a_stream_that_has_failed_gives_nothing_more(self) -> None:
        with self.open_client(faulty=True) as client:
            self._check_over(client.stream(_FAILING_STREAM, StartViewportStreamRequest()), EngineFailed, client)

    def test_a_stream_whose_engine_has_stopped_gives_nothing_more(self) -> None:
        def begin(client: Transport) -> Stream:
            stream = client.stream(_TELEMETRY, StreamTelemetryRequest(1000), Deadline(PATIENCE_S))
            next(stream)
            return stream

        with self.open_stopped(begin) as (_, stream):
            self._check_over(stream, STOPPED)

    def _check_over(self, stream: Stream, error: Any, client: Transport | None = None) -> None:
        """Fail unless the stream ends with that error, and with the same again whatever comes to `client` meanwhile."""
        with pytest.raises(error) as first:
            list(stream)
        for _ in range(3):
            if client is not None:
                self._let_come(client)
            with pytest.raises(first.type) as later:
                next(stream)
            assert str(later.value) == str(first.value)

    def test_closing_ends_streams_under_way(self) -> None:
        with self.open_client() as client:
            stream = client.stream(_TELEMETRY, StreamTelemetryRequest(1))
            next(stream)
            found = outcome_when(client.close, stream, next)
            assert found == "ClosedError: the transport is closed; connect again"
            with pytest.raises(ClosedError):
                client.stream(_TELEMETRY, StreamTelemetryRequest())
