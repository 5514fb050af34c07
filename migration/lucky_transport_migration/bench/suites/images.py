"""What the suite of images measures: cells (one row each) in setups (one fresh pair of processes each).

    view       images prepared beforehand, looked at where they lie
    copy       the same, each copied into an array of the client's own

Images are prepared: an engine that renders them takes longer than any transport. All cells of a setup share its
processes and its connection; a comparison is between setups of one round.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from lucky_transport_migration.bench.measuring import Effort
from lucky_transport_migration.bench.plan import START_S, Plan
from lucky_transport_migration.bench.suite import CallCell, CallSuite
from lucky_transport_migration.units import bytes_text

__all__ = ["CHANNELS", "IMAGES", "ImageSetup", "Size", "plan_of_images", "setups_of"]

Size = tuple[int, int]  # width and height, pixels

CHANNELS = 4
_FORMS = {"view": "looked at", "copy": "copied"}
_SIZES: tuple[Size, ...] = ((84, 84), (320, 240), (640, 480), (1280, 720))
_QUICK_SIZES: tuple[Size, ...] = ((16, 16), (64, 36))


def _text(size: Size) -> str:
    return f"{size[0]}x{size[1]}"


def _columns(cell: CallCell) -> dict[str, Any]:
    """Return what a row says of its images beside its times."""
    width, height = cell.what.split("x")
    return {"item_bytes": int(width) * int(height) * CHANNELS, "form": _FORMS[cell.kind]}


IMAGES = CallSuite(
    name="images",
    title="Images by size",
    engine="echo",
    titles={kind: f"RGBA image of {{what}}, {form}" for kind, form in _FORMS.items()},
    more=_columns,
)


@dataclass(frozen=True, slots=True)
class ImageSetup:
    """One engine process with one client and images of one size."""

    path: str
    wait: str | None
    size: Size
    twin: bool = False

    def cells(self) -> list[CallCell]:
        """Return what to measure."""
        kinds = ("view",) if self.twin else tuple(_FORMS)
        return [CallCell(kind, self.path, self.wait, _text(self.size)) for kind in kinds]

    def options(self) -> dict[str, Any]:
        """Return the options of its engine."""
        return {"width": self.size[0], "height": self.size[1]}

    def estimate_s(self, effort: Effort) -> float:
        """Return about how long it takes in one round."""
        return START_S + 1.1 * effort.budget_s * len(self.cells())

    def __str__(self) -> str:
        wait = f" {self.wait}" if self.wait else ""
        return f"{self.path}{wait}, {_text(self.size)} ({bytes_text(self.size[0] * self.size[1] * CHANNELS)})"


def setups_of(plan: Plan) -> Iterator[ImageSetup]:
    """Yield the setups of one round; a stream keeps both sides awake, so one waiting strategy stands for all."""
    sizes: Sequence[Size] = [(width, height) for width, height in plan.options["sizes"]]
    for size in sizes:
        for path in plan.paths:
            yield ImageSetup(path, plan.main_wait(path), size)
    yield ImageSetup(plan.reference, plan.main_wait(plan.reference), sizes[-1], twin=True)


def plan_of_images(paths: Sequence[str], waits: Sequence[str] | None, *, rounds: int, quick: bool) -> Plan:
    """Return the plan of a command line. A quick plan has one round of short loops and small images."""
    sizes = _QUICK_SIZES if quick else _SIZES
    options = {"sizes": [list(size) for size in sizes], "channels": CHANNELS}
    return Plan.of(paths, waits or ("adaptive",), options, rounds=rounds, quick=quick)
