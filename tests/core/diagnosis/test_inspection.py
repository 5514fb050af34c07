"""A segment is inspected as it is; one that changes meanwhile is looked for a few times."""

from __future__ import annotations

from pathlib import Path

import pytest

from lucky_transport.diagnosis import inspection
from lucky_transport.errors import SegmentError


def test_a_segment_that_is_there_for_one_look_and_not_for_the_other_is_given_up(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(inspection.segment_files, "find", lambda directory, name: [])
    monkeypatch.setattr(inspection.segment, "open_segment", lambda name, *_, **__: opened.append(name))
    with pytest.raises(SegmentError, match="demo changes while it is read; try again"):
        inspection.of_segment("demo", tmp_path)
    assert 1 < len(opened) < 10
