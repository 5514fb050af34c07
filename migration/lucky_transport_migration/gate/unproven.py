"""What a move leaves unproven: shadows that are never asked, and stages that were reached without a compared call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from lucky_transport.messages.methods import Effect
from lucky_transport.messages.names import short_name
from lucky_transport_migration.catalogue.effects import UNSAID
from lucky_transport_migration.stages.effective_stages import STEP, STEPPING_PATH, EffectiveStages
from lucky_transport_migration.stages.stage import Placement, Stage

if TYPE_CHECKING:
    from lucky_transport_migration.catalogue.service_method import ServiceMethod

__all__ = ["moved_without_evidence", "without_shadow"]

_SHOWN = 3


def moved_without_evidence(
    standing: EffectiveStages, names: Iterable[str], compared: Mapping[str, bool]
) -> dict[str, Placement]:
    """Return those of the methods that are beyond `shadow` though no call of them was ever compared, with their stage.

    compared: whether a call of the method was, by its name. The stepping path counts as its Step.
    """
    led = STEPPING_PATH - {STEP}
    found = {name: standing.placement(name) for name in sorted(set(names) - led) if not compared.get(name)}
    return {name: at for name, at in found.items() if at > Placement(Stage.SHADOW)}


def without_shadow(methods: Sequence[ServiceMethod]) -> Iterator[str]:
    """Yield which of the methods never get a shadow, and what to do about it: a sentence for each reason."""
    unsaid = [one.name for one in methods if one.effect is Effect.WORLD and one.reason == UNSAID]
    others = [one.name for one in methods if one.effect is not Effect.READ and one.name not in unsaid]
    if unsaid:
        yield (
            f"no shadow is asked of {_listed(unsaid)}: {UNSAID}. If it only reads, write `option idempotency_level = "
            "NO_SIDE_EFFECTS;` into its rpc in the .proto, or into lucky_transport.toml: "
            f'[stages.effects] "{short_name(unsaid[0])}" = "read"'
        )
    if others:
        yield (
            f"no shadow is asked of {_listed(others)}: what a call changes is not changed twice; compare by "
            "lucky-transport parity, or by record and replay"
        )


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(map(short_name, names[:_SHOWN])) + (f" and {more:,} more" if more > 0 else "")
