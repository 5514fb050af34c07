"""Writes a report: one HTML page, its JSON beside it, and for suites of calls their tables as Markdown.

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

    A suite of calls also has `bench.md`. Raises ConfigError when the directory cannot be written.
    """
    if "suite" in result:
        from lucky_transport_migration.call_suite.markdown import calls_markdown
        from lucky_transport_migration.call_suite.page import calls_page

        return _write(result, directory, "bench", html=calls_page(result), md=calls_markdown(result))
    from lucky_transport_migration.report_bench import bench_page

    return _write(result, directory, "bench", html=bench_page(result))


def write_demo(result: Result, directory: Path) -> Path:
    """Write `demo.html` and `demo.json` into `directory` and return the page's path.

    Raises ConfigError when the directory cannot be written.
    """
    from lucky_transport_migration.report_demo import demo_page

    return _write(result, directory, "demo", html=demo_page(result))


def _write(result: Result, directory: Path, name: str, **texts: str) -> Path:
    """Write each text beside the result's JSON, by its suffix, and return the path of the page."""
    texts["json"] = json.dumps(result, indent=1, allow_nan=False) + "\n"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for suffix, text in texts.items():
            (directory / f"{name}.{suffix}").write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(
            f"report directory {str(directory)!r}: {error.strerror}", hint="pass a writable one with --report"
        ) from error
    return directory / f"{name}.html"
