"""A short soak: the long one is `python -m tests.endurance.soak --messages 10000000`."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from lucky_transport.errors import RemoteProtocolError
from lucky_transport.native import RingReader, RingWriter
from lucky_transport.shm.ring_pipe import RingPipe
from tests.endurance import soak as soaking
from tests.endurance.soak import FLAT_KIB, SoakReport, main, soak


@pytest.mark.parametrize(("messages", "ring_bytes"), [(60_000, 65536), (20_000, 4096)])
def test_every_message_comes_once_whole_and_in_order_and_the_memory_stays_flat(messages: int, ring_bytes: int) -> None:
    outcome = soak(messages, ring_bytes=ring_bytes)
    assert outcome.messages == messages
    assert outcome.payload_bytes > 20 * ring_bytes  # it wrapped many times
    assert outcome.flat


def test_growing_memory_is_not_flat() -> None:
    assert SoakReport(1, 1, 0, 1.0, FLAT_KIB, 0).flat
    assert not SoakReport(1, 1, 0, 1.0, FLAT_KIB + 1, 0).flat
    assert not SoakReport(1, 1, 0, 1.0, 0, FLAT_KIB + 1).flat


def test_a_changed_message_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    use = RingPipe.use

    def use_sloppily(pipe: RingPipe, writer: RingWriter, reader: RingReader) -> None:
        def sloppy() -> bytes | None:
            record = reader.try_pop()
            return record[:-1] + bytes([record[-1] ^ 1]) if record and record[:2] == b"\x07\x03" else record

        use(pipe, writer, reader)
        pipe.try_pop = sloppy

    monkeypatch.setattr(RingPipe, "use", use_sloppily)
    with pytest.raises(RemoteProtocolError, match=f"message {0x307} came with"):
        soak(5000)


def test_the_command_says_what_it_found_and_fails_when_memory_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    result = CliRunner().invoke(main, ["--messages", "2000"])
    assert result.exit_code == 0
    assert "2000 messages, " in result.output
    assert " on both sides; memory grew by " in result.output
    monkeypatch.setattr(soaking, "soak", lambda *_, **__: SoakReport(1, 1, 0, 1.0, 0, FLAT_KIB + 1))
    result = CliRunner().invoke(main, ["--messages", "1"])
    assert result.exit_code == 1
    assert "the memory is not flat" in result.output
