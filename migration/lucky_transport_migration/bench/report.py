"""A bench's result as a person reads it: on the terminal, as Markdown, and as a page with its JSON beside it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lucky_transport.cli.tables import echo
from lucky_transport.errors import printable
from lucky_transport_migration.bench import reading
from lucky_transport_migration.paths import label
from lucky_transport_migration.stats import looked_at
from lucky_transport_migration.table import INCONCLUSIVE, bullets, escaped, render, show_tables, tables, write_files

Result = Mapping[str, Any]


def without_histograms(result: Result) -> dict[str, Any]:
    """Return a result without the encoded histograms, which only a file should hold."""
    return {**result, "rows": [{key: value for key, value in row.items() if key != "hdr"} for row in result["rows"]]}


def write_bench(result: Result, directory: Path, name: str = "bench") -> Path:
    """Write `bench.html`, `bench.json` and `report.md` into `directory` and return the page's path.

    The first two are called after `name`. Raises ConfigError when the directory cannot be written.
    """
    write_files(directory, {})  # before anything is drawn, which takes seconds
    texts = {
        f"{name}.html": bench_page(result, f"{name}.json"),
        f"{name}.json": json.dumps(result, indent=1, allow_nan=False) + "\n",
        "report.md": bench_markdown(result),
    }
    write_files(directory, texts)
    return directory / f"{name}.html"


def show_bench(result: Result) -> None:
    """Print a bench's verdict, rows, targets, noise and notes."""
    verdict, parity = result["verdict"], result.get("parity")
    if parity:
        echo(parity["sentence"], bold=True, fg="green" if parity["equal"] else "red")
    echo(f"{verdict['word']}  {verdict['sentence']}", bold=True)
    for sentence in (*verdict["beside"], *(one["sentence"] for one in reading.headlines(result))):
        echo(sentence)
    echo()
    show_tables([*reading.all_rows(result), *reading.targets(result)])
    for note in (*_noise(result), *result["notes"]):
        echo(note, dim=True)


def bench_markdown(result: Result) -> str:
    """Return the text: verdict, the rows at a glance, what is not won, targets, and closed how it was done."""
    verdict, environment = result["verdict"], result["environment"]
    lines = [f"## {escaped(result['title'])}", "", f"**{verdict['word']}** {escaped(verdict['sentence'])}", ""]
    lines += tables(reading.glance(result))
    lines += [escaped(f"Where {label(result['reference'])} does not win:"), "", *bullets(reading.losses(result))]
    lines += tables(reading.targets(result))
    return "\n".join(
        [
            *lines,
            "<details><summary>How this was done</summary>",
            "",
            *bullets([*verdict["beside"], *_noise(result), *result["notes"]])[:-1],
            f"- {escaped(environment['cpu'])}, {environment['usable_cores']} cores, {environment['python']}; "
            f"{reading.rounds_text(result)}",
            f"- `{printable(result['command']).replace('`', chr(39))}`",
            "",
            "</details>",
            "",
        ]
    )


def bench_page(result: Result, raw: str = "bench.json") -> str:
    """Return the page of a bench's result, which lies beside it in the file `raw`."""
    from lucky_transport_migration.bench.charts import charts

    watched = looked_at(result["rows"])
    order = ", in alternating order" if result["rounds"] > 1 else ""
    date = result["environment"]["date"].replace("T", " ").replace("Z", " UTC")
    proven = result.get("parity", {"sentence": ""})["sentence"].partition(": ")[2]
    return render(
        "bench.html",
        title=result["title"],
        about=f"{reading.rounds_text(result)}{order}; measured {date}",
        result=result,
        conclusive=result["verdict"]["word"] != INCONCLUSIVE,
        parity=result.get("parity"),
        proven=f"{proven[:1].upper()}{proven[1:]}",
        lead=reading.lead(result),
        reference=label(result["reference"]),
        numbers=reading.numbers(result),
        beside=[one for one in result["verdict"]["beside"] if one not in watched],
        watched=watched,
        outcomes=reading.outcomes(result),
        glance=reading.glance(result),
        charts=list(charts(result)),
        losses=reading.losses(result),
        targets=reading.targets(result),
        rows=reading.all_rows(result),
        compared=reading.compared(result),
        reading=[*reading.HOW_TO_READ, *result["notes"], *_noise(result)],
        machine={name: value for name, value in result["environment"].items() if name != "versions"},
        versions=result["environment"]["versions"],
        raw=raw,
    )


def _noise(result: Result) -> list[str]:
    return [result["noise_floor"]["sentence"]] if result["noise_floor"] else []
