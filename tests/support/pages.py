"""The pages of the documentation, and the blocks of code on them.

A block of the language `text` shows what something prints, or what no test can run; any other one is tested.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
README = ROOT / "README.md"

_FENCED = re.compile(r"^( *)```(\w*)(?: title=\"([^\"]*)\")?\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block: where it is, its language, the name of the file that it is ("" where it is none), its text."""

    page: Path
    line: int
    language: str
    title: str
    text: str

    @property
    def place(self) -> str:
        """`docs/how-to/images.md:12`, as tracebacks and failures name it."""
        return f"{name_of(self.page)}:{self.line}"


def pages() -> list[Path]:
    """Return all pages that users read from top to bottom: README, docs/, and what GitHub shows beside them."""
    return [README, ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *sorted(DOCS.rglob("*.md"))]


def name_of(page: Path) -> str:
    """Return the path of a page in the repository."""
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path, *languages: str) -> list[Block]:
    """Return the fenced blocks of a page, of these languages or of all."""
    text = page.read_text(encoding="utf-8")
    found = [
        Block(page, text.count("\n", 0, match.start()) + 1, match[2], match[3] or "", match[4])
        for match in _FENCED.finditer(text)
    ]
    return [block for block in found if not languages or block.language in languages]


def shell_lines(text: str) -> Iterator[str]:
    """Yield the commands of a shell block, one by one, without comments; what is joined by `&&` is several."""
    for line in re.sub(r"\\\n\s*", "", text).splitlines():
        if line.lstrip().startswith("#"):
            continue
        for part in re.split(r" && | & ?", line):
            if command := part.partition(" #")[0].strip():
                yield command


def table(page: Path, heading: str) -> dict[str, list[str]]:
    """Return the table whose header row starts with `heading`: first cell -> the other cells, without backticks."""
    rows: dict[str, list[str]] = {}
    lines = iter(page.read_text(encoding="utf-8").splitlines())
    header = next(line for line in lines if line.startswith(f"| {heading} |"))
    next(lines)
    for line in lines:
        if not line.startswith("|"):
            break
        first, *others = (cell.strip().replace("`", "") for cell in line.strip("|").split("|"))
        assert len(others) + 1 == header.count("|") - 1, line
        rows[first] = others
    return rows
