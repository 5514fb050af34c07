"""The atomic steps that the source has, to compare the step tables with."""

from __future__ import annotations

import re
from pathlib import Path

__all__ = ["NATIVE", "NOT_MODELLED", "atomic_steps", "functions", "normalised", "python_functions"]

NATIVE = Path(__file__).parents[2] / "lucky_transport" / "_native"

_STEP = re.compile(
    r"\b(?:__atomic_(?:load_n|store_n|exchange_n|compare_exchange_n|fetch_add|thread_fence)|load32|load64)\("
)
_FUNCTION = re.compile(r"^(?!typedef|struct|#)[\w *]*?\b(\w+)\([^;{}]*\)\s*\{", re.MULTILINE)

#: Steps on words of this process, or on words that nothing is published by: what they are.
NOT_MODELLED = {
    "load32(w->stop)": "a word of this process",
    "__atomic_load_n(&r->stops, __ATOMIC_ACQUIRE)": "a word of this process",
    "__atomic_store_n(&r->stops, 1, __ATOMIC_RELEASE)": "a word of this process",
    "__atomic_exchange_n(&r->stops, 0, __ATOMIC_ACQ_REL)": "a word of this process",
    "__atomic_store_n(&e->interrupted, 1, __ATOMIC_RELEASE)": "a word of this process",
    "__atomic_exchange_n(&e->interrupted, 0, __ATOMIC_ACQ_REL)": "a word of this process",
    "__atomic_store_n(e->heartbeat, *e->heartbeat + 1, __ATOMIC_RELAXED)": "a sign of life, which publishes nothing",
    "__atomic_load_n(park + 1, __ATOMIC_RELAXED)": "the publisher's CPU: a hint, by which a wait parks sooner",
    "__atomic_store_n(park + 1, cpu, __ATOMIC_RELAXED)": "the same",
    "__atomic_store_n(e->waiter.park + 1, 0, __ATOMIC_RELAXED)": "the same",
    "__atomic_store_n(e->action_seq, e->seq, __ATOMIC_RELEASE)": "resync: the client is dead",
    "__atomic_load_n(p, __ATOMIC_ACQUIRE)": "load32 and load64 themselves",
}


def normalised(text: str) -> str:
    """Return the text with single spaces."""
    return re.sub(r"\s+", " ", text)


def functions() -> dict[str, str]:
    """Return the bodies of all functions of the native module by name, comments left out."""
    found: dict[str, str] = {}
    for path in sorted(NATIVE.glob("*.[ch]")):
        source = re.sub(r"/\*.*?\*/|//[^\n]*", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        for match in _FUNCTION.finditer(source):
            found[match[1]] = normalised(_bracketed(source, match.end() - 1, "{}"))
    return found


def atomic_steps(body: str) -> list[str]:
    """Return the atomic steps of a function's body, as they are written, in their order."""
    return [
        body[match.start() : match.end() - 1] + _bracketed(body, match.end() - 1, "()")
        for match in _STEP.finditer(body)
    ]


def _bracketed(text: str, start: int, brackets: str) -> str:
    depth = 0
    for at in range(start, len(text)):
        depth += (text[at] == brackets[0]) - (text[at] == brackets[1])
        if not depth:
            return text[start : at + 1]
    raise ValueError(f"no end of {text[start : start + 40]!r}")


def python_functions() -> dict[str, str]:
    """Return the sources of the methods of the Python modules that the tables name, as "Class.method"."""
    import ast

    root = NATIVE.parent / "shm"
    found: dict[str, str] = {}
    for path in (root / "slot_files" / "latest_value.py", root / "listener" / "poller.py"):
        source = path.read_text(encoding="utf-8")
        for node in ast.parse(source).body:
            if isinstance(node, ast.ClassDef):
                for part in node.body:
                    if isinstance(part, ast.FunctionDef):
                        lines = source.splitlines()[part.lineno - 1 : part.end_lineno]
                        found[f"{node.name}.{part.name}"] = normalised("\n".join(lines))
    return found
