"""What a command prints for a person: a verdict, then tables.

The sentences come from the result, so the report and the JSON say the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lucky_transport.cli.tables import echo, show
from lucky_transport_migration.bench import parts
from lucky_transport_migration.bench.reading import headlines

__all__ = ["show_bench", "without_histograms"]


def without_histograms(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return a result without the encoded histograms, which only a file should hold."""
    return {key: _without(value) for key, value in result.items() if key != "hdr"}


def _without(value: Any) -> Any:
    if isinstance(value, Mapping):
        return without_histograms(value)
    return [_without(one) for one in value] if isinstance(value, list) else value


def show_bench(result: Mapping[str, Any]) -> None:
    """Print a bench's verdict, rows, targets, noise and notes."""
    verdict, parity = result["verdict"], result.get("parity")
    if parity:
        echo(parity["sentence"], bold=True, fg="green" if parity["equal"] else "red")
    echo(f"{verdict['word']}  {verdict['sentence']}", bold=True)
    for sentence in (*verdict["beside"], *(one["sentence"] for one in headlines(result))):
        echo(sentence)
    echo()
    tables = [
        *parts.rows_by_group(result["rows"], result),
        *parts.targets(result),
    ]
    for one in tables:
        show(one.title, ("", *one.heads), one.rows, numbers=True)
    for note in (*([result["noise_floor"]["sentence"]] if result["noise_floor"] else ()), *result["notes"]):
        echo(note, dim=True)
