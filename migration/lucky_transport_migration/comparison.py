"""Several members making the same moves side by side, compared after every one.

The first member is the baseline; each other one must give the same bits, and its rewards must be the float32 sum of
their terms. A comparison stops at the first difference, since everything after it would differ too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.env.vector_env import VectorEnv
from lucky_transport.errors import TransportError
from lucky_transport.spec.batch_spec import BatchSpec
from lucky_transport.transport import Transport
from lucky_transport_migration import invalid_use
from lucky_transport_migration.answers import env_answer, frame_of, make_move, reward_gap
from lucky_transport_migration.compare.arrays import first_difference
from lucky_transport_migration.compare.difference import AtMove, Difference, LocatedDifference
from lucky_transport_migration.compare.frames import FrameTables
from lucky_transport_migration.compare.rules import ComparisonRules
from lucky_transport_migration.compare.shown import error_text
from lucky_transport_migration.policy import RolloutPlan, RolloutStep

__all__ = ["Advance", "Counts", "compare_contract", "compare_envs", "compare_frames", "compare_misuse", "first_finding"]

Answer = dict[str, NDArray[Any]]
#: Makes a move, and turns what came of it into an answer.
Act = tuple[Callable[[RolloutStep], Any], Callable[[Any], Answer]]
#: Is told of each compared step how many microseconds it took on each member, by name.
Advance = Callable[[Mapping[str, float]], object]


@dataclass
class Counts:
    """How much one mode compared; resets by what they reset, final observations as rows of `final_obs`."""

    steps: int = 0
    values: int = 0
    resets: dict[str, int] = field(default_factory=lambda: {"all": 0, "one": 0, "some": 0})
    terminations: int = 0
    truncations: int = 0
    final_observations: int = 0
    misuse: int = 0

    def add(self, move: RolloutStep, answer: Answer) -> None:
        """Count what one compared move showed."""
        self.values += sum(array.size for array in answer.values())
        if move.kind != "step":
            self.resets[move.kind] += 1
            return
        self.steps += 1
        self.terminations += int(np.count_nonzero(answer["terminated"]))
        self.truncations += int(np.count_nonzero(answer["truncated"]))
        mask = answer.get("info._final_obs")
        self.final_observations += 0 if mask is None else int(np.count_nonzero(mask))


def compare_envs(
    envs: Mapping[str, VectorEnv],
    policy: RolloutPlan,
    steps: int,
    mode: str,
    counts: Counts,
    advance: Advance = lambda _: None,
    rules: ComparisonRules | None = None,
) -> LocatedDifference | None:
    """Return the first difference between `envs` within `steps` steps, None when there is none.

    `mode` is the autoreset mode the envs were made with; with "disabled" ended envs are reset as the next move.
    """
    acts: dict[str, Act] = {name: (partial(make_move, env), env_answer) for name, env in envs.items()}
    spec = next(iter(envs.values())).batch_spec
    return _compare(acts, spec, policy, steps, mode, counts, advance, rules, resets_ended=mode == "disabled")


def compare_frames(
    transports: Mapping[str, Transport],
    policy: RolloutPlan,
    steps: int,
    counts: Counts,
    advance: Advance = lambda _: None,
    rules: ComparisonRules | None = None,
) -> LocatedDifference | None:
    """Return the first difference between the frames of `transports` within `steps` exchanges, None if there is none.

    No transport may have been stepped before: frames are numbered from the first one on.
    """
    tables = {name: FrameTables(transport.spec) for name, transport in transports.items()}
    acts: dict[str, Act] = {
        name: (partial(frame_of, transport), tables[name].table) for name, transport in transports.items()
    }
    spec = next(iter(transports.values())).spec
    return _compare(acts, spec, policy, steps, "frames", counts, advance, rules, resets_ended=True)


def _compare(
    acts: Mapping[str, Act],
    spec: BatchSpec,
    policy: RolloutPlan,
    steps: int,
    mode: str,
    counts: Counts,
    advance: Advance,
    rules: ComparisonRules | None,
    *,
    resets_ended: bool,
) -> LocatedDifference | None:
    ended: NDArray[np.bool_] | None = None
    while counts.steps < steps:
        move = policy.next()
        if resets_ended and ended is not None and ended.any() and move.kind == "step":
            move = replace(move, kind="one" if np.count_nonzero(ended) == 1 else "some", mask=ended)
        if not spec.hold and move.kind in ("one", "some"):  # such an engine can only be reset as a whole
            move = replace(move, kind="all", mask=np.ones_like(move.mask))
        event = "step" if move.kind == "step" else "reset"
        place = AtMove(mode, counts.steps, event)
        took: dict[str, float] = {}
        answers, error = _move(acts, move, place, took)
        difference = error or first_finding(answers, spec, place, rules)
        if difference is not None:
            return difference
        answer = next(iter(answers.values()))
        counts.add(move, answer)
        if "terminated" in answer:
            ended = answer["terminated"] | answer["truncated"]
        elif ended is not None:
            ended = ended & ~move.mask
        if event == "step":
            advance(took)
    return None


def _move(
    acts: Mapping[str, Act], move: RolloutStep, place: AtMove, took: dict[str, float]
) -> tuple[dict[str, Answer], LocatedDifference | None]:
    """Return everybody's answer, and the difference when only some raised; raises what all raised alike."""
    answers: dict[str, Answer] = {}
    errors: dict[str, TransportError] = {}
    for name, (make, answer_of) in acts.items():
        began_ns = time.perf_counter_ns()
        try:
            made = make(move)
            took[name] = (time.perf_counter_ns() - began_ns) / 1e3
            answers[name] = answer_of(made)
        except TransportError as error:
            errors[name] = error
    if not errors:
        return answers, None
    values = {name: error_text(errors[name]) if name in errors else "no error" for name in acts}
    (first, expected), *others = values.items()
    for name, value in others:
        if value != expected:
            return answers, LocatedDifference(Difference("error", "error", expected, value), (first, name), place)
    raise next(iter(errors.values()))


def first_finding(
    answers: Mapping[str, Answer], spec: BatchSpec, place: AtMove, rules: ComparisonRules | None = None
) -> LocatedDifference | None:
    """Return where an answer differs from the first one, or where its rewards are not the sum of their terms."""
    (name, answer), *others = answers.items()
    for other_name, other in others:
        difference = first_difference(answer, other, rules)
        if difference is not None:
            return LocatedDifference(difference, (name, other_name), place)
    # all are equal to the first, so its sums are those of all
    gap = reward_gap(spec, answer)
    if gap is None:
        return None
    env, reward, total = gap
    return LocatedDifference(Difference("item", "reward", reward, total, env), (name, "sum of its terms"), place)


def compare_contract(envs: Mapping[str, VectorEnv], mode: str) -> tuple[LocatedDifference | None, str]:
    """Reset all envs with a randomisation contract; return where its reception differs, and how it was received.

    A contract stays in force, so the trajectories compared afterwards are randomised ones. "no error" means accepted.
    """
    outcomes = {name: invalid_use.outcome(env, invalid_use.reset_randomized) for name, env in envs.items()}
    (name, expected), *others = outcomes.items()
    for other, found in others:
        if found != expected:
            difference = Difference("item", "randomisation contract", expected, found)
            return LocatedDifference(difference, (name, other), AtMove(mode, 0, "reset")), expected
    return None, expected


def compare_misuse(
    envs: Mapping[str, VectorEnv],
    calls: Callable[[VectorEnv], list[tuple[str, invalid_use.Call]]],
    mode: str,
    counts: Counts,
) -> LocatedDifference | None:
    """Return where a wrong call is answered differently, None when class and text are the same on all `envs`."""
    outcomes = {
        name: [(what, invalid_use.outcome(env, call)) for what, call in calls(env)] for name, env in envs.items()
    }
    (name, baseline), *others = outcomes.items()
    for other_name, other in others:
        for (what, expected), (_, found) in zip(baseline, other, strict=True):
            if expected != found:
                place = AtMove(mode, counts.steps, "misuse")
                return LocatedDifference(Difference("item", what, expected, found), (name, other_name), place)
    counts.misuse += len(baseline)
    return None
