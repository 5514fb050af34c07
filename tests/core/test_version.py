"""What installs an extra of this package, by the way in which it was installed."""

from __future__ import annotations

from importlib import metadata
from types import SimpleNamespace

import pytest

from lucky_transport.version import install_command


@pytest.mark.parametrize(
    ("written", "command"),
    [
        (None, "pip install 'lucky-transport[train]'"),
        ("no JSON", "pip install 'lucky-transport[train]'"),
        ('{"url": "file:///a/b.whl", "archive_info": {}}', "pip install 'lucky-transport[train]'"),
        ('{"url": "https://host/it", "vcs_info": {"vcs": "git"}}', "pip install 'lucky-transport[train]'"),
        ('{"url": "file:///home/me/clone", "dir_info": {}}', "pip install '/home/me/clone[train]'"),
        (
            '{"url": "file:///home/me/a%20clone", "dir_info": {"editable": true}}',
            "pip install -e '/home/me/a clone[train]'",
        ),
    ],
)
def test_an_extra_comes_from_where_the_package_came_from(
    monkeypatch: pytest.MonkeyPatch, written: str | None, command: str
) -> None:
    texts = (None, written)  # an egg-info in the working folder comes first and does not say
    found = [SimpleNamespace(read_text=lambda name, text=text: text) for text in texts]
    monkeypatch.setattr(metadata, "distributions", lambda name: found)
    assert install_command("train") == command


def test_without_an_installation_it_comes_from_the_index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "distributions", lambda name: [])
    assert install_command("grpc") == "pip install 'lucky-transport[grpc]'"
