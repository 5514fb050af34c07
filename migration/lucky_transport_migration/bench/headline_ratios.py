"""What a reader looks for first in a bench's result, and in which groups its rows are read.

Terminal and page take their selection from here, so both show the same first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lucky_transport.errors import plural
from lucky_transport_migration.bench.peers.kinds import PEERS
from lucky_transport_migration.bench.suites.steps import step_title

__all__ = [
    "envs_text",
    "group_title",
    "grouped",
    "headlines",
    "is_main_group",
    "is_main_ratio",
    "is_plain",
    "stands_for_its_path",
    "times_shm",
]

Result = Mapping[str, Any]
Row = Mapping[str, Any]


def headlines(result: Result) -> list[Mapping[str, Any]]:
    """Return the ratios at full rate between whole paths: of one exchange where there are any, else of a step."""
    whole = [
        one
        for one in result["ratios"]
        if one["to"] not in (one["of"], "limit", "shm-python", *PEERS)
        and one["rate_hz"] is None
        and one["copy"] in (None, True)
    ]
    exchange = [one for one in whole if one["level"] == "transport" and one["engine"] != "toy:copy"]
    return exchange or whole


def stands_for_its_path(row: Row, result: Result) -> bool:
    """True for the waiting strategy that stands for the row's path."""
    return row["wait"] == {result["reference"]: result["reference_wait"], "limit": "spin"}.get(row["path"])


def is_plain(row: Row, result: Result) -> bool:
    """True for exchanges at full rate with an engine that does no work, in the strategy that stands for the path."""
    exchange = row["level"] == "transport" and row["actions"] == "copy" and row["rate_hz"] is None
    return exchange and row["engine"] != "toy:copy" and stands_for_its_path(row, result)


def is_main_group(row: Row) -> bool:
    """True for the groups that answer the first question: an exchange and a step, with an engine that does no work."""
    return (
        row["engine"] != "toy:copy" and row["rate_hz"] is None and row["actions"] == "copy" and row["copy"] is not False
    )


def is_main_ratio(one: Mapping[str, Any]) -> bool:
    """True for ratios within those groups."""
    return one["engine"] != "toy:copy" and one["rate_hz"] is None and one["copy"] is not False


def envs_text(row: Row) -> str:
    """Return "1 env" or "64 envs"."""
    return plural(row["num_envs"], "env")


def group_title(row: Row) -> str:
    """Return what all rows of a group have in common; rows of steps did not always say so themselves."""
    return str(row["title"]) if "title" in row else step_title(row)


def grouped(rows: Sequence[Row]) -> Iterator[tuple[str, list[Row]]]:
    """Yield the rows in groups that differ in the path alone, each with its title."""
    for title in dict.fromkeys(group_title(row) for row in rows):
        yield title, [row for row in rows if group_title(row) == title]


def times_shm(row: Row, result: Result) -> float | None:
    """Return how many times longer the row takes than the reference's row of its kind; 1 for that row itself."""
    if row["actions"] != "copy":
        return None
    keys = ("level", "num_envs", "copy", "rate_hz", "frame_bytes")
    for one in result["ratios"]:
        if all(one[key] == row[key] for key in keys):
            if (one["to"], one["to_wait"], one["to_engine"]) == (row["path"], row["wait"], row["engine"]):
                return float(one["ratio"])
            if (one["of"], one["wait"], one["engine"]) == (row["path"], row["wait"], row["engine"]):
                return 1.0
    return None
