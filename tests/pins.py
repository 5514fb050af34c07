"""What pins the product: names that tests import from inside packages, and sentences that they compare word by word.

    python -m tests.pins [--by-file]

A name counts once for each file that imports it, if its module is neither a package nor in the reference of the API
(`:::` in docs/reference). A sentence is the text of a `match=`, or a literal of 25 characters and three spaces that is
compared by `==` or `in`.
"""

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

_ROOT = Path(__file__).parents[1]
_SOURCES = (_ROOT, _ROOT / "migration", _ROOT / "plugins")


def _documented() -> set[str]:
    pages = "\n".join(page.read_text() for page in (_ROOT / "docs" / "reference").rglob("*.md"))
    return set(re.findall(r"^::: (\S+)", pages, re.MULTILINE))


def _is_inner(module: str, documented: set[str]) -> bool:
    path = f"{module.replace('.', '/')}.py"
    return module not in documented and any((source / path).exists() for source in _SOURCES)


def _pins(tree: ast.AST, documented: set[str]) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("lucky_transport"):
            yield from ["names"] * (len(node.names) if _is_inner(node.module, documented) else 0)
        elif isinstance(node, ast.keyword) and node.arg == "match":
            yield "match="
        elif isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Eq | ast.In):
            where = "in str(...)" if isinstance(node.ops[0], ast.In) else "=="
            yield from [where] * sum(_is_sentence(one) for one in (node.left, *node.comparators))


def _is_sentence(node: ast.expr) -> bool:
    text = node.value if isinstance(node, ast.Constant) else None
    return isinstance(text, str) and len(text) >= 25 and text.count(" ") >= 3


def main() -> None:
    documented, whole = _documented(), Counter[str]()
    for file in sorted((_ROOT / "tests").rglob("*.py")):
        found = Counter(_pins(ast.parse(file.read_text(encoding="utf-8")), documented))
        whole += found
        if found and "--by-file" in sys.argv:
            print(f"{found.total():5} {file.relative_to(_ROOT)}: {dict(found)}")
    sentences = whole.total() - whole["names"]
    print(f"{whole['names']} names of inner modules; {sentences} sentences: {dict(whole)}")


if __name__ == "__main__":
    main()
