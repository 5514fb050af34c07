"""The page to sign as HTML, Markdown and JSON; equal results give equal bytes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lucky_transport.errors import printable
from lucky_transport_migration.bench.markdown import bullets, escaped, tables
from lucky_transport_migration.bench.page import render
from lucky_transport_migration.bench.report import write_files
from lucky_transport_migration.signoff import parts

__all__ = ["html", "markdown", "write_pages"]

Result = Mapping[str, Any]

_TITLE = "Sign-off: from gRPC to shared memory"
_TO_SIGN = ("name", "date", "signature")


def write_pages(result: Result, directory: Path) -> Path:
    """Write signoff.html, signoff.md and signoff.json into `directory` and return the page's path.

    Raises ConfigError when the directory cannot be written.
    """
    texts = {
        "signoff.html": html(result),
        "signoff.md": markdown(result),
        "signoff.json": json.dumps(result, indent=1, allow_nan=False) + "\n",
    }
    write_files(directory, texts)
    return directory / "signoff.html"


def html(result: Result) -> str:
    """Return the page of a result."""
    environment = result["environment"]
    return render(
        "signoff.html",
        title=_TITLE,
        about=_about(result),
        word=result["word"],
        lead=list(map(printable, parts.lead(result))),
        numbers=parts.numbers(result),
        glance=parts.glance(result),
        methods=[
            (printable(one["method"]), one["verdict"], said, printable(one["back"]))
            for one, said in parts.details(result)
        ],
        not_looked_at=parts.not_looked_at(result),
        history=parts.history(result),
        programs=parts.programs(result),
        unnamed=result["unnamed"],
        way_back=parts.way_back(result),
        limits=parts.limits(result),
        to_sign=_TO_SIGN,
        machine={name: value for name, value in environment.items() if name != "versions"},
        versions=environment["versions"],
    )


def markdown(result: Result) -> str:
    """Return the same as Markdown, to be pasted into a pull request."""
    first, *others = parts.lead(result)
    lines = [f"# {_TITLE}", "", escaped(_about(result)), "", f"**{result['word']}** {escaped(first)}", ""]
    lines += [line for one in others for line in (escaped(one), "")] + tables(parts.glance(result))
    for one, said in parts.details(result):
        lines += [f"## {escaped(one['method'])}: {one['verdict'].lower()}", ""]
        lines += bullets(f"{name}: {what if isinstance(what, str) else '; '.join(what)}" for name, what in said.items())
        lines[-1:] = [f"- sends it back: {_code(one['back'])}", ""] if one["back"] else [""]
    sections = {
        "What was compared, and what was not": parts.not_looked_at(result),
        "Sent back on the way": parts.history(result),
        "Who may turn it back, and how": parts.way_back(result),
        "Signed": [f"{one}:" for one in _TO_SIGN],
    }
    for title, texts in sections.items():
        lines += [f"## {title}", "", *bullets(texts)] if texts else []
    lines += ["## Limits of the gate", "", "```toml", parts.limits(result), "```", ""]
    lines += ["## Programs", "", *(f"- {_code(command)}: {escaped(what)}" for command, what in parts.programs(result))]
    return "\n".join([*lines, ""])


def _code(text: object) -> str:
    return f"`{printable(text).replace('`', chr(39))}`"


def _about(result: Result) -> str:
    commit = f"commit {result['commit']}" if result["commit"] else "no git checkout"
    date = result["date"][:19].replace("T", " ")
    return printable(f"{date} UTC; {commit}; stages of {result['file']}, evidence in {result['folder']}")
