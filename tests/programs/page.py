"""The tables of what the programs gave, as Markdown, and pages of what `signoff` says of each, with their index."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import mean
from typing import Any

from lucky_transport.errors import plural
from lucky_transport.messages.method import short_name
from lucky_transport_migration.table import escaped
from tests.programs.programs import ROOT, Program
from tests.programs.sides import Outcome
from tests.programs.sign_off import SignOff

_PAGE = ROOT / "docs" / "explanation" / "programs.md"
_BETWEEN = re.compile(r"(?<=<!-- python -m tests.programs --page -->\n).*?(?=<!-- end -->)", re.DOTALL)
#: Where two of the pages are kept, as examples.
EXAMPLES = _PAGE.parent / "sign-offs"

_MOST_CHARACTERS = 400
_HEAD = re.compile(r"# (?P<name>.*): (?P<word>[A-Z ]+)\n\n(?P<sums>.*)\.\n")


@dataclass(frozen=True, slots=True)
class Row:
    """What came of one program: outcomes over TCP and over shared memory, or why there are none; made: when."""

    program: Program
    made: str = field(default_factory=lambda: f"{datetime.date.today():%-d %b %Y}")
    over_tcp: Sequence[Outcome] = field(default_factory=list[Outcome])
    over_shm: Sequence[Outcome] = field(default_factory=list[Outcome])
    left_out: str = ""
    failure: str = ""

    @classmethod
    def of(cls, program: Program, outcomes: Sequence[tuple[bool, Outcome]]) -> Row:
        """Return the row of these outcomes; `failure` says what differs."""
        tcp, shm = ([outcome for is_shm, outcome in outcomes if is_shm is wanted] for wanted in (False, True))
        failure = next((difference for one in [*tcp, *shm] if (difference := _difference(tcp[0].equal, one.equal))), "")
        if not failure and any(one.over_grpc or not one.over_shm for one in shm):
            failure = f"calls over shared memory: {shm[0].over_shm}, over gRPC: {shm[0].over_grpc}"
        return cls(program, over_tcp=tcp, over_shm=shm, failure=failure)

    @property
    def verdict(self) -> str:
        """The row in a line, for a person who waits."""
        return self.left_out or self.failure or f"equal, {self.over_shm[0].over_shm:,} calls over shared memory"


def _difference(wanted: Any, got: Any) -> str:
    """Return the first part in which two answers differ, "" where they are equal."""
    if wanted == got:
        return ""
    if isinstance(wanted, dict) and isinstance(got, dict) and wanted.keys() == got.keys():
        return next(f"{key}: {_difference(wanted[key], got[key])}" for key in wanted if wanted[key] != got[key])
    return f"{json.dumps(wanted)[:200]} != {json.dumps(got)[:200]}"


def save(row: Row, folder: Path) -> None:
    """Keep what came of a program, without its answers, for `saved`."""
    folder.mkdir(parents=True, exist_ok=True)
    outcomes = {
        name: [asdict(replace(one, equal=None)) for one in getattr(row, name)] for name in ("over_tcp", "over_shm")
    }
    kept = {"asked": row.program.asked, "made": row.made, "left_out": row.left_out, "failure": row.failure} | outcomes
    (folder / f"{row.program.case}.json").write_text(json.dumps(kept, indent=2))


def saved(found: Sequence[Program], folder: Path) -> list[Row]:
    """Return what was kept of these programs, at the versions that the table has now."""
    rows: list[Row] = []
    for program in found:
        file = folder / f"{program.case}.json"
        kept = json.loads(file.read_text()) if file.exists() else {}
        if kept.pop("asked", None) == program.asked:
            tcp, shm = ([Outcome(**one) for one in kept.pop(name)] for name in ("over_tcp", "over_shm"))
            rows.append(Row(program, over_tcp=tcp, over_shm=shm, **kept))
    return rows


def table(rows: Sequence[Row], page: str = "") -> str:
    """Return the tables: what was run, and what is faster. page: the text that says what was signed off."""
    lines = [
        "| program | what was run | changed lines | equal | calls over shared memory / over gRPC | on | signed off |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        program = row.program
        answer = "**no**" if row.failure else ("not run: " + row.left_out if row.left_out else "yes")
        calls = f"{row.over_shm[0].over_shm:,} / {row.over_shm[0].over_grpc:,}" if row.over_shm else "-"
        signed = found[2] if (found := re.search(_row(program), page, re.MULTILINE)) else "-"
        lines.append(f"| {program.title} | {program.what} | 0 | {answer} | {calls} | {row.made} | {signed} |")
    timed = [row for row in rows if row.over_shm and row.over_shm[0].p50_us]
    if timed:
        lines += [
            "",
            "| program | small call p50: TCP, shm | | its loop, per second: TCP, shm | |"
            " CPU seconds, client + server: TCP, shm | remark |",
            "|---|---|---|---|---|---|---|",
        ]
        lines += [_times(row) for row in timed]
    return "\n".join(lines) + "\n"


def _times(row: Row) -> str:
    def of(name: str) -> tuple[float, float]:
        return mean(getattr(one, name) for one in row.over_tcp), mean(getattr(one, name) for one in row.over_shm)

    (slow, quick), (before, after) = of("p50_us"), of("rounds_per_s")
    (client, client_shm), (server, server_shm) = of("client_cpu_s"), of("server_cpu_s")
    return (
        f"| {row.program.name} | {slow:,.0f} µs, {quick:,.0f} µs | {slow / quick:.2f}× |"
        f" {row.program.loop}: {before:,.0f}, {after:,.0f} | {after / before:.2f}× |"
        f" {client:.2f} + {server:.2f}, {client_shm:.2f} + {server_shm:.2f} | {row.program.remark} |"
    )


def write(rows: Sequence[Row]) -> None:
    """Put the tables into the page, in place of those that it has."""
    page = _PAGE.read_text(encoding="utf-8")
    _PAGE.write_text(_BETWEEN.sub(lambda _: "\n" + table(rows, page) + "\n", page), encoding="utf-8")


def tell_sign_offs(found: Sequence[Program], folder: Path, page: Path = _PAGE) -> None:
    """Put the first line of each page of `signoff` in the folder into the last column of the first table."""
    text = page.read_text(encoding="utf-8")
    for program in found:
        if said := verdict(program, folder):
            text = re.sub(_row(program), rf"\g<1>{said} |", text, count=1, flags=re.MULTILINE)
    page.write_text(text, encoding="utf-8")


def _row(program: Program) -> str:
    return rf"^(\| {re.escape(program.title)} \|.*\| )([^|]*) \|$"


def write_page(program: Program, done: SignOff, folder: Path) -> Path:
    """Write the program's page into the folder, and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    page = folder / f"{program.case}.md"
    page.write_text(_sign_off(program, done), encoding="utf-8")
    return page


def _sign_off(program: Program, done: SignOff) -> str:
    compared, bad, failed = (sum(one[key] for one in done.methods) for key in ("compared", "mismatches", "failures"))
    ready, made = sum(not one["reasons"] for one in done.methods), f"{datetime.date.today():%-d %b %Y}"
    lines = [
        f"# {program.title}: {done.word}",
        "",
        f"{ready:,} of {plural(len(done.methods), 'method')} ready; {plural(compared, 'call')} compared;"
        f" {'; '.join([f'{bad + failed:,} differed or failed', made, *map(escaped, done.reasons)])}.",
        "",
        *(f"- {escaped(one)}" for one in done.said),
    ]
    if done.methods:
        lines += [
            "",
            "| method | verdict | compared | distinct accepted requests | differed or failed |",
            "|---|---|---|---|---|",
        ]
        lines += map(_method, done.methods)
    if whys := [
        f"- {short_name(one['method'])}: {'; '.join(map(_short, one['reasons']))}"
        for one in done.methods
        if one["reasons"]
    ]:
        lines += ["", "What holds it back:", "", *map(escaped, whys)]
    return "\n".join([*lines, ""])


def _method(one: Mapping[str, Any]) -> str:
    bad = one["mismatches"] + one["failures"]
    return f"| {short_name(one['method'])} | {one['verdict']} | {one['compared']:,} | {one['distinct']:,} | {bad:,} |"


def _short(text: str) -> str:
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]} …"


def verdict(program: Program, folder: Path) -> str:
    """Return the first line of the program's page, with a link to an example in its place; "" where there is none."""
    page = folder / f"{program.case}.md"
    head = _HEAD.match(page.read_text(encoding="utf-8")) if page.exists() else None
    if head is None:
        return ""
    word = f"[{head['word']}]({EXAMPLES.name}/{page.name})" if (EXAMPLES / page.name).exists() else head["word"]
    return f"{word}: {head['sums']}"
