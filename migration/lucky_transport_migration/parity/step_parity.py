"""The proof that transports answer the same: one engine per transport, the same seed, the same moves, bit for bit.

    frames      bare exchanges: every array of every frame
    next_step, same_step, disabled
                `VectorEnv` in that autoreset mode: observations, rewards, flags, every column of info, wrong calls

Each mode starts engines of its own, so that a mode's outcome does not hang on what ran before it. What was not compared
is reported, with the reason.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from lucky_transport.deadline import Deadline
from lucky_transport.engine import RESET
from lucky_transport.env.resetting import neutral_actions
from lucky_transport.env.vector_env import VectorEnv
from lucky_transport.errors import Busy, plural
from lucky_transport.host.driver_lease import only
from lucky_transport.spec.batch_spec import BatchSpec
from lucky_transport.transport import Transport
from lucky_transport_migration.compare.arrays import spec_difference
from lucky_transport_migration.compare.difference import AtMove, LocatedDifference
from lucky_transport_migration.compare.rules import UNSEEN, ComparisonRules
from lucky_transport_migration.evidence.tally import gap_rows
from lucky_transport_migration.parity import invalid_use
from lucky_transport_migration.parity.rollout import WAYS, RolloutPlan
from lucky_transport_migration.parity.step_comparison import Advance, Answer, Counts, StepComparison, each
from lucky_transport_migration.paths import ConnectedEngine, find_paths, open_links

#: Autoreset modes by the name the command line gives them.
MODES = ("next_step", "same_step", "disabled")

_AGAIN = 20  # exchanges of a third connection
_TAKE_OVER_S, _LOOK_S = 10.0, 0.02
_FRAME_STEPS = 200  # bare exchanges; the env's own steps cross the same wire again, so these need not be many


@dataclass
class Parity:
    """The outcome of a proof; `equal` only when nothing differed."""

    between: list[str]
    rules: ComparisonRules = field(default_factory=ComparisonRules)
    num_envs: int = 1
    modes: dict[str, Counts] = field(default_factory=dict[str, Counts])
    not_compared: dict[str, str] = field(default_factory=dict[str, str])
    difference: LocatedDifference | None = None

    @property
    def equal(self) -> bool:
        """True when no compared value differed."""
        return self.difference is None

    @property
    def compared(self) -> dict[str, Any]:
        """What was compared, as JSON values."""
        counts = self.modes.values()
        return {
            "steps": sum(one.steps for one in counts),
            "values": sum(one.values for one in counts),
            "misuse": sum(one.misuse for one in counts),
            "modes": {mode: asdict(one) for mode, one in self.modes.items()},
            "not_compared": gap_rows(self.not_compared),
        }

    @property
    def table(self) -> tuple[Sequence[str], list[tuple[str, ...]]]:
        """The heads and rows of what was compared."""
        modes = self.modes.values()
        numbers = {
            "steps": [one.steps for one in modes],
            "values": [one.values for one in modes],
            **{f"resets of {kind}": [one.resets[kind] for one in modes] for kind in ("all", "one", "some")},
            "terminated": [one.terminations for one in modes],
            "truncated": [one.truncations for one in modes],
            "rows of final_obs": [one.final_observations for one in modes],
            "refused calls": [one.misuse for one in modes],
        }
        return ("compared", *self.modes), [(name, *map("{:,}".format, row)) for name, row in numbers.items()]

    @property
    def compared_text(self) -> str:
        """The groups of arrays that were compared, for people."""
        return ", ".join(dict.fromkeys(name.partition(".")[0] for one in self.modes.values() for name in one.fields))

    @property
    def sentence(self) -> str:
        """The outcome as one sentence."""
        if self.difference is not None:
            return f"DIFFERENT: {self.difference.sentence()}"
        compared = self.compared
        values, steps = plural(compared["values"], "value"), plural(compared["steps"], "step")
        of = f"{steps} of {plural(self.num_envs, 'env')}"
        return f"EQUAL: all {values} of {of} are equal bit for bit; later steps were not looked at."

    def leave_out(self, what: str, why: str) -> None:
        """Say, once, that something was not compared."""
        self.not_compared.setdefault(what, why)

    def plain(self) -> dict[str, Any]:
        """Return the outcome as JSON values."""
        return {
            "equal": self.equal,
            "between": self.between,
            "compared": self.compared,
            "first_difference": None if self.difference is None else self.difference.plain(),
        }


def total_steps(steps: int, modes: Sequence[str]) -> int:
    """Return how many steps `prove` makes, for a progress bar."""
    return min(steps, _FRAME_STEPS) + steps * len(modes)


def prove(
    engine: str,
    names: Sequence[str],
    *,
    num_envs: int,
    steps: int,
    seed: int,
    modes: Sequence[str] = ("next_step",),
    options: Mapping[str, Any] | None = None,
    advance: Advance = lambda _: None,
    rules: ComparisonRules | None = None,
) -> Parity:
    """Return the outcome of comparing the paths `names` (see paths.py) over `steps` steps in each of `modes`.

    Stops at the first difference. `advance` is told what each compared step took. rules: how exactly which array is
    compared, bit for bit by default. Raises ConfigError for fewer than two
    different names, and what finding, starting and driving the engines raises.
    """
    paths = find_paths(names)
    parity = Parity(list(names), rules or ComparisonRules(), num_envs)
    start = partial(ConnectedEngine, engine=engine, num_envs=num_envs, seed=seed, options=options)
    specs: list[BatchSpec] = []
    for mode in ("frames", *modes):
        with _undisturbed(parity), ExitStack() as stack:
            links = open_links(stack, paths, start)
            specs.append(links[0].transport.spec)
            if mode == "same_step" and len(modes) > 1 and num_envs > 1 and not specs[0].hold:
                parity.leave_out("same_step", f"engine {engine!r} cannot hold envs")
                continue
            comparison = StepComparison(mode, Counts(fields=["spec"]), advance, parity.rules)
            parity.modes[mode] = comparison.counts
            parity.difference = _ModeProof(stack, links, steps, seed, parity, comparison).prove()
        if parity.difference is not None:
            return parity
    parity.not_compared |= open_ends(parity, specs[0], modes)
    return parity


@contextmanager
def _undisturbed(parity: Parity) -> Generator[None]:
    """Drop an error of the clean-up behind a difference: it hides nothing, and would hide the difference."""
    try:
        yield
    except Exception:
        if parity.equal:
            raise


@dataclass(frozen=True, slots=True)
class _ModeProof:
    """The proof in one mode, by engines of its own."""

    stack: ExitStack
    links: Sequence[ConnectedEngine]
    steps: int
    seed: int
    parity: Parity
    comparison: StepComparison

    def prove(self) -> LocatedDifference | None:
        """Return the first difference."""
        comparison, mode = self.comparison, self.comparison.mode
        spec = self.links[0].transport.spec
        transports = {link.path.name: link.transport for link in self.links}
        difference = spec_difference({name: one.spec for name, one in transports.items()}, mode, self.parity.rules)
        difference = difference or comparison.connections(transports, "a connection")
        if difference is not None:
            return difference
        if mode == "frames":
            steps = min(self.steps, _FRAME_STEPS)
            return comparison.frames(transports, RolloutPlan(spec, self.seed, steps), steps) or self._others(transports)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            envs, difference = each(
                transports,
                lambda transport: self.stack.enter_context(closing(VectorEnv(transport, autoreset_mode=mode))),
                AtMove(mode, 0, "opening"),
            )
            difference = difference or comparison.misuse(envs, lambda _: [invalid_use.BEFORE_RESET])
            if difference is None:
                difference, refused = comparison.taken(envs)
                for what, why in refused.items():
                    self.parity.leave_out(what, why)
                takes = invalid_use.TAKEN.keys() - refused
                has_calls = all(one.capabilities.commands for one in transports.values())
                ways = [way for way in WAYS if has_calls or way not in ("call", "beside")]
                options = "randomised episodes" in takes
                policy = RolloutPlan(spec, self.seed, self.steps, options=options, takes=takes, ways=ways)
                difference = difference or self._envs(envs, policy)
        for one in caught:
            self.parity.leave_out("what an env warned of", str(one.message))
        return difference

    def _envs(self, envs: Mapping[str, VectorEnv], policy: RolloutPlan) -> LocatedDifference | None:
        """Compare the trajectory and what it ends in the sight of cameras, then wrong calls on the living and on the
        closed env.
        """
        comparison = self.comparison
        difference = comparison.envs(envs, policy, self.steps)
        if difference is None:
            difference, why = comparison.images(envs)
            if why:
                self.parity.leave_out("env.render()", why)
        difference = difference or comparison.misuse(envs, lambda env: list(invalid_use.wrong_calls(env)))
        if difference is None:
            _, difference = each(envs, VectorEnv.close, AtMove(comparison.mode, comparison.counts.exchanges, "closing"))
        return difference or comparison.misuse(envs, lambda _: [invalid_use.AFTER_CLOSE])

    def _others(self, transports: Mapping[str, Transport]) -> LocatedDifference | None:
        """Compare what second connections are answered beside the first ones, and the first reset and some exchanges of
        third ones after them.
        """
        comparison, counts = self.comparison, self.comparison.counts
        place = AtMove("frames", counts.exchanges, "a further connection")
        by_name, closing = {link.path.name: link for link in self.links}, replace(place, event="closing")
        others, difference = each(by_name, lambda link: self.stack.enter_context(link.connect()), place)
        difference = difference or comparison.connections(others, place.event)
        for ends in (others, transports):
            difference = difference or each(ends, lambda one: one.close(), closing)[1]
        if difference is None:
            drivers, difference = each(by_name, _next_driver, place)
            others = {name: self.stack.enter_context(driver) for name, (driver, _) in drivers.items()}
            frames = {name: frame for name, (_, frame) in drivers.items()}
            difference = difference or comparison.first_finding(frames, replace(place, event="reset"))
        if difference is None:
            again = replace(comparison, counts=Counts(exchanges=counts.exchanges), advance=lambda _: None)
            difference = again.frames(others, RolloutPlan(self.links[0].transport.spec, self.seed + 1, _AGAIN), _AGAIN)
            counts.values += again.counts.values
        return difference or each(others, lambda one: one.close(), closing)[1]


def _next_driver(link: ConnectedEngine) -> tuple[Transport, Answer]:
    """Return a connection that steps the engine, and the observations of its first reset; an engine learns in its own
    time that the one before has ended. Where it can, it is tried by one env: an engine may refuse some of several.
    """
    deadline = Deadline(_TAKE_OVER_S)
    while True:
        found = link.connect()
        try:
            one, actions = [0] if found.spec.hold else range(found.spec.num_envs), neutral_actions(found.spec)
            first = found.step(actions, only(found.spec, one, RESET)).observations[:1].copy()
            frame = found.step(actions, np.full(found.spec.num_envs, RESET, np.uint8))
            return found, {"observation[of one env]": first, "observation": frame.observations.copy()}
        except Exception as error:
            found.close()
            if deadline.expired or not isinstance(error, Busy):
                raise
            time.sleep(_LOOK_S)


def open_ends(parity: Parity, spec: BatchSpec, modes: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield what a proof in `modes` leaves open, each with the reason."""
    counts = list(parity.modes.values())
    kinds = {"terminated": "terminations", "truncated": "truncations", "both terminated and truncated": "both"}
    for kind, count in kinds.items():
        if not any(getattr(one, count) for one in counts):
            yield (f"{kind} episodes", f"no episode was {kind}; compare more steps")
    if not any(one.together for one in counts):
        yield ("all envs ending in one step", "no step did that; compare four times the steps of an episode")
    if not spec.hold and spec.num_envs > 1:
        yield ("resets of some envs", f"engine {spec.engine!r} cannot hold the others")
    for mode in MODES:
        if mode not in modes:
            yield (f"autoreset mode {mode}", "not asked for; pass --autoreset all")
    yield (f"steps after the first {max((one.steps for one in counts), default=0):,}", "not asked for; pass --steps")
    yield (f"batches of other than {plural(parity.num_envs, 'env')}", "not asked for; pass --num-envs")
    yield from parity.rules.arrays_left_out().items()
    yield (
        "what is wrong alike over all paths",
        "VectorEnv and the engine's host are those of both; `replay` and `run --transport staged` reach other servers",
    )
    if spec.action_parts:
        yield ("steps made otherwise than by step()", "the actions have parts")
    yield ("steps after a refused call, or that a reset gives up", "wrong calls come last, a reset after its step")
    yield ("reads of the world and writes between steps; actions that change after step_async", "none are made")
    yield ("pauses between steps; envs made with options, as validate='strict'; send() and recv()", "none are made")
    yield ("whether a reset leaves the caller's dict of options as it was", "it is not looked at again")
    yield ("capabilities but commands and streams", "how a transport carries things is its own")
    yield ("latency", UNSEEN["latency"])
    yield ("camera images", "no transport carries them in a step")
    yield ("what an engine does beside its answers, as to files, memory or threads", "no answer tells")
