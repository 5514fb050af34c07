from __future__ import annotations

import sys
from types import ModuleType

import pytest

from lucky_transport.native import load_native

NAME = "lucky_transport.shm._native"
REMEDY = "install a C compiler and run the install command again"


def _module(**names: object) -> ModuleType:
    module = ModuleType(NAME)
    vars(module).update(names)
    return module


def test_a_module_of_the_wanted_version_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    module = _module(VERSION=3)
    monkeypatch.setitem(sys.modules, NAME, module)
    assert load_native(NAME, 3) == (module, "")


def test_a_module_of_another_version_counts_as_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, NAME, _module(VERSION=0))
    why = "the native module is of version 0, this code needs 3: run the install command again"
    assert load_native(NAME, 3) == (None, why)


def test_where_only_its_sources_lie_the_module_was_not_built(monkeypatch: pytest.MonkeyPatch) -> None:
    for found in (_module(), None):  # the folder of the sources, imported as a namespace package; nothing at all
        monkeypatch.setitem(sys.modules, NAME, found)
        assert load_native(NAME, 3) == (None, f"the native module was not built: {REMEDY}")


def test_a_module_that_cannot_be_loaded_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> ModuleType:
        raise ImportError(f"{name}: undefined symbol")

    monkeypatch.setattr("lucky_transport.native.importlib.import_module", fail)
    why = f"the native module cannot be loaded ({NAME}: undefined symbol): {REMEDY}"
    assert load_native(NAME, 3) == (None, why)
