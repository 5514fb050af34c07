"""Rules are read from lucky_transport.toml; the most exact one counts, and a wrong one is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from lucky_transport.errors import ConfigError
from lucky_transport.messages import AgentFrame, GetJointStateResponse, ImageFrame, StepResponse
from lucky_transport.messages.methods import METHODS
from lucky_transport_migration.compare.rule import EXACT, Rule, check_key
from lucky_transport_migration.compare.rules import BUILT_IN, ComparisonRules


def load(folder: Path, text: str) -> ComparisonRules:
    (folder / "lucky_transport.toml").write_text(f"[parity.fields]\n{text}\n")
    return ComparisonRules.load(folder)


def test_without_a_file_only_clocks_are_left_out(tmp_path: Path) -> None:
    assert ComparisonRules.load(tmp_path).rows == BUILT_IN


def test_a_rule_is_read_from_the_nearest_file(tmp_path: Path) -> None:
    rules = load(tmp_path, '"GetJointStateResponse.state.positions" = { abs = 1e-6, nan = "different" }')
    assert rules.rule("GetJointStateResponse.state.positions") == Rule(abs=1e-6, nan="different")
    assert ComparisonRules.load(tmp_path / "below").rows == rules.rows
    assert rules.rule("GetJointStateResponse.state.velocities") == EXACT


def test_the_most_exact_key_counts() -> None:
    patterns = {"*": Rule(abs=1), "*.positions": Rule(abs=2)}
    own = {"JointState.positions": Rule(abs=3)}
    path = {"GetJointStateResponse.state.positions": Rule(abs=4)}
    place, name = "GetJointStateResponse.state.positions", "JointState.positions"
    found = [
        ComparisonRules(rows).rule(place, name).abs for rows in ({}, patterns, patterns | own, patterns | own | path)
    ]
    assert found == [0, 2, 3, 4]
    assert ComparisonRules(patterns).rule("JointState.nq").abs == 1


def test_a_pattern_never_makes_a_clock_compared() -> None:
    assert ComparisonRules({"AgentFrame.*": Rule(abs=1e-9)}).left_out(AgentFrame) == ("AgentFrame.timestamp_ms",)
    assert ComparisonRules({"AgentFrame.timestamp_ms": Rule(abs=5)}).left_out(AgentFrame) == ()


def test_what_is_left_out_of_a_message_is_known_by_the_keys_of_the_rules() -> None:
    assert ComparisonRules().left_out(StepResponse) == (
        "AgentFrame.timestamp_ms",
        "StepResponse.physics_step_duration_us",
        "ImageFrame.timestamp_ms",
    )
    assert ComparisonRules().left_out(ImageFrame, streamed=True) == (
        "ImageFrame.timestamp_ms",
        "ImageFrame.frame_number",
    )
    skips = ComparisonRules({"GetJointStateResponse.state.*": Rule(skip="moves")})
    assert skips.left_out(GetJointStateResponse) == ("GetJointStateResponse.state.*",)


def test_every_field_that_is_left_out_exists_and_has_a_reason() -> None:
    for key, row in BUILT_IN.items():
        check_key(key, row, "the table")
        assert row.skip
    assert all(ComparisonRules().skipped().values())
    assert "ImageFrame.frame_number of streams" in ComparisonRules().skipped()


def test_every_field_of_every_response_has_a_rule() -> None:
    rules = ComparisonRules()
    for row in METHODS:
        rules.left_out(row.response)  # walks all of it


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ('"JointState.positions" = { abs = -1 }', r"'JointState.positions': abs = -1; expected a number >= 0"),
        ('"JointState.positions" = { abs = nan }', r"abs = nan; expected a number"),
        ('"JointState.positions" = { abs = true }', r"abs = True; expected a number"),
        ('"JointState.positions" = { ulp = 1.5 }', r"ulp = 1.5; expected a whole number"),
        ('"JointState.positions" = { nan = "maybe" }', r"nan = 'maybe'; expected 'equal' or 'different'"),
        ('"JointState.positions" = { nan = [] }', r"nan = \[\]; expected 'equal' or 'different'"),
        ('"JointState.positions" = { skip = "" }', r"skip = ''; expected the reason"),
        ('"JointState.positions" = { skip = "x", abs = 1 }', r"skip beside abs; a field is left out or compared"),
        (
            '"JointState.positions" = { tolerance = 1 }',
            r"unknown key 'tolerance'; known keys: abs, rel, ulp, nan, skip",
        ),
        ('"JointState.positions" = 1e-6', r"'JointState.positions' = 1e-06; write a table"),
        ('"JointState.positons" = { abs = 1 }', r"no field 'positons'; did you mean 'positions'\?"),
        ('"JointStat.positions" = { abs = 1 }', r"begins with no known name; did you mean 'JointState'\?"),
        ('"JointState.positions.x" = { abs = 1 }', r"a number or text has no field 'x'"),
        ('"JointState" = { abs = 1 }', r"JointState has no field ''"),
        ('"spec.step_s" = { abs = 1 }', r"has a tolerance; a field of a spec is left out or equal; skip it"),
        ('"GetJointStateResponse.message" = { abs = 1 }', r"is of kind str; only numbers have a tolerance"),
        ("JointState.positions = { abs = 1 }", r"unknown key 'positions'"),
    ],
)
def test_a_wrong_rule_is_one_error_with_source_key_value_and_remedy(tmp_path: Path, row: str, text: str) -> None:
    with pytest.raises(ConfigError, match=text) as caught:
        load(tmp_path, row)
    assert "lucky_transport.toml: [parity.fields]" in str(caught.value)


def test_arrays_of_a_step_metadata_and_patterns_can_be_named(tmp_path: Path) -> None:
    rules = load(
        tmp_path,
        '"observation" = { ulp = 2 }\n"info.final_obs" = { ulp = 2 }\n"metadata.date" = { skip = "a clock" }\n'
        '"*.name" = { skip = "x" }',
    )
    assert rules.rule("observation").ulp == 2
    assert rules.rule("metadata.date").skips(streamed=False)
