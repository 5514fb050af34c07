"""Another user's files under an engine's names, met by whole clients and engines."""

from pathlib import Path

import pytest

from lucky_transport import api
from lucky_transport.config import load_settings
from lucky_transport.errors import SegmentError
from lucky_transport.process import unique_name
from tests.support.foreign_files import MakeForeignFile, foreign_uid

SHM = Path("/dev/shm")


def test_a_client_does_not_drive_a_segment_that_another_user_planted(make_foreign_file: MakeForeignFile) -> None:
    """The copy is perfect and its engine lives: the other user's would answer and read the actions."""
    foreign = SHM / unique_name()
    with api.serve("toy", f"shm://{unique_name()}") as served:
        make_foreign_file(foreign, "file", (SHM / served.endpoints[0].address).read_bytes())
        try:
            with pytest.raises(SegmentError, match=f"{foreign} is a regular file of user {foreign_uid()}"):
                api.open_transport(f"shm://{foreign.name}", load_settings({"connect_timeout_s": 0.5}))
        finally:
            foreign.unlink()
