"""The whole proof: the stepping path, every typed call and every stream, on engines of their own.

It is equal only when both parts are; a part that a transport cannot carry is left out, with the reason.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lucky_transport.cli.tables import echo, show
from lucky_transport.errors import Unimplemented
from lucky_transport_migration.evidence.record import EQUAL
from lucky_transport_migration.evidence.tally import compared_text
from lucky_transport_migration.parity.call_parity import CommandsParity
from lucky_transport_migration.parity.step_parity import Parity
from lucky_transport_migration.paths import label

__all__ = ["WholeParity", "prove_whole", "show_commands_parity", "show_parity", "show_whole_parity"]


@dataclass(frozen=True, slots=True)
class WholeParity:
    """Both parts; `calls` is None where the transports carry none."""

    steps: Parity
    calls: CommandsParity | None

    @property
    def equal(self) -> bool:
        """True when no part differed."""
        return self.steps.equal and (self.calls is None or self.calls.equal)

    def plain(self) -> dict[str, Any]:
        """Return both parts as JSON values; `first_difference` is that of the steps where they have one."""
        steps = self.steps.plain()
        calls = {} if self.calls is None else self.calls.plain()
        first = steps["first_difference"] or calls.get("first_difference")
        return {"methods": {}, "not_compared": [], **calls, **steps, "equal": self.equal, "first_difference": first}


def prove_whole(prove_steps: Callable[[], Parity], prove_calls: Callable[[], CommandsParity]) -> WholeParity:
    """Return the outcome of both proofs; raises what they raise."""
    steps = prove_steps()
    try:
        return WholeParity(steps, prove_calls())
    except Unimplemented as error:
        steps.leave_out("typed calls", str(error))
        return WholeParity(steps, None)


def show_parity(outcome: Parity) -> None:
    """Print a proof's outcome."""
    modes = outcome.modes.values()
    numbers = (
        ("steps", [one.steps for one in modes]),
        ("values", [one.values for one in modes]),
        *((f"resets of {kind}", [one.resets[kind] for one in modes]) for kind in ("all", "one", "some")),
        ("terminated", [one.terminations for one in modes]),
        ("truncated", [one.truncations for one in modes]),
        ("rows of final_obs", [one.final_observations for one in modes]),
        ("refused calls", [one.misuse for one in modes]),
    )
    rows = [(name, *(f"{number:,}" for number in row)) for name, row in numbers]
    show(_between(outcome), ("compared", *outcome.modes), rows, numbers=True)
    groups = dict.fromkeys(name.partition(".")[0] for one in modes for name in one.fields)
    echo(f"compared: {', '.join(groups)}", dim=True)
    for gap in outcome.not_compared:
        echo(f"not compared: {gap['what']} ({gap['why']})", dim=True)
    _show_verdict(outcome)


def show_commands_parity(outcome: CommandsParity) -> None:
    """Print the outcome of a proof of calls: a line per method, every method's first difference, the verdict."""
    missing = set(outcome.not_offered)
    rows = [
        (
            name.rpartition(".")[2],
            *(f"{one:,}" for one in (row.compared, row.verdicts[EQUAL], row.accepted, row.refusals.total())),
        )
        for name, row in outcome.methods.items()
        if name not in missing
    ]
    show(_between(outcome), ("method", "calls", "equal", "ok", "refused"), rows, numbers=True)
    for row in outcome.methods.values():
        if row.first_difference is not None:
            echo(f"differs: {row.first_difference.sentence()}", fg="red")
    if outcome.offer:
        echo(outcome.offer, dim=True)
    echo(f"compared: {compared_text(outcome.methods.values())}", dim=True)
    for what, why in outcome.not_compared.items():
        echo(f"not compared: {what} ({why})", dim=True)
    _show_verdict(outcome)


def _between(outcome: Parity | CommandsParity) -> str:
    return f"between {', '.join(label(name) for name in outcome.between)}"


def _show_verdict(outcome: Parity | CommandsParity) -> None:
    for line in outcome.sentence.splitlines():
        echo(line, bold=True, fg="green" if outcome.equal else "red")


def show_whole_parity(outcome: WholeParity) -> None:
    """Print both parts for a person, one that differs last, and the verdict on both in the last line."""
    parts = [(outcome.steps.equal, lambda: show_parity(outcome.steps))]
    if (calls := outcome.calls) is not None:
        parts.append((calls.equal, lambda: show_commands_parity(calls)))
    for _, show_part in sorted(parts, key=lambda part: not part[0]):
        show_part()
    if len(parts) > 1 and outcome.equal:  # else the sentence of the part that differs is the last line
        echo("EQUAL: steps and calls.")
