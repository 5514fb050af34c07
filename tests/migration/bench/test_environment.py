"""What a report says about the machine."""

from __future__ import annotations

import getpass
import json
import os
import socket
from pathlib import Path

from lucky_transport_migration.bench.environment import capture


def test_machine_kernel_and_versions_are_captured() -> None:
    found = capture()
    assert found["cores"] == os.cpu_count()
    assert found["kernel"] == os.uname().release
    assert found["python"].startswith("CPython 3.")
    assert {"lucky-transport", "numpy", "gymnasium"} <= set(found["versions"])
    assert isinstance(found["native_module"], bool)
    assert found["dev_shm_gib"] is None or found["dev_shm_gib"] > 0


def test_the_environment_is_json() -> None:
    found = capture()
    assert json.loads(json.dumps(found, allow_nan=False)) == found


def test_nothing_personal_is_captured() -> None:
    text = json.dumps(capture())
    assert str(Path.cwd()) not in text
    assert f'"{socket.gethostname()}"' not in text
    assert f'"{getpass.getuser()}"' not in text
