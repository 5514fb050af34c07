"""Pages of what `signoff` says of programs: one for each, and an index made of their first lines."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lucky_transport.errors import plural
from lucky_transport.messages.names import short_name
from lucky_transport_migration.table import escaped
from tests.programs.programs import ROOT, Program
from tests.programs.sign_off import SignOff

__all__ = ["SIGN_OFFS", "verdict", "write_index", "write_page"]

SIGN_OFFS = ROOT / "docs" / "explanation" / "sign-offs"

_BETWEEN = re.compile(r"(?<=<!-- python -m tests.programs --sign-off -->\n).*?(?=<!-- end -->)", re.DOTALL)
_MOST_CHARACTERS = 400
_HEAD = re.compile(r"# (?P<name>.*): (?P<word>[A-Z ]+)\n\n(?P<sums>.*)\n")


def write_page(program: Program, done: SignOff, folder: Path) -> Path:
    """Write the program's page into the folder, and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    page = folder / f"{program.case}.md"
    page.write_text(_page(program, done), encoding="utf-8")
    return page


def _page(program: Program, done: SignOff) -> str:
    compared, bad, failed = (sum(one[key] for one in done.methods) for key in ("compared", "mismatches", "failures"))
    ready = sum(not one["reasons"] for one in done.methods)
    lines = [
        f"# {program.title}: {done.word}",
        "",
        f"{ready:,} of {plural(len(done.methods), 'method')} ready; {plural(compared, 'call')} compared;"
        f" {bad + failed:,} differed or failed; {datetime.date.today():%-d %b %Y}.",
        "",
        *(f"- {escaped(one)}" for one in done.said),
    ]
    if done.methods:
        lines += [
            "",
            "| method | verdict | compared | distinct requests | differed or failed |",
            "|---|---|---|---|---|",
        ]
        lines += map(_row, done.methods)
    if whys := [
        f"- {short_name(one['method'])}: {'; '.join(map(_short, one['reasons']))}"
        for one in done.methods
        if one["reasons"]
    ]:
        lines += ["", "What holds it back:", "", *map(escaped, whys)]
    return "\n".join([*lines, ""])


def _row(one: Mapping[str, Any]) -> str:
    bad = one["mismatches"] + one["failures"]
    return f"| {short_name(one['method'])} | {one['verdict']} | {one['compared']:,} | {one['distinct']:,} | {bad:,} |"


def _short(text: str) -> str:
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]} …"


def verdict(program: Program, folder: Path) -> str:
    """Return the word of the program's page as a link from beside the folder, "-" where there is none."""
    page = folder / f"{program.case}.md"
    head = _HEAD.match(page.read_text(encoding="utf-8")) if page.exists() else None
    return f"[{head['word']}]({folder.name}/{page.name})" if head else "-"


def write_index(found: Sequence[Program], folder: Path) -> None:
    """Put a table of the programs that have a page into the folder's index.md, in place of the one that it has."""
    rows = ["| program | verdict | |", "|---|---|---|"]
    for page in (folder / f"{program.case}.md" for program in found):
        if page.exists() and (head := _HEAD.match(page.read_text(encoding="utf-8"))):
            rows.append(f"| [{head['name']}]({page.name}) | {head['word']} | {head['sums']} |")
    index = folder / "index.md"
    text = index.read_text(encoding="utf-8")
    index.write_text(_BETWEEN.sub(lambda _: "\n" + "\n".join([*rows, "", ""]), text), encoding="utf-8")
