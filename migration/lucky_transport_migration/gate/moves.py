"""Methods moved by hand: set to a stage, promoted by one rung, demoted.

A method that was demoted is not moved up before its cool-down ends, and not promoted unless the gate agrees; `force` is
for who knows better. A move is written into the file of stages, and what running programs must know of it into the
journal. The stepping path moves by the row of AgentService/Step. It goes to another transport when a program starts: a
running one is not made to change its driver by hand, also where a demotion by hand stands in the journal.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import tomlkit
from tomlkit.exceptions import TOMLKitError

from lucky_transport.atomic_write import write_atomically
from lucky_transport.errors import ConfigError
from lucky_transport.messages.method import is_pattern, matches, short_name
from lucky_transport_migration.catalogue.catalogue import OWN
from lucky_transport_migration.evidence.record import read_folder
from lucky_transport_migration.evidence.tally import COMPARED
from lucky_transport_migration.gate.gate_verdict import GateVerdict, judge
from lucky_transport_migration.gate.limits import Limits
from lucky_transport_migration.gate.looks import Looks
from lucky_transport_migration.gate.method import different, without_shadow
from lucky_transport_migration.stages.effective_stages import STEP, STEPPING_PATH, EffectiveStages
from lucky_transport_migration.stages.evidence_window import recent_evidence
from lucky_transport_migration.stages.stage import Placement, Stage


@dataclass(frozen=True, slots=True)
class StageChange:
    """One method's move from `before` to `to`; refused: why it stays, "" when it has moved. against: what differed."""

    method: str
    before: Placement
    to: Placement
    refused: str = ""
    against: str = ""


class Moves:
    """Moves of the project whose file of stages is nearest to `directory`; the environment overrides nothing here.

    Raises ConfigError for a wrong file.
    """

    def __init__(self, directory: Path | None = None) -> None:
        self.standing = EffectiveStages.load(directory, environ={})
        self._limits = Limits.load(self.standing.plan.path.parent)

    def place(self, target: str, to: Placement, *, force: bool = False) -> list[StageChange]:
        """Put what `target` names, a method or a pattern, at `to`, by one row; all of it or, if one is refused, none.

        Rows that `target` covers are removed. Raises UnknownName, ConfigError.
        """
        moves: list[StageChange] = []
        for name in self._movable(target):
            before = self.standing.placement(name)
            is_held = not force and to > before and self.standing.cooling_s(name) > 0
            moves.append(StageChange(name, before, to, self.standing.demoted_text(name) if is_held else ""))
        if not any(move.refused for move in moves):
            self._write({target: to})
            self._lift(moves)
        return moves

    def promote(self, target: str, *, force: bool = False) -> list[StageChange]:
        """Move each method that `target` names up by one rung, where cool-down and gate allow it."""
        names = self._movable(target)
        verdict = self._verdict(() if force else names)
        moves: list[StageChange] = []
        for name in names:
            before = self.standing.placement(name)
            to, refused = before.following, verdict.refusal(name, self.standing)
            row = verdict.methods.get(name)
            against = different(row.summary) if row and row.summary.bad else ""
            moves.append(StageChange(name, before, to, "" if force and to > before else refused, against))
        self._write_moves(target, moves)
        self._lift(moves)
        return moves

    def demote(self, target: str, to: Placement | None = None, why: str = "by hand") -> list[StageChange]:
        """Move each method that `target` names down: to `to`, by default to where gRPC answers every call again.

        What was compared before then counts no more; so a method at grpc that is named by itself, not by a pattern,
        stays, and is held there.
        """
        moves: list[StageChange] = []
        for name in self._movable(target):
            before = self.standing.placement(name)
            is_low = (to or is_pattern(target)) and (to or before.fallback) >= before
            moves.append(StageChange(name, before, to or before.fallback, f"is at {before} already" if is_low else ""))
        self._write_moves(target, moves)
        for one in (move for move in moves if not move.refused):
            self.standing.journal.demote(one.method, one.before, one.to, why, self._limits.cool_down_s)
        return moves

    def notes(self, moves: Iterable[StageChange]) -> list[str]:
        """Return what the moves upwards leave unproven, a sentence each, and how those that were not made are."""
        made = {one.method: one.to for one in moves if not one.refused and one.to > one.before}
        shadowed = [name for name, to in made.items() if to.stage is Stage.SHADOW]
        found = [f"{one.method}: {one.against}" for one in moves if one.against and not one.refused]
        found.append(without_shadow(list(map(self.standing.plan.catalogue.method, shadowed))))
        if len(shadowed) < len(made):
            seen = (one for one in read_folder(self.standing.plan.evidence) if one.kind != "aa")
            compared = {one.method for one in seen if one.verdict in COMPARED}
            found += unproven_texts(unproven({name: to for name, to in made.items() if name not in compared}))
        if any(one.refused and one.to > one.before for one in moves):
            found.append("--force overrules cool-down and gate")
        return list(filter(None, found))

    # -- what may move ------------------------------------------------------------------------------------------------

    def _movable(self, target: str) -> list[str]:
        """Return the methods that `target` names; of the stepping path only Step itself."""
        names = [one.name for one in self.standing.plan.catalogue.find(target)]
        led = [name for name in names if name in STEPPING_PATH and name != STEP]
        if led == names:
            raise ConfigError(f"{short_name(led[0])} moves with the stepping path", hint=f"move {short_name(STEP)}")
        return [name for name in names if name not in led]

    def _verdict(self, names: Iterable[str]) -> GateVerdict:
        """Return what the gate says of the methods. From `grpc` on to `shadow` nothing is at stake: it is not asked."""
        asked = {name for name in names if self.standing.placement(name).stage is not Stage.GRPC}
        folder = self.standing.plan.evidence
        seen = recent_evidence(folder, self._limits.aa_days) if asked else ()
        return judge(seen, self._limits, standing=self.standing, looks=Looks(folder), asked=asked.__contains__)

    # -- writing ------------------------------------------------------------------------------------------------------

    def _write_moves(self, target: str, moves: Sequence[StageChange]) -> None:
        """Write what was not refused: one row where all of a pattern went to one stage, else one row a method."""
        done = {move.method: move.to for move in moves if not move.refused}
        is_one = is_pattern(target) and len(set(done.values())) == 1 and len(done) == len(moves)
        if done:
            self._write({target: moves[0].to} if is_one else done)

    def _write(self, rows: dict[str, Placement]) -> None:
        plan = self.standing.plan
        keyed = {self._key(target): to for target, to in rows.items()}
        covers = plan.catalogue.covers
        drop = [row for row in plan.methods if row not in keyed and any(covers(key, row) for key in keyed)]
        write_rows(plan.path, keyed, drop)

    def _key(self, target: str) -> str:
        """Return the key of a target's row: that of the row there is, else as it is spelt best."""
        if is_pattern(target):
            return target
        plan = self.standing.plan
        name = plan.catalogue.find(target)[0].name
        there = (key for key in plan.methods if not is_pattern(key) and matches(name, key))
        return next(there, short_name(name) if name in OWN else name)

    def _lift(self, moves: Iterable[StageChange]) -> None:
        """Note promotions, so that demotions end and the evidence of the new stage is told from that of the old one."""
        for move in (one for one in moves if not one.refused and one.to > one.before):
            led = [name for name in STEPPING_PATH if name in self.standing.demotions] if move.method == STEP else []
            for name in {move.method, *led}:
                self.standing.journal.promote(name, move.before, move.to)


def unproven(uncompared: Mapping[str, Placement]) -> dict[str, Placement]:
    """Return which methods are beyond `shadow`, of some of which no call was compared; Step stands for its path."""
    found = {name: uncompared[name] for name in sorted(uncompared) if name == STEP or name not in STEPPING_PATH}
    return {name: at for name, at in found.items() if at > Placement(Stage.SHADOW)}


def unproven_texts(found: Mapping[str, Placement]) -> list[str]:
    """Return what is `unproven`, a sentence each."""
    rest = "and no call of it was ever compared"
    return [f"moved without evidence: {name} is at {at}, {rest}" for name, at in found.items()]


def write_rows(path: Path, rows: Mapping[str, Placement], drop: Iterable[str] = ()) -> None:
    """Give each key of `rows` its placement and remove the rows `drop`; a file that is not there is made.

    Comments, order and other tables stay, and what others write at the same time. The file is replaced as a whole: a
    reader never sees half of it. Raises ConfigError for a file that is no TOML, OSError when it cannot be written.
    """
    folder = os.open(path.resolve().parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)  # of the folder: the file itself is replaced
        try:
            document = tomlkit.parse(path.read_text(encoding="utf-8") if path.exists() else "")
        except (TOMLKitError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path}: {error}", hint="mend the file") from error
        stages = document.setdefault("stages", tomlkit.table())
        methods = stages.setdefault("methods", tomlkit.table())
        for key in drop:
            methods.pop(key, None)
        for key, placement in rows.items():
            methods[key] = str(placement)
        write_atomically(path, tomlkit.dumps(document).encode())
    finally:
        os.close(folder)
