"""What a reader looks for first in a bench's result, and in which groups and columns its rows are read.

Terminal, page and Markdown take their selection from here, so all show the same first. Everything comes from the result
alone, so an old JSON can be read again; rows of steps have levels and sizes, rows of calls have kinds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import compress
from typing import Any

from lucky_transport.errors import plural
from lucky_transport_migration.bench.stats import SHARES
from lucky_transport_migration.bench.suites.steps import step_title
from lucky_transport_migration.paths import label
from lucky_transport_migration.units import times_text, us_text

__all__ = [
    "AGAIN",
    "FRESH_PAIRS",
    "columns",
    "cpu_each",
    "envs_text",
    "group_title",
    "grouped",
    "headlines",
    "is_again",
    "is_main_group",
    "is_main_ratio",
    "is_of_steps",
    "is_paced",
    "is_plain",
    "name_of",
    "page_title",
    "rounds_text",
    "rows_with_floor",
    "stands_for_its_path",
    "supported_us",
    "times_of",
    "way",
]

#: What a round is made of, unless a result says otherwise.
FRESH_PAIRS = "fresh process pairs"
#: Behind the name of the way that was measured a second time.
AGAIN = "again (A/A)"

Result = Mapping[str, Any]
Row = Mapping[str, Any]

_UNKNOWN = "–"
#: What two rows share that differ in the way alone.
_KIND = ("kind", "what", "level", "num_envs", "copy", "rate_hz", "frame_bytes")


def page_title(result: Result) -> str:
    """Return the title; results of steps did not always have one."""
    return str(result.get("title") or f"Transports of {result['engine']}")


def rounds_text(result: Result) -> str:
    """Return how many rounds there were, and of what."""
    return f"{plural(result['rounds'], 'round')} of {result.get('rounds_of', FRESH_PAIRS)}"


def is_of_steps(one: Row) -> bool:
    """True for a row or a ratio of the suite of steps."""
    return "level" in one


# which rows and ratios come first


def headlines(result: Result) -> list[Row]:
    """Return the ratios that are read first.

    Of steps those at full rate between whole paths, of one exchange where there are any, else of a step; of calls those
    in the strategy that stands for the reference.
    """
    if not all(map(is_of_steps, result["ratios"])):
        return [one for one in result["ratios"] if one["wait"] in (None, result["reference_wait"])]
    whole = [
        one
        for one in result["ratios"]
        if one["to"] not in (one["of"], "limit")
        and one["rate_hz"] is None
        and one["copy"] in (None, True)
        and one["engine"] in (result["engine"], "toy:copy")
    ]
    return [one for one in whole if one["level"] == "transport" and one["engine"] != "toy:copy"] or whole


def is_paced(row: Row) -> bool:
    """True for rows of steps at a control rate."""
    return is_of_steps(row) and row["level"] == "env" and row["rate_hz"] is not None


def stands_for_its_path(row: Row, result: Result) -> bool:
    """True for the waiting strategy that stands for the row's path."""
    return row["wait"] == {result["reference"]: result["reference_wait"], "limit": "spin"}.get(row["path"])


def is_plain(row: Row, result: Result) -> bool:
    """True for exchanges at full rate with an engine that does no work, in the strategy that stands for the path."""
    exchange = is_of_steps(row) and row["level"] == "transport" and row["actions"] == "copy" and row["rate_hz"] is None
    return exchange and row["engine"] != "toy:copy" and stands_for_its_path(row, result)


def is_main_group(row: Row) -> bool:
    """True for the groups that answer the first question: an exchange and a step, with an engine that does no work."""
    return is_main_ratio(row) and row["actions"] == "copy"


def is_main_ratio(one: Row) -> bool:
    """True for ratios within those groups."""
    usual = one["engine"] != "toy:copy" and one["rate_hz"] is None
    return usual and one["copy"] is not False


# rows in groups


def group_title(row: Row) -> str:
    """Return what all rows of a group have in common; rows of steps did not always say so themselves."""
    return str(row["title"]) if "title" in row else step_title(row)


def grouped(rows: Sequence[Row]) -> Iterator[tuple[str, list[Row]]]:
    """Yield the rows in groups that differ in the way alone, each with its title."""
    for title in dict.fromkeys(group_title(row) for row in rows):
        yield title, [row for row in rows if group_title(row) == title]


def rows_with_floor(result: Result) -> list[Row]:
    """Return the rows of a result, that of the second measurement of an A/A pair behind its twin."""
    rows: list[Row] = list(result["rows"])
    if result["noise_floor"]:
        again = result["noise_floor"]["row"]
        keys = (*_KIND, "path", "wait", "engine", "actions")
        twins = (i for i, row in enumerate(rows) if all(row.get(key) == again.get(key) for key in keys))
        rows.insert(next(twins, len(rows) - 1) + 1, again)
    return rows


def is_again(row: Row, result: Result) -> bool:
    """True for the row of the second measurement of an A/A pair."""
    return bool(result["noise_floor"]) and row is result["noise_floor"]["row"]


# a row as text


def envs_text(row: Row) -> str:
    """Return "1 env" or "64 envs"."""
    return plural(row["num_envs"], "env")


def way(row: Row) -> str:
    """Return what a report calls a row's path, and its waiting strategy."""
    name = label(row["path"])
    return f"{name} ({row['wait']})" if row["wait"] else name


def name_of(row: Row, result: Result) -> str:
    """Return what a report calls the row's way."""
    if row["path"] == "limit":
        return way(row)
    name = label(row["path"])
    return f"{name}, {AGAIN}" if is_again(row, result) else name


def times_of(row: Row, result: Result) -> float | None:
    """Return how many times longer a row takes than the reference's row of its kind; 1 for that row itself."""
    if is_again(row, result):
        return float(result["noise_floor"]["ratio"])
    if row.get("actions", "copy") != "copy":
        return None
    itself = (row["path"], row["wait"], row.get("engine"))
    for one in result["ratios"]:
        if any(one.get(key) != row.get(key) for key in _KIND) or one["wait"] not in (None, result["reference_wait"]):
            continue
        if (one["to"], one["to_wait"], one.get("to_engine")) == itself:
            return float(one["ratio"])
        if (one["of"], one["wait"], one.get("engine")) == itself:
            return 1.0
    return None


def supported_us(row: Row, name: str) -> str:
    """Return the percentile `name` of a row in microseconds, a dash where its sample does not support it."""
    names = list(SHARES)
    if name not in row["us"] or names.index(name) > names.index(row["reliable_to"]):
        return _UNKNOWN
    return us_text(row["us"][name])


def cpu_each(row: Row) -> tuple[float | None, float | None]:
    """Return the CPU time of client and engine for one step or call, in microseconds; None where it is not known."""
    used = row.get("cpu_us_each") or row.get("cpu_us_per_step") or {}
    return used.get("client"), used.get("engine")


def _lost(row: Row) -> str:
    """Return what a row lost: a loop of its rate, a stream of its items; "" where there is nothing to lose."""
    if "loss_percent" in row:
        return f"{row['loss_percent']:.1f} %"
    return f"{row['skipped']:,}" if "skipped" in row else ""


def columns(rows: Sequence[Row], result: Result, *, detailed: bool = False) -> tuple[list[str], list[list[str]]]:
    """Return the heads behind the way's, and each row's cells as text; without columns that tell nothing."""
    cells = [_cells(row, result, detailed) for row in rows]
    heads = list(cells[0]) if cells else []
    told = [any(row[head] not in ("", _UNKNOWN) for row in cells) for head in heads]
    return list(compress(heads, told)), [list(compress(row.values(), told)) for row in cells]


def _cells(row: Row, result: Result, detailed: bool) -> dict[str, str]:
    us, times, (client, engine) = row["us"], times_of(row, result), cpu_each(row)
    cells = {
        f"× {label(result['reference'])}": "" if times is None else "1" if times == 1 else times_text(times),
        "p50 µs": us_text(us["p50"]),
        "p99": supported_us(row, "p99"),
        "p99.9": supported_us(row, "p999"),
    }
    rate = {"per s": f"{row['per_s']:,.0f}" if "per_s" in row else "", "lost": _lost(row)}
    n = {"n": f"{row['n']:,}"}
    if not detailed:
        known = [us_text(one) for one in (client, engine) if one is not None]
        return cells | rate | {"CPU µs client + engine": " + ".join(known) or _UNKNOWN} | n
    return {
        **cells,
        "p99.99": supported_us(row, "p9999"),
        **rate,
        "CPU µs client": _UNKNOWN if client is None else us_text(client),
        "CPU µs engine": _UNKNOWN if engine is None else us_text(engine),
        "Rounds' p50": f"{us_text(us['p50_min'])}–{us_text(us['p50_max'])}" if result["rounds"] > 1 else "",
        "Cores": row.get("placement") or _UNKNOWN,
        **n,
    }
