"""Writes a report: one HTML page and, beside it, its JSON and its Markdown.

A page is a function of the result alone, so equal results give equal bytes and an old JSON can be drawn again. The
order is the reader's: verdict, table, charts, where shm does not win, what changed, how it was done.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lucky_transport.errors import ConfigError

__all__ = ["write_bench", "write_demo"]

Result = Mapping[str, Any]


def write_bench(result: Result, directory: Path) -> Path:
    """Write `bench.html`, `bench.json` and `report.md` into `directory` and return the page's path.

    Raises ConfigError when the directory cannot be written.
    """
    from lucky_transport_migration.bench.bench_page import bench_page
    from lucky_transport_migration.bench.markdown import bench_markdown

    _make_directory(directory)
    return _write(result, directory, "bench", {"bench.html": bench_page(result), "report.md": bench_markdown(result)})


def write_demo(result: Result, directory: Path) -> Path:
    """Write `demo.html` and `demo.json` into `directory` and return the page's path.

    Raises ConfigError when the directory cannot be written.
    """
    from lucky_transport_migration.bench.report_demo import demo_page

    _make_directory(directory)
    return _write(result, directory, "demo", {"demo.html": demo_page(result)})


def _make_directory(directory: Path) -> None:
    """Make the directory before anything is drawn, which takes seconds."""
    with _named(directory):
        directory.mkdir(parents=True, exist_ok=True)


def _write(result: Result, directory: Path, name: str, texts: dict[str, str]) -> Path:
    """Write the texts and the result's JSON, and return the path of the page."""
    texts[f"{name}.json"] = json.dumps(result, indent=1, allow_nan=False) + "\n"
    with _named(directory):
        for file, text in texts.items():
            (directory / file).write_text(text, encoding="utf-8")
    return directory / f"{name}.html"


@contextmanager
def _named(directory: Path) -> Generator[None]:
    """Turn what the system refuses into a ConfigError that names the directory."""
    try:
        yield
    except OSError as error:
        raise ConfigError(
            f"report directory {str(directory)!r}: {error.strerror}", hint="pass a writable one with --report"
        ) from error
