"""Writes a report: one HTML page and its JSON beside it.

Rule 1: a page is a function of the result alone, so equal results give equal bytes and an old JSON can be drawn again.
Rule 2: the order is the reader's: verdict, what it loses too, table, charts, where shm does not win, how it was done.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lucky_transport.errors import ConfigError

__all__ = ["write_bench", "write_demo"]

Result = Mapping[str, Any]


def write_bench(result: Result, directory: Path) -> Path:
    """Write `bench.html` and `bench.json` into `directory` and return the page's path.

    Raises ConfigError when the directory cannot be written.
    """
    if result.get("suite") == "commands":
        from lucky_transport_migration.commands.page import commands_page

        return _write(result, commands_page(result), directory, "bench")
    from lucky_transport_migration.report_bench import bench_page

    return _write(result, bench_page(result), directory, "bench")


def write_demo(result: Result, directory: Path) -> Path:
    """Write `demo.html` and `demo.json` into `directory` and return the page's path.

    Raises ConfigError when the directory cannot be written.
    """
    from lucky_transport_migration.report_demo import demo_page

    return _write(result, demo_page(result), directory, "demo")


def _write(result: Result, page: str, directory: Path, name: str) -> Path:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        (directory / f"{name}.json").write_text(json.dumps(result, indent=1, allow_nan=False) + "\n", encoding="utf-8")
        path = directory / f"{name}.html"
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        raise ConfigError(
            f"report directory {str(directory)!r}: {error.strerror}", hint="pass a writable one with --report"
        ) from error
    return path
