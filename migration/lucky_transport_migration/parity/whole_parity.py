"""The whole proof: the stepping path, every typed call and every stream, on engines of their own.

It is equal only when both parts are; a part that a transport cannot carry is left out, with the reason.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lucky_transport.cli.tables import echo, show
from lucky_transport.errors import Unimplemented
from lucky_transport_migration.parity.call_parity import CommandsParity
from lucky_transport_migration.parity.step_parity import Parity
from lucky_transport_migration.paths import label


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


def show_parity(outcome: Parity | CommandsParity | WholeParity) -> None:
    """Print a proof's outcome: what was compared, what differs, what was not compared, and the verdict.

    Of a whole one both parts, one that differs last, and the verdict on both in the last line.
    """
    if isinstance(outcome, WholeParity):
        parts = [one for one in (outcome.steps, outcome.calls) if one is not None]
        for part in sorted(parts, key=lambda part: not part.equal):
            show_parity(part)
        if len(parts) > 1 and outcome.equal:  # else the sentence of the part that differs is the last line
            echo("EQUAL: steps and calls.")
        return
    heads, rows = outcome.table
    show(f"between {', '.join(label(name) for name in outcome.between)}", heads, rows, numbers=True)
    if isinstance(outcome, CommandsParity):
        for one in outcome.differences:
            echo(f"differs: {one.sentence()}", fg="red")
        if outcome.offer:
            echo(outcome.offer, dim=True)
    echo(f"compared: {outcome.compared_text}", dim=True)
    for what, why in outcome.not_compared.items():
        echo(f"not compared: {what} ({why})", dim=True)
    for line in outcome.sentence.splitlines():
        echo(line, bold=True, fg="green" if outcome.equal else "red")
