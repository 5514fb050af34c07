"""What editors see of the services is what the table of methods says."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from lucky_transport import client as services
from lucky_transport.client import typed
from lucky_transport.client.service import SERVICES

STUB = Path(services.__file__).with_name("typed.pyi")


def _classes() -> dict[str, ast.ClassDef]:
    return {
        node.name: node for node in ast.parse(STUB.read_text(encoding="utf-8")).body if isinstance(node, ast.ClassDef)
    }


@pytest.mark.parametrize("prefix", ["", "Async"])
@pytest.mark.parametrize("attribute", list(SERVICES))
def test_the_stub_has_all_names_of_a_service_and_no_others(attribute: str, prefix: str) -> None:
    name = f"{prefix}{attribute.title().replace('_', '')}Service"
    declared: set[str] = set()
    for node in _classes()[name].body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            declared.add(node.name)
        if isinstance(node, ast.Assign):
            declared |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    assert declared == set(SERVICES[attribute])
    assert getattr(typed, name).__name__ == name


def test_unary_methods_are_awaited_in_the_asynchronous_stub_and_streams_are_not() -> None:
    for attribute, methods in SERVICES.items():
        body = _classes()[f"Async{attribute.title().replace('_', '')}Service"].body
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert isinstance(node, ast.AsyncFunctionDef) == (methods[node.name].stream is None)
