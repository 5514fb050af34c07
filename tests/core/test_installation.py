"""What is installed: the native module, whose absence has a remedy, and the way in which an extra comes."""

import importlib.util
import sys
from importlib import metadata
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from lucky_transport import native
from lucky_transport.errors import MissingExtra
from lucky_transport.version import install_command

NAME = "lucky_transport._native"
REMEDY = "run the install command again"


def _module(**names: object) -> ModuleType:
    module = ModuleType(NAME)
    vars(module).update(names)
    return module


@pytest.fixture
def unloaded() -> ModuleType:
    """The loader as it is before a name of the native module is used, under a name of its own."""
    spec = importlib.util.spec_from_file_location("unloaded", native.__file__)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_name_of_the_native_module_is_loaded_when_used(unloaded: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, NAME, _module(VERSION=native.VERSION, load32=min, _hidden=max))
    assert "load32" not in vars(unloaded)
    assert unloaded.load32 is min
    assert vars(unloaded)["load32"] is min, "it is looked up again at each use"
    assert unloaded.problem() is None
    for name in ("_hidden", "store32"):
        with pytest.raises(AttributeError, match=f"has no attribute '{name}'"):
            getattr(unloaded, name)


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (None, f"the native module was not built; {REMEDY}"),
        (_module(), f"the native module was not built; {REMEDY}"),  # the folder of its sources, a namespace package
        (
            _module(VERSION=0),
            f"the native module is of version 0, this code needs {native.VERSION}; run the install command again",
        ),
    ],
    ids=["nothing", "its sources", "a stale build"],
)
def test_where_it_cannot_be_used_each_use_is_an_import_error_with_the_remedy(
    unloaded: ModuleType, monkeypatch: pytest.MonkeyPatch, found: Any, why: str
) -> None:
    monkeypatch.setitem(sys.modules, NAME, found)
    for _ in range(2):
        with pytest.raises(ImportError) as caught:
            _ = unloaded.load32
        assert str(caught.value) == why
        assert isinstance(caught.value, MissingExtra)
    assert str(unloaded.problem()) == why


@pytest.mark.parametrize(
    ("why", "remedy"),
    [
        ("undefined symbol", REMEDY),
        ("cannot open shared object file: Too many open files", "close some, or raise it (ulimit -n)"),
        ("failed to map segment from shared object: Cannot allocate memory", "free some, or raise it (ulimit -v)"),
    ],
)
def test_a_module_that_cannot_be_loaded_says_why(
    unloaded: ModuleType, monkeypatch: pytest.MonkeyPatch, why: str, remedy: str
) -> None:
    def fail(name: str) -> ModuleType:
        raise ImportError(f"{name}: {why}")

    monkeypatch.setattr("importlib.import_module", fail)
    assert str(unloaded.problem()) == f"the native module cannot be loaded ({NAME}: {why}); {remedy}"


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
def test_an_extra_comes_as_the_package_did(monkeypatch: pytest.MonkeyPatch, written: str | None, command: str) -> None:
    texts = (None, written)  # an egg-info in the working folder comes first and does not say
    found = [SimpleNamespace(read_text=lambda name, text=text: text) for text in texts]
    monkeypatch.setattr(metadata, "distributions", lambda name: found)
    assert install_command("train") == command


def test_without_an_installation_it_comes_from_the_index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "distributions", lambda name: [])
    assert install_command("grpc") == "pip install 'lucky-transport[grpc]'"
