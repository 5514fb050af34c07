"""Python source as LibCST sees it.

What Python itself refuses never reaches LibCST, whose parser overruns the stack where a file nests too deeply. Bytes
that are not touched come back as they were: encoding, line ends, comments, blanks.
"""

from __future__ import annotations

import ast
import warnings

import libcst as cst

__all__ = ["Unreadable", "check_syntax", "parse"]

_FLAGS = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT  # cells of notebooks await at the top


class Unreadable(Exception):
    """A file that cannot be understood; `line` is where, 1 when unknown."""

    def __init__(self, why: str, line: int = 1) -> None:
        super().__init__(why)
        self.line = line


def check_syntax(source: str | bytes) -> None:
    """Return when `source` is Python. Raises Unreadable, which says what is wrong and in which line."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an invalid escape in a user's file does not matter here
            compile(source, "<source>", "exec", flags=_FLAGS, dont_inherit=True)
    except SyntaxError as error:
        raise Unreadable(f"is no Python 3: {error.msg}", error.lineno or 1) from error
    except (RecursionError, MemoryError) as error:
        raise Unreadable("nests too deeply for Python") from error
    except ValueError as error:  # a zero byte, a lone surrogate
        raise Unreadable(f"is no Python 3: {error}") from error


def parse(source: str | bytes) -> cst.Module:
    """Return the syntax tree of `source`. Raises Unreadable."""
    check_syntax(source)
    try:
        return cst.parse_module(source)
    except cst.ParserSyntaxError as error:
        raise Unreadable("is Python that LibCST cannot read", error.editor_line) from error
    except (RecursionError, SyntaxError, UnicodeError, LookupError) as error:  # it looks for the encoding by itself
        raise Unreadable(f"is Python that LibCST cannot read: {type(error).__name__}") from error
