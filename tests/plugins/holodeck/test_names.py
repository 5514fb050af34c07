"""The names of semaphores and blocks are the original's."""

from __future__ import annotations

from pathlib import Path

import pytest

from lucky_transport.errors import ConfigError, RemoteProtocolError
from lucky_transport_holodeck.names import Names


def test_names_end_with_the_uuid() -> None:
    names = Names("8ac7059c-fb71")
    assert names.loading == "/HOLODECK_LOADING_SEM8ac7059c-fb71"
    assert names.server == "/HOLODECK_SEMAPHORE_SERVER8ac7059c-fb71"
    assert names.client == "/HOLODECK_SEMAPHORE_CLIENT8ac7059c-fb71"
    assert names.block("RESET") == Path("/dev/shm/HOLODECK_MEM8ac7059c-fb71_RESET")


def test_without_a_uuid_the_names_are_the_bare_ones() -> None:
    assert Names().server == "/HOLODECK_SEMAPHORE_SERVER"
    assert Names().block("command_bool") == Path("/dev/shm/HOLODECK_MEM_command_bool")


@pytest.mark.parametrize("uuid", ["a/b", "../x", "a b", "x" * 101, "a\0"])
def test_a_uuid_that_is_no_part_of_a_file_name_is_refused(uuid: str) -> None:
    with pytest.raises(ConfigError, match="letters, digits"):
        Names(uuid)


@pytest.mark.parametrize("key", ["", "../../etc/passwd", "a/b", "a\0b", "x" * 121])
def test_a_clients_agent_name_leads_to_no_other_directory(key: str) -> None:
    with pytest.raises(RemoteProtocolError):
        Names("u").block(key)
