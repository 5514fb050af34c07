"""Arguments of a call, as they are written."""

from __future__ import annotations

import json

import libcst as cst

__all__ = ["argument", "has_stars", "keyword_argument", "literal", "text_node", "with_arguments"]


def argument(call: cst.Call, position: int, keyword: str) -> cst.Arg | None:
    """Return the argument given at that position or by that keyword; None when it is not there, or not to be seen."""
    for index, one in enumerate(call.args):
        if one.star:
            return None
        if (one.keyword is None and index == position) or (one.keyword is not None and one.keyword.value == keyword):
            return one
    return None


def has_stars(call: cst.Call) -> bool:
    """True when arguments come from a list or a mapping (`*args`, `**options`)."""
    return any(one.star for one in call.args)


def literal(node: cst.BaseExpression) -> str | None:
    """Return the text that a literal stands for, None for any other expression."""
    if not isinstance(node, cst.SimpleString | cst.ConcatenatedString):
        return None
    value = node.evaluated_value
    return value if isinstance(value, str) else None


def text_node(text: str) -> cst.SimpleString:
    """Return the literal of a text, in double quotes."""
    return cst.SimpleString(json.dumps(text))


def with_arguments(call: cst.Call, arguments: list[cst.Arg]) -> cst.Call:
    """Return a call with other arguments, laid out as it is: the commas between them, and the one behind the last."""
    if arguments and call.args:
        first, last = call.args[0], call.args[-1]
        between = first.comma if first is not last else cst.MaybeSentinel.DEFAULT
        kept = [one.with_changes(comma=between) if one is last else one for one in arguments[:-1]]
        arguments = [*kept, arguments[-1].with_changes(comma=last.comma)]
    return call.with_changes(args=arguments)


def keyword_argument(name: str, value: cst.BaseExpression) -> cst.Arg:
    """Return `name=value`."""
    tight = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
    return cst.Arg(value, keyword=cst.Name(name), equal=tight)
