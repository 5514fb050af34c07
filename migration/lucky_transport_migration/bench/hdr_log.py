"""The raw histograms of a run as one HistogramLog, which the usual HdrHistogram tools read: one tagged line a row."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from lucky_transport_migration.bench.histogram import Histogram
from lucky_transport_migration.bench.reading import group_title, way

__all__ = ["hdr_log"]

_HEAD = (
    "#[Histogram log format version 1.3]",
    "#[durations in nanoseconds; one line is all rounds of one row]",
    '"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"',
)


def hdr_log(result: Mapping[str, Any]) -> str:
    """Return the text. Rows that were timed as a whole have no histogram and no line."""
    lines = [Histogram.decoded(row["hdr"]).log_line(_tag(row)) for row in result["rows"] if "hdr" in row]
    floor = result["noise_floor"]
    if floor and "hdr" in floor["row"]:
        lines.append(Histogram.decoded(floor["row"]["hdr"]).log_line(_tag(floor["row"]) + "_again"))
    return "\n".join([*_HEAD, *lines, ""])


def _tag(row: Mapping[str, Any]) -> str:
    """Return what tells the row apart, without the characters that end a tag."""
    return re.sub(r"[^\w().=+-]+", "_", f"{way(row)}: {group_title(row)}")
