"""The pieces of an HTML page: one file, no scripts, nothing loaded from anywhere.

Text goes through `escape` here and nowhere else; what is already HTML has the type `Html`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import Any

from lucky_transport_migration.bench.drawing import Chart

__all__ = [
    "Html",
    "definitions",
    "details",
    "document",
    "figure",
    "items",
    "numbers",
    "paragraph",
    "section",
    "table",
    "word",
]


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def html(value: Any) -> str:
    """Return `value` as HTML: as it is when it is Html, else escaped."""
    return value if isinstance(value, Html) else escape(str(value))


def document(title: str, parts: Iterable[str]) -> str:
    """Return a whole page."""
    css = files("lucky_transport_migration.bench").joinpath("style.css").read_text(encoding="utf-8")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width,initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{escape(title)}</title>\n<style>\n{css}\n</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(parts)
        + "\n</main>\n</body>\n</html>\n"
    )


def section(title: str, *parts: str) -> Html:
    """Return a titled part of the page."""
    return Html(f"<section>\n<h2>{escape(title)}</h2>\n" + "\n".join(parts) + "\n</section>")


def paragraph(text: Any, style: str = "") -> Html:
    """Return a paragraph of class `style`."""
    return Html(f'<p class="{style}">{html(text)}</p>' if style else f"<p>{html(text)}</p>")


def items(texts: Iterable[Any]) -> Html:
    """Return a list."""
    return Html("<ul>\n" + "\n".join(f"<li>{html(text)}</li>" for text in texts) + "\n</ul>")


def numbers(pairs: Iterable[tuple[str, str]]) -> Html:
    """Return big numbers, each with what it means below it."""
    body = "".join(f"<li><b>{escape(number)}</b><span>{escape(meaning)}</span></li>" for number, meaning in pairs)
    return Html(f'<ul class="numbers">{body}</ul>')


_SHAPES = {"good": "✓", "bad": "✗", "open": "○"}


def word(text: str, kind: str) -> Html:
    """Return a word of a verdict ("good", "bad" or "open"), told by word and shape before colour."""
    return Html(f'<span class="word {kind}">{_SHAPES[kind]} {escape(text)}</span>')


def table(heads: Sequence[Any], rows: Iterable[Sequence[Any] | str]) -> Html:
    """Return a table; a row that is a text alone is a heading of the rows below it."""
    head = "".join(f'<th scope="col">{html(one)}</th>' for one in heads)
    body: list[str] = []
    for row in rows:
        if isinstance(row, str):
            body.append(f'<tr class="group"><td colspan="{len(heads)}">{html(row)}</td></tr>')
        else:
            body.append("<tr>" + "".join(f"<td>{html(cell)}</td>" for cell in row) + "</tr>")
    inner = "\n".join(body)
    return Html(
        f'<div class="scroll"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{inner}\n</tbody>\n</table></div>'
    )


def figure(chart: Chart) -> Html:
    """Return a chart with its title and one line that says how to read it."""
    caption = f"<figcaption>{escape(chart.title)}<small>{escape(chart.caption)}</small></figcaption>"
    return Html(f'<figure>{caption}<img src="{chart.source}" alt="{escape(chart.sentence)}"></figure>')


def details(summary: str, *parts: str) -> Html:
    """Return a part that is closed until the reader opens it."""
    return Html(f"<details><summary>{escape(summary)}</summary>\n" + "\n".join(parts) + "\n</details>")


def definitions(pairs: Mapping[str, Any]) -> Html:
    """Return names with their values."""
    return Html("<dl>" + "".join(f"<dt>{escape(k)}</dt><dd>{html(v)}</dd>" for k, v in pairs.items()) + "</dl>")
