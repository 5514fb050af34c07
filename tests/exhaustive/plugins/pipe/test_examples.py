"""The examples do what they are for: scores grow, whichever engine they train against."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from lucky_transport_pipe.examples import genetic, gradient


@pytest.mark.parametrize("example", [genetic, gradient], ids=["genetic", "gradient"])
def test_an_example_improves_its_score(
    example: Any, name: str, serving: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["example", "--pipe", name, "--epochs", "5", "--sessions", "16"])
    with serving():
        means = example.main()
    assert means[-1] > 1.5 * means[0]


def test_an_example_starts_an_engine_of_its_own(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["example", "--epochs", "1", "--sessions", "2"])
    assert len(genetic.main()) == 1
    assert capsys.readouterr().out.startswith("epoch 0: mean ")
