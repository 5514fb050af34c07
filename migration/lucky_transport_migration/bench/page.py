"""Pages: one HTML file each, no scripts, nothing loaded from anywhere. The templates lie in `templates/`.

A page is a function of the result alone, so equal results give equal bytes and an old JSON can be drawn again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from lucky_transport.errors import plural
from lucky_transport_migration.bench import parts
from lucky_transport_migration.bench.charts import charts
from lucky_transport_migration.bench.reading import (
    headlines,
    is_main_group,
    is_of_steps,
    is_paced,
    page_title,
    rounds_text,
    rows_with_floor,
    stands_for_its_path,
)
from lucky_transport_migration.bench.slower_cases import STANDING_LIMITS, glance_caption, losses, not_won
from lucky_transport_migration.bench.stats import looked_at
from lucky_transport_migration.bench.verdict import INCONCLUSIVE
from lucky_transport_migration.paths import label

__all__ = ["bench_page", "render"]

Result = Mapping[str, Any]
Row = Mapping[str, Any]

_WORDS = {
    **dict.fromkeys(("PASS", "READY", "MAY MOVE", "COMPLETE", "FASTER", "MOSTLY FASTER", "EQUAL"), ("good", "✓")),
    **dict.fromkeys(("FAIL", "NOT READY", "HELD BACK", "SLOWER", "NOT FASTER", "DIFFERENT"), ("bad", "✗")),
    **dict.fromkeys(
        ("NOTHING SEEN", "MIXED", "NO VERDICT", "NO DIFFERENCE", "NOT MEASURED", INCONCLUSIVE),
        ("open", "○"),
    ),
}


def render(template: str, **values: Any) -> str:
    """Return the page that a template makes of these values; text is escaped."""
    loader = PackageLoader("lucky_transport_migration.bench")
    made = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    made.globals["words"] = _WORDS
    return made.get_template(template).render(values)


def bench_page(result: Result, raw: str = "bench.json") -> str:
    """Return the page of a bench's result, which lies beside it in the file `raw`."""
    steps = all(map(is_of_steps, result["rows"]))
    rows = rows_with_floor(result)
    main = [row for row in rows if is_main_group(row) and stands_for_its_path(row, result)] if steps else rows
    shared = [row for row in rows if is_paced(row)]
    others = [row for row in rows if row not in main and row not in shared]
    floor = [result["noise_floor"]["sentence"]] if result["noise_floor"] else []
    shown = list(headlines(result) if steps else _first_of_each_title(headlines(result)))
    only = shown[0]["to"] if len({one["to"] for one in shown}) == 1 else ""
    watched = looked_at([row for row in result["rows"] if "looked_at" in row])
    return render(
        "bench.html",
        title=page_title(result),
        about=_about(result),
        result=result,
        conclusive=result["verdict"]["word"] != INCONCLUSIVE,
        parity=result.get("parity"),
        proven=_proven(result),
        lead=parts.lead(result),
        reference=label(result["reference"]),
        compared_with=f"{label(only)}, times" if only else "Times",
        numbers=parts.numbers(shown, with_path=not only),
        beside=[one for one in result["verdict"]["beside"] if one not in watched],
        watched=watched,
        lost=_lost(result),
        outcomes=parts.outcomes(result),
        steps=steps,
        glance=parts.glance(result),
        captions=glance_caption(result),
        charts=list(charts(result)),
        losses=[*losses(result), *STANDING_LIMITS],
        targets=parts.targets(result),
        shared=parts.rows_by_group(shared, result),
        main=parts.rows_by_group(main, result, detailed=True),
        others=parts.rows_by_group(others, result, detailed=True),
        compared=parts.compared(result),
        reading=[*parts.HOW_TO_READ, *result["notes"], *floor],
        machine={name: value for name, value in result["environment"].items() if name != "versions"},
        versions=result["environment"].get("versions", {}),
        raw=raw,
    )


def _first_of_each_title(found: Iterable[Row]) -> Iterable[Row]:
    """Return of each kind of call what is compared first: the way that a switch leaves."""
    first: dict[str, Row] = {}
    for one in found:
        if one["main"]:
            first.setdefault(one["title"], one)
    return first.values()


def _about(result: Result) -> str:
    """Return how the result was made, and when; results of older versions do not say that."""
    date = result["environment"].get("date")
    when = f"; measured {str(date).replace('T', ' ').replace('Z', ' UTC')}" if date else ""
    order = ", in alternating order" if result["rounds"] > 1 else ""
    return f"{rounds_text(result)}{order}{when}"


def _proven(result: Result) -> str:
    """Return the sentence of a proof of parity without its word, "" where there was none."""
    text = result.get("parity", {"sentence": ""})["sentence"].partition(": ")[2]
    return text[:1].upper() + text[1:]


def _lost(result: Result) -> str:
    """Return how many comparisons were not won, and the worst of them."""
    lost = [one for one in not_won(result) if one["to"] != "limit"]
    worst = min(lost, key=lambda one: one["ratio"], default=None)
    if worst is None:
        return ""
    return f"Not won: {len(lost)} of {plural(len(result['ratios']), 'comparison')}, by most here: {worst['sentence']}"
