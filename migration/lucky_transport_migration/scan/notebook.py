"""The code cells of a notebook as one Python source, with the way back to the lines of the file.

A line of the shell or a magic is no Python: it is kept apart, and a `pass` stands for it. A cell that is no Python does
not hide the others.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from lucky_transport_migration.scan.names import Unreadable, parse


@dataclass
class Notebook:
    """source: the Python of all cells. lines: the line of the file of each line of it.

    commands: (line of the file, text) of what goes to a shell. broken: cells that are no Python: line, why.
    """

    source: str = ""
    lines: list[int] = field(default_factory=list[int])
    commands: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    broken: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])

    def line(self, line_of_source: int) -> int:
        """Return where a line of `source` stands in the file."""
        return self.lines[min(line_of_source, len(self.lines)) - 1] if self.lines else 1


def read_notebook(text: str) -> Notebook:
    """Return the code of a notebook. Raises Unreadable for what is none."""
    try:
        cells = json.loads(text)["cells"]
        codes = [_lines_of(cell) for cell in cells if cell["cell_type"] == "code"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise Unreadable("is no notebook: it has no cells as JSON") from error
    notebook, place = Notebook(), _Place(text)
    for lines in codes:
        numbers = [place.next_line_of(line) for line in lines]
        _add_cell(notebook, [line.rstrip("\n") for line in lines], numbers)
    return notebook


def _lines_of(cell: dict[str, Any]) -> list[str]:
    source = cell["source"]
    if isinstance(source, str):
        return source.splitlines(keepends=True)
    if not all(isinstance(line, str) for line in source):
        raise TypeError("source")
    return [part for line in source for part in line.splitlines(keepends=True)]


def _add_cell(notebook: Notebook, lines: list[str], numbers: list[int]) -> None:
    is_foreign = bool(lines) and lines[0].startswith("%%")
    python = list(_python_lines(lines)) if not is_foreign else ["pass"] * len(lines)
    for number, line, kept in zip(numbers, lines, python, strict=True):
        if kept != line or is_foreign:
            notebook.commands.append((number, line))
    text = "\n".join(python)
    try:
        parse(text)
    except Unreadable as error:
        where = numbers[min(error.line, len(numbers)) - 1] if numbers else 1
        notebook.broken.append((where, f"has a cell that {error}"))
        return
    if lines:
        notebook.source += f"{text}\n"
        notebook.lines += numbers


def _python_lines(lines: list[str]) -> Iterator[str]:
    for line in lines:
        code = line.lstrip()
        yield f"{line[: len(line) - len(code)]}pass" if code.startswith(("%", "!", "?")) else line


class _Place:
    """Where the lines of cells stand in the text of the file: each is looked for behind the one before."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0
        self._line = 1

    def next_line_of(self, line: str) -> int:
        """Return the line of the file in which `line` stands next; the last one found when it is not there."""
        for ascii_only in (False, True):
            encoded = json.dumps(line, ensure_ascii=ascii_only)[1:-1]
            found = self._text.find(encoded, self._position) if encoded else -1
            if found >= 0:
                self._line += self._text.count("\n", self._position, found)
                self._position = found
                break
        return self._line
