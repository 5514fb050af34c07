"""What is read in a bench's result, as tables and sentences: the same for terminal, Markdown and page.

Each row says itself in which table it stands.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import compress
from typing import Any

from lucky_transport.errors import plural
from lucky_transport_migration.paths import label
from lucky_transport_migration.stats import LEAST_COVERAGE, SHARES
from lucky_transport_migration.table import Table
from lucky_transport_migration.units import duration_text, times_text, us_text

Result = Mapping[str, Any]
Row = Mapping[str, Any]

HOW_TO_READ = (
    "p50, p99, p99.9: half, 99 % and 99.9 % of the steps took at most so long. A dash stands where the sample is "
    "too small: p99 needs 500 steps, p99.9 needs 5,000, p99.99 needs 100,000.",
    "A ratio is the median of ratios taken inside one run, side by side; the range behind it holds the true one in "
    "at least 95 % of runs. Fewer than six rounds give none. Each ratio is judged alone.",
    "CPU per step counts all threads of a process, so work that overlaps with waiting is in it.",
    "Shared memory needs client and engine on one host; gRPC does not.",
    "A CPU-bound Python thread in the client delays each step by up to one switch interval (5 ms by default) over "
    "every transport. Remedy: move that work into a process, or lower sys.setswitchinterval().",
)
_UNKNOWN = "–"


def rounds_text(result: Result) -> str:
    """Return how many rounds there were, and of what."""
    return f"{plural(result['rounds'], 'round')} of {result['rounds_of']}"


def headlines(result: Result) -> list[Row]:
    """Return the ratios that are read first."""
    return [one for one in result["ratios"] if one["lead"]]


def lead(result: Result) -> str:
    """Return how long the reference takes in the first table, "" where it has no row there."""
    first = next(iter(result["rows"]), {"table": ""})["table"]
    ours = [row for row in result["rows"] if row["table"] == first and _is_ours(row, result)]
    shown = ", ".join(f"{duration_text(row['us']['p50'])} ({row['column']})" for row in ours)
    return f"{first[:1].upper()}{first[1:]} over {label(result['reference'])}, p50: {shown}." if shown else ""


def numbers(result: Result) -> list[tuple[str, str]]:
    """Return one ratio of each title as a big number with what it is: to gRPC where it was measured."""
    first: dict[str, Row] = {}
    for one in sorted(headlines(result), key=lambda one: not one["to"].startswith("grpc")):
        first.setdefault(one["title"], one)
    return [
        (f"{times_text(one['ratio'])}×", f"{one['title']}: {label(one['to'])} {_interval(one)}".strip())
        for one in first.values()
    ]


def _interval(one: Row) -> str:
    """Return a ratio's interval in brackets, "" where there were too few rounds for one."""
    return f"({times_text(one['low'])} to {times_text(one['high'])})" if one["coverage"] >= LEAST_COVERAGE else ""


def grouped(rows: Sequence[Row], key: str = "title") -> Iterator[tuple[str, list[Row]]]:
    """Yield the rows in groups, by title of such as differ in the way alone."""
    for title in dict.fromkeys(row[key] for row in rows):
        yield title, [row for row in rows if row[key] == title]


def glance(result: Result) -> list[Table]:
    """Return the tables at a glance: one row a way, the fastest first, and one column a size or a rate."""
    found: list[Table] = []
    for title, rows in grouped([row for row in result["rows"] if row["glance"]], "table"):
        columns = list(dict.fromkeys(row["column"] for row in rows))
        at = {(row["way"], row["column"]): row for row in rows}
        order = sorted(dict.fromkeys(row["way"] for row in rows), key=lambda way: _first_p50(at, way, columns))
        cells = [(way, *(_times_and_p50(at.get((way, column))) for column in columns)) for way in order]
        found.append(Table(title, columns, cells))
    return found


def _first_p50(at: Mapping[tuple[str, str], Row], way: str, columns: Sequence[str]) -> float:
    return next(at[way, column]["us"]["p50"] for column in columns if (way, column) in at)


def _times_and_p50(row: Row | None) -> str:
    if row is None:
        return _UNKNOWN
    p50 = duration_text(row["us"]["p50"])
    return p50 if row["times"] is None else f"{times_text(row['times'])}× {p50}"


def all_rows(result: Result) -> list[Table]:
    """Return a table per title: one row a way, with all that was measured; without columns that tell nothing."""
    found: list[Table] = []
    for title, rows in grouped(result["rows"]):
        cells = [_cells(row, result) for row in rows]
        told = [any(row[head] not in ("", _UNKNOWN) for row in cells) for head in cells[0]]
        texts = [(row["way"], *compress(cell.values(), told)) for row, cell in zip(rows, cells, strict=True)]
        found.append(Table(title, list(compress(cells[0], told)), texts))
    return found


def _cells(row: Row, result: Result) -> dict[str, str]:
    us, used = row["us"], [us_text(one) for one in row.get("cpu_us_each", {}).values() if one is not None]
    lost = (
        f"{row['loss_percent']:.1f} %" if "loss_percent" in row else f"{row['skipped']:,}" if "skipped" in row else ""
    )
    return {
        f"× {label(result['reference'])}": "" if row["times"] is None else times_text(row["times"]),
        "p50 µs": us_text(us["p50"]),
        **{head: _supported(row, name) for head, name in (("p99", "p99"), ("p99.9", "p999"), ("p99.99", "p9999"))},
        "per s": f"{row['per_s']:,.0f}" if "per_s" in row else "",
        "lost": lost,
        "CPU µs client + engine": " + ".join(used) or _UNKNOWN,
        "rounds' p50": f"{us_text(us['p50_min'])}–{us_text(us['p50_max'])}" if result["rounds"] > 1 else "",
        "cores": row.get("placement") or _UNKNOWN,
        "n": f"{row['n']:,}",
    }


def _supported(row: Row, name: str) -> str:
    """Return a percentile in microseconds, a dash where the row's sample does not support it."""
    names = list(SHARES)
    if name not in row["us"] or names.index(name) > names.index(row["reliable_to"]):
        return _UNKNOWN
    return us_text(row["us"][name])


def targets(result: Result) -> list[Table]:
    """Return the targets of a result that was checked."""
    rows = [
        (
            str(one["name"]),
            str(one["word"]),
            _UNKNOWN if one["measured"] is None else f"{times_text(one['measured'])} {one['unit']}",
            f"{one['sense']} {one['goal']:g} {one['unit']}",
        )
        for one in result.get("targets", ())
    ]
    return [Table("target", ("outcome", "measured", "goal"), rows)] if rows else []


def outcomes(result: Result) -> str:
    """Return how many targets had which outcome."""
    words = [one["word"] for one in result.get("targets", ())]
    return ", ".join(f"{words.count(one)} {one}" for one in dict.fromkeys(words))


def compared(result: Result) -> list[Table]:
    """Return what a result's proof of parity compared, by mode; none of a result without one."""
    if "parity" not in result:
        return []
    heads = ("steps", "values", "terminations", "truncations")
    modes = result["parity"]["compared"]["modes"].items()
    rows = [(mode, *(f"{one[head]:,}" for head in heads)) for mode, one in modes]
    return [Table("compared bit for bit", heads, rows)]


def losses(result: Result) -> list[str]:
    """Return the sentences on where the reference does not win: comparisons lost or drawn, slow steps, CPU."""
    lost = [one["sentence"] for one in result["ratios"] if one["word"] in ("SLOWER", "NO DIFFERENCE")]
    found = [*lost, *_rows_lost(result)]
    return found or ["No comparison of this run was lost or drawn."]


def _rows_lost(result: Result) -> Iterator[str]:
    """Yield a sentence per row of another way whose slowest steps are faster, or that spends less CPU."""
    for title, rows in grouped(result["rows"]):
        ours = next((row for row in rows if _is_ours(row, result)), None)
        for row in rows if ours else ():
            if ours is None or row["path"] in (ours["path"], "limit", "pipes", "inproc"):
                continue
            if "p50" not in (ours["reliable_to"], row["reliable_to"]) and row["us"]["p99"] < ours["us"]["p99"]:
                yield _less(title, "at p99", row, ours, row["us"]["p99"], ours["us"]["p99"])
            used, theirs = _cpu(ours), _cpu(row)
            if used and theirs and used > 1.1 * theirs:
                yield _less(title, "of CPU", row, ours, theirs, used)


def _is_ours(row: Row, result: Result) -> bool:
    """True for a row of the reference in its main wait, measured the first time."""
    return (row["path"], row["wait"]) == (result["reference"], result["reference_wait"]) and not row["again"]


def _less(title: str, what: str, row: Row, ours: Row, theirs: float, used: float) -> str:
    return f"{title}: {duration_text(theirs)} {what} over {row['way']}, {duration_text(used)} over {ours['way']}."


def _cpu(row: Row) -> float | None:
    """Return the CPU time of both processes for one step or call, None where one is not known."""
    used = list(row.get("cpu_us_each", {"client": None}).values())
    return None if None in used else sum(used)
