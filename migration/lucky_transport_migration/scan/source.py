"""Python source as Python itself reads it."""

from __future__ import annotations

import ast
import warnings

_FLAGS = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT  # cells of notebooks await at the top


class Unreadable(Exception):
    """A file that cannot be understood; `line` is where, 1 when unknown."""

    def __init__(self, why: str, line: int = 1) -> None:
        super().__init__(why)
        self.line = line


def parse(source: str | bytes) -> ast.Module:
    """Return the syntax tree of `source`. Raises Unreadable, which says what is wrong and in which line."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an invalid escape in a user's file does not matter here
            return compile(source, "<source>", "exec", flags=_FLAGS, dont_inherit=True)
    except SyntaxError as error:
        raise Unreadable(f"is no Python 3: {error.msg}", error.lineno or 1) from error
    except (RecursionError, MemoryError) as error:
        raise Unreadable("nests too deeply for Python") from error
    except ValueError as error:  # a zero byte, a lone surrogate
        raise Unreadable(f"is no Python 3: {error}") from error
