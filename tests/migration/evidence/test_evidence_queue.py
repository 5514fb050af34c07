"""What waits for a thread of its own."""

from __future__ import annotations

import threading

import pytest

from lucky_transport_migration.evidence.evidence_queue import EvidenceQueue
from tests.support.waiting import PATIENCE_S


def test_an_item_that_cannot_be_worked_on_is_counted_and_the_next_one_is_done(
    caplog: pytest.LogCaptureFixture,
) -> None:
    done = threading.Event()

    def work(item: str) -> None:
        if item == "broken":
            raise KeyError(item)
        done.set()

    inbox = EvidenceQueue("some inbox", work)
    inbox.put("broken")
    inbox.put("whole")
    assert done.wait(PATIENCE_S)
    inbox.close(10)
    assert inbox.refused == 1
    (record,) = caplog.records
    assert record.getMessage() == "some inbox: an item could not be worked on"
