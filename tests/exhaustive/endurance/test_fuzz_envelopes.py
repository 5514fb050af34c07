"""A short run of the envelope fuzz, and proof that it would see what it looks for."""

from __future__ import annotations

from typing import Any

import pytest

from lucky_transport.rpc.server import ServerCalls
from tests.endurance.fuzz import main
from tests.endurance.fuzz_envelopes import EnvelopeFuzz, FuzzFinding


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_mutated_envelopes_do_no_harm(seed: int) -> None:
    fuzz = EnvelopeFuzz(seed)
    fuzz.run(5000)
    assert sum(fuzz.seen.values()) == 5000
    for outcome in ("server: dropped", "server: taken", "server: answered", "client: dropped", "client: taken"):
        assert fuzz.seen[outcome] > 50


def test_the_same_seed_plays_the_same_rounds() -> None:
    one, other = EnvelopeFuzz(7), EnvelopeFuzz(7)
    one.run(500)
    other.run(500)
    assert one.seen == other.seen


def test_anything_but_a_typed_error_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(self: Any, fragment: Any) -> None:
        raise IndexError("read beyond the end")

    monkeypatch.setattr(ServerCalls, "_on_fragment", crash)
    with pytest.raises(FuzzFinding, match=r"seed 1, round \d+: IndexError: read beyond the end; record [0-9a-f]+"):
        EnvelopeFuzz(1).run(2000)


def test_a_wrong_answer_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    post = ServerCalls.post_payload
    monkeypatch.setattr(ServerCalls, "post_payload", lambda self, call, kind, answer: post(self, call, kind, b"wrong"))
    with pytest.raises(FuzzFinding, match="an honest request got"):
        EnvelopeFuzz(1).run(2000)


def test_the_command_plays_the_rounds_it_was_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["envelopes", "--rounds", "300", "--seed", "5"]) == 0
    shown = capsys.readouterr().out
    assert "envelopes: 300 rounds, seed 5" in shown
    assert "server: dropped" in shown


def test_the_command_reports_a_finding_by_its_exit_code(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ServerCalls, "_on_fragment", lambda self, fragment: 1 // 0)
    assert main(["envelopes", "--rounds", "2000", "--seed", "1"]) == 1
    assert "FOUND seed 1, round" in capsys.readouterr().err
