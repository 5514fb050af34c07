"""Several members making the same moves side by side, compared after every one.

The first member is the baseline; each other one must give the same bits. A comparison stops at the first difference,
since everything after it would differ too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from lucky_transport.env.rendering import make_renderer
from lucky_transport.env.vector_env import VectorEnv
from lucky_transport.errors import TransportError, Unimplemented
from lucky_transport.spec.batch_spec import BatchSpec
from lucky_transport.transport import Frame, Transport
from lucky_transport_migration.compare.arrays import FrameTables, first_difference
from lucky_transport_migration.compare.difference import AtMove, Difference, LocatedDifference, error_text
from lucky_transport_migration.compare.rules import ComparisonRules
from lucky_transport_migration.parity import invalid_use
from lucky_transport_migration.parity.rollout import RolloutPlan, RolloutStep
from lucky_transport_migration.parity.step_answers import StepUser, ask_beside, frame_of

#: Width and height of what cameras show.
_IMAGE = (64, 48)

Answer = dict[str, NDArray[Any]]
#: Makes a move, and turns what came of it into an answer.
Act = tuple[Callable[[RolloutStep], Any], Callable[[Any], Answer]]
#: Is told of each compared step how many microseconds it took on each member, by name.
Advance = Callable[[Mapping[str, float]], object]
_Member = TypeVar("_Member")
_Made = TypeVar("_Made")


@dataclass
class Counts:
    """How much one mode compared; resets by what they reset, final observations as rows of `final_obs`. together: steps
    in which all envs ended.

    exchanges: all that were made, resets too. fields: the names of the arrays that were compared.
    """

    steps: int = 0
    exchanges: int = 0
    values: int = 0
    resets: dict[str, int] = field(default_factory=lambda: {"all": 0, "one": 0, "some": 0})
    terminations: int = 0
    truncations: int = 0
    both: int = 0
    together: int = 0
    final_observations: int = 0
    misuse: int = 0
    fields: list[str] = field(default_factory=list[str])

    def add(self, move: RolloutStep, answer: Answer) -> None:
        """Count what one compared move showed; where it holds final observations, a second exchange has reset envs."""
        self.values += sum(array.size for array in answer.values())
        self.fields += [name for name in answer if name not in self.fields]
        self.exchanges += 2 if "info._final_obs" in answer else 1
        if move.kind != "step":
            self.resets[move.kind] += 1
            return
        self.steps += 1
        self.terminations += int(np.count_nonzero(answer["terminated"]))
        self.truncations += int(np.count_nonzero(answer["truncated"]))
        self.both += int(np.count_nonzero((answer["terminated"] != 0) & (answer["truncated"] != 0)))
        self.together += bool(np.all((answer["terminated"] != 0) | (answer["truncated"] != 0)))
        mask = answer.get("info._final_obs")
        self.final_observations += 0 if mask is None else int(np.count_nonzero(mask))


@dataclass(slots=True)
class StepComparison:
    """What is compared in one mode: "frames", or the autoreset mode of the envs. advance: is told of each step. rules:
    how exactly which array is compared. Each method returns the first difference, None when there is none.
    """

    mode: str
    counts: Counts = field(default_factory=Counts)
    advance: Advance = lambda _: None
    rules: ComparisonRules | None = None

    def envs(self, envs: Mapping[str, VectorEnv], policy: RolloutPlan, steps: int) -> LocatedDifference | None:
        """Compare `steps` steps; in the mode "disabled" ended envs are reset as the next move."""
        users = {name: StepUser(env) for name, env in envs.items()}
        acts: dict[str, Act] = {name: (user.make, user.answer) for name, user in users.items()}
        spec = next(iter(envs.values())).batch_spec
        return self._moves(acts, spec, policy, steps, resets_ended=self.mode == "disabled")

    def frames(self, transports: Mapping[str, Transport], policy: RolloutPlan, steps: int) -> LocatedDifference | None:
        """Compare the frames of `steps` exchanges.

        No transport may have been stepped before: frames are numbered from the first one on.
        """
        acts = {name: _frames_of(transport) for name, transport in transports.items()}
        return self._moves(acts, next(iter(transports.values())).spec, policy, steps, resets_ended=True)

    def _moves(
        self, acts: Mapping[str, Act], spec: BatchSpec, policy: RolloutPlan, steps: int, *, resets_ended: bool
    ) -> LocatedDifference | None:
        counts = self.counts
        ended: NDArray[np.bool_] | None = None
        while counts.steps < steps:
            move = policy.next()
            if resets_ended and ended is not None and ended.any() and move.kind == "step":
                move = replace(move, kind="one" if np.count_nonzero(ended) == 1 else "some", mask=ended)
            if not spec.hold and move.kind in ("one", "some"):  # such an engine can only be reset as a whole
                move = replace(move, kind="all", mask=np.ones_like(move.mask))
            event = "step" if move.kind == "step" else "reset"
            place = AtMove(self.mode, counts.exchanges + 1, event)
            took: dict[str, float] = {}
            answers, error = each({name: name for name in acts}, _maker(acts, move, took), place)
            difference = error or self.first_finding(answers, place)
            if difference is not None:
                return difference
            answer = next(iter(answers.values()))
            counts.add(move, answer)
            if "terminated" in answer:
                ended = answer["terminated"] | answer["truncated"]
            elif ended is not None:
                ended = ended & ~move.mask
            if event == "step":
                self.advance(took)
        return None

    def first_finding(self, answers: Mapping[str, Answer], place: AtMove) -> LocatedDifference | None:
        """Return where an answer differs from the first one."""
        (name, answer), *others = answers.items()
        for other_name, other in others:
            if (difference := first_difference(answer, other, self.rules)) is not None:
                return LocatedDifference(difference, (name, other_name), place)
        return None

    def taken(self, envs: Mapping[str, VectorEnv]) -> tuple[LocatedDifference | None, dict[str, str]]:
        """Reset all envs with what an engine may refuse; return where its reception differs, and what was refused, with
        the errors.

        The last is a randomisation contract, which stays in force: the trajectories compared afterwards are randomised.
        """
        refused: dict[str, str] = {}
        for what, call in invalid_use.TAKEN.items():
            outcomes = {name: invalid_use.outcome(env, call) for name, env in envs.items()}
            expected = next(iter(outcomes.values()))
            self.counts.exchanges += expected == "no error"
            if (found := _first_unlike(outcomes, what, self._place("reset"))) is not None:
                return found, refused
            if expected != "no error":
                refused[what] = expected
        return None, refused

    def connections(self, transports: Mapping[str, Transport], what: str) -> LocatedDifference | None:
        """Compare what connections can do, and what they are answered."""

        def seen(transport: Transport) -> Answer:
            can = transport.capabilities
            table = {f"capabilities.{name}": np.array(getattr(can, name)) for name in ("commands", "streams")}
            return table | ({"typed_call": ask_beside(transport)} if can.commands else {})

        answers, difference = each(transports, seen, self._place(what))
        return difference or self.first_finding(answers, self._place(what))

    def images(self, envs: Mapping[str, VectorEnv]) -> tuple[LocatedDifference | None, str]:
        """Compare what `render` of the envs shows now; return also why they show nothing, "" where they do."""

        def images(env: VectorEnv) -> Answer:
            try:
                shown = make_renderer(env.transport, "rgb_array", "", _IMAGE)
            except Unimplemented:  # a transport that knows it without asking says it in words of its own
                return {}
            return {"render": np.stack(shown.render())} if shown else {}

        place = self._place("render")
        try:
            answers, difference = each(envs, images, place)
        except TransportError as error:
            return None, str(error)
        difference = difference or self.first_finding(answers, place)
        if difference is None:
            self.counts.values += sum(array.size for array in next(iter(answers.values())).values())
        return difference, "" if any(answers.values()) else "the engine has no camera"

    def misuse(
        self, envs: Mapping[str, VectorEnv], calls: Callable[[VectorEnv], list[tuple[str, invalid_use.Call]]]
    ) -> LocatedDifference | None:
        """Compare how wrong calls are answered, by class and text."""
        made = {name: {what: invalid_use.outcome(env, call) for what, call in calls(env)} for name, env in envs.items()}
        wrong_calls = next(iter(made.values()))
        for what in wrong_calls:
            outcomes = {name: of_env[what] for name, of_env in made.items()}
            if (found := _first_unlike(outcomes, what, self._place("misuse"))) is not None:
                return found
        self.counts.misuse += len(wrong_calls)
        return None

    def _place(self, event: str) -> AtMove:
        return AtMove(self.mode, self.counts.exchanges, event)


def _frames_of(transport: Transport) -> Act:
    """Return what makes exchanges; after every third one a typed call is made, which leaves the frame's views as is."""
    tables = FrameTables(transport.spec)

    def answer(frame: Frame) -> Answer:
        table = tables.table(frame, transport.out_of_bounds)
        if frame.seq % 3 == 0 and transport.capabilities.commands:
            before = frame.observations.tobytes()
            table["typed_call"] = ask_beside(transport)
            table["views_kept"] = np.array(frame.observations.tobytes() == before)
        return table

    return partial(frame_of, transport), answer


def _maker(acts: Mapping[str, Act], move: RolloutStep, took: dict[str, float]) -> Callable[[str], Answer]:
    """Return what makes the move on a member; `took` is told how many microseconds that took."""

    def make(name: str) -> Answer:
        make_move, answer_of = acts[name]
        began_ns = time.perf_counter_ns()
        made = make_move(move)
        took[name] = (time.perf_counter_ns() - began_ns) / 1e3
        return answer_of(made)

    return make


def each(
    members: Mapping[str, _Member], use: Callable[[_Member], _Made], place: AtMove
) -> tuple[dict[str, _Made], LocatedDifference | None]:
    """Return what `use` makes of each member, and the difference where only some raised, or raised something else;
    raises what all raised alike.
    """
    made: dict[str, _Made] = {}
    errors: dict[str, Exception] = {}
    for name, member in members.items():
        try:
            made[name] = use(member)
        except Exception as error:  # whatever it is, it is the thing to be compared
            errors[name] = error
    values = {name: error_text(errors[name]) if name in errors else "no error" for name in members}
    found = _first_unlike(values, "error", place)
    if errors and found is None:
        raise next(iter(errors.values()))
    return made, found


def _first_unlike(outcomes: Mapping[str, str], what: str, place: AtMove) -> LocatedDifference | None:
    (first, expected), *others = outcomes.items()
    for name, found in others:
        if found != expected:
            return LocatedDifference(Difference("error", what, expected, found), (first, name), place)
    return None
