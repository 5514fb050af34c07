"""A short fuzz of rings: the long one is `python -m tests.endurance.fuzz rings --rounds 1000000`."""

from __future__ import annotations

from typing import Any

import pytest

from lucky_transport.native import RingReader
from tests.endurance import fuzz_rings
from tests.endurance.fuzz_rings import RingFuzz


def test_no_image_and_no_scribbling_peer_leads_astray() -> None:
    fuzz = RingFuzz(seed=1)
    fuzz.run(5000)
    images = {what: count for what, count in fuzz.seen.items() if not what.startswith("scribbled")}
    assert sum(images.values()) == 5000
    assert images["None"] > 100  # read to its end
    assert images["ring record"] > 100  # refused for a record
    assert images["ring positions"] > 100  # refused for a position
    assert sum(count for what, count in fuzz.seen.items() if what.startswith("scribbled")) > 100


@pytest.mark.exhaustive
def test_a_reader_that_believes_too_much_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = fuzz_rings.open_reader

    class Gullible:
        def __init__(self, reader: RingReader) -> None:
            self.reader = reader

        def try_pop(self) -> bytes | None:
            record = self.reader.try_pop()
            return record + b"overread" if record else record

    def open_gullible(memory: Any, offset: int, size: int) -> Any:
        return Gullible(honest(memory, offset, size))

    monkeypatch.setattr(fuzz_rings, "open_reader", open_gullible)
    with pytest.raises(match="seed 1, round "):
        RingFuzz(seed=1).run(100)
