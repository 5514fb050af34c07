"""Import statements, with names taken out and others put in their place.

Comments above and behind a statement stay with the first of what takes its place.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import libcst as cst

__all__ = ["Import", "bound_name", "import_lines"]

Import = cst.Import | cst.ImportFrom


def bound_name(alias: cst.ImportAlias) -> str:
    """Return the name by which a file knows what it imports: "grpc.aio" for `import grpc.aio`."""
    return alias.evaluated_alias or alias.evaluated_name


def import_lines(
    line: cst.CSTNode, gone: Collection[str], added: Sequence[str]
) -> cst.CSTNode | cst.RemovalSentinel | cst.FlattenSentinel[cst.BaseStatement]:
    """Return a line of imports without the names `gone`, and the statements `added` behind it or in its place."""
    assert isinstance(line, cst.SimpleStatementLine)
    kept = [small for statement in line.body if (small := _without(statement, gone)) is not None]
    new = [cst.ensure_type(cst.parse_statement(text), cst.SimpleStatementLine) for text in added]
    if kept:
        kept[-1] = kept[-1].with_changes(semicolon=cst.MaybeSentinel.DEFAULT)
        return cst.FlattenSentinel([line.with_changes(body=kept), *new])
    if not new:
        return cst.RemoveFromParent()
    dress = {"leading_lines": line.leading_lines, "trailing_whitespace": line.trailing_whitespace}
    return cst.FlattenSentinel([new[0].with_changes(**dress), *new[1:]])


def _without(statement: cst.BaseSmallStatement, gone: Collection[str]) -> cst.BaseSmallStatement | None:
    """Return a statement without the imported names `gone`, None when nothing is left of it."""
    if not isinstance(statement, cst.Import | cst.ImportFrom) or isinstance(statement.names, cst.ImportStar):
        return statement
    names = [alias for alias in statement.names if bound_name(alias) not in gone]
    if len(names) == len(statement.names):
        return statement
    if not names:
        return None
    if names[-1] is not statement.names[-1]:
        names[-1] = names[-1].with_changes(comma=statement.names[-1].comma)
    return statement.with_changes(names=names)
