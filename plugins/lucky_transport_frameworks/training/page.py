"""A training's page: one HTML file, no scripts, nothing loaded from anywhere. The numbers lie beside it as JSON."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from PIL import Image

from lucky_transport_frameworks.training import charts
from lucky_transport_frameworks.training.share import share

__all__ = ["training_page", "write_page"]

Result = Mapping[str, Any]

#: The sheet of all pictures: so many in a row, so many pixels wide.
_COLUMNS, _SHEET_WIDTH = 4, 960

#: Reward terms that say how well the robot walks, and what the page calls them.
_TERMS = {"track_lin_vel_xy": "speed", "track_ang_vel_z": "turning", "gait": "gait"}


def write_page(result: Result, folder: Path) -> Path:
    """Write training.html and training.json into `folder`, and walking.jpg where the engine has a camera.

    Returns the page's path.
    """
    folder.mkdir(parents=True, exist_ok=True)
    page = folder / "training.html"
    page.write_text(training_page(result), encoding="utf-8")
    if result["pictures"]:
        _contact_sheet(result["pictures"]).save(folder / "walking.jpg", quality=85)
    plain = {name: value for name, value in result.items() if name != "pictures"}
    (folder / "training.json").write_text(json.dumps(plain, indent=1), encoding="utf-8")
    return page


def training_page(result: Result) -> str:
    """Return the page of a training's result."""
    title = f"{result['engine']}: learning to walk over shared memory and gRPC"
    css = files("lucky_transport_frameworks.training").joinpath("style.css").read_text(encoding="utf-8")
    light, dark = ("".join(f"--{name}:{pair[theme]};" for name, pair in charts.COLOURS.items()) for theme in (0, 1))
    about = (
        f"PPO on the CPU, {result['num_envs']} envs, {result['updates']:,} updates over {result['transport']}, "
        f"seed {result['seed']}; {result['measured_at']}"
    )
    parts = [
        f"<header><h1>{escape(title)}</h1><p>{escape(about)}</p></header>",
        _verdict(result),
        _strip(result),
        "<h2>Curves and times</h2>",
        f'<div class="charts">{"".join(_charts(result))}</div>',
        _table(result) if result["comparison"] else "",
        _notes(result),
    ]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width,initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>\n{css}:root{{{light}}}"
        f"@media (prefers-color-scheme:dark){{:root{{{dark}}}}}\n</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(parts)
        + "\n</main>\n</body>\n</html>\n"
    )


def _verdict(result: Result) -> str:
    first, *others = result["verdict"]
    mark = ""
    if result["comparison"]:
        word, kind = ("✓ EQUAL", "good") if result["equal"] else ("✗ DIFFERENT", "bad")
        _, _, text = others[0].partition(": ")
        mark = f'<p><span class="word {kind}">{word}</span> {escape(text[:1].upper() + text[1:])}</p>'
    rate = result["env_steps"] / result["seconds"]
    pairs = [
        (f"{result['evaluated'] / result['still']:.2f}×", "the reward of standing still"),
        (f"{result['evaluated']:.2f}", "reward of a step, without noise"),
        (f"{result['seconds']:.0f} s", f"for {result['env_steps']:,} env steps, learning included"),
        (f"{rate:,.0f}", "env steps a second, learning included"),
    ]
    numbers = "".join(f"<li><b>{escape(number)}</b><span>{escape(text)}</span></li>" for number, text in pairs)
    return f'<div class="card"><p class="lead">{escape(first)}</p>{mark}<ul class="numbers">{numbers}</ul></div>'


def _strip(result: Result) -> str:
    images = result["pictures"]
    if not images:
        return ""
    apart_s = 0.02 * result["picture_steps"]
    cells = "".join(
        f'<img src="{_data_url(image)}" alt="The robot {number * apart_s:.2f} s into the sequence" '
        f'width="{image.shape[1]}" height="{image.shape[0]}">'
        for number, image in enumerate(images)
    )
    title = "One robot under the policy"
    caption = f"{apart_s:.2f} s from image to image, {len(images) * apart_s:.1f} s in all: about one cycle of its gait."
    return f'<figure><figcaption>{title}<small>{caption}</small></figcaption><div class="strip">{cells}</div></figure>'


def _contact_sheet(images: Sequence[Any]) -> Image.Image:
    """Return all images as one, side by side in rows, from left to right and top to bottom."""
    height, width = images[0].shape[:2]
    rows = -(-len(images) // _COLUMNS)
    sheet = Image.new("RGB", (_COLUMNS * width, rows * height))
    for number, image in enumerate(images):
        sheet.paste(Image.fromarray(image), (number % _COLUMNS * width, number // _COLUMNS * height))
    return sheet.resize((_SHEET_WIDTH, round(sheet.height * _SHEET_WIDTH / sheet.width)), Image.Resampling.LANCZOS)


def _data_url(pixels: Any) -> str:
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "JPEG", quality=85)
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")


def _figure(svg: str, title: str, caption: str) -> str:
    return f"<figure><figcaption>{escape(title)}<small>{escape(caption)}</small></figcaption>{svg}</figure>"


def _charts(result: Result) -> Iterable[str]:
    rows = result["rows"]
    steps = [row["env_steps"] for row in rows]
    levels = {"standing": result["still"], "evaluated": result["evaluated"]}
    yield _figure(
        charts.curves(steps, {"training": [row["reward"] for row in rows]}, "Reward a step", levels),
        "Reward a step",
        "While training, with the noise that explores; the evaluation has none.",
    )
    terms = {text: [row["terms"][name] for row in rows] for name, text in _TERMS.items() if name in rows[0]["terms"]}
    if terms:
        yield _figure(
            charts.curves(steps, terms, "Reward terms"),
            "What the reward is made of",
            "Each by its weight: the commanded speed, the turning rate, and lifting the feet in turn.",
        )
    compared: Sequence[Result] = result["comparison"]
    if not compared:
        return
    yield _figure(
        charts.same_curves({one["transport"]: one["rewards"] for one in compared}, result["equal"]),
        "The first updates, over each transport",
        "Mean reward of an update. Equal runs lie exactly inside each other.",
    )
    yield _figure(
        charts.costs({one["transport"]: _parts(one) for one in compared}),
        "What a training step costs",
        "A step of the whole batch, medians. Transport: the same step with an engine that does nothing.",
    )
    yield _figure(
        charts.shares({one["transport"]: share(one) for one in compared}),
        "Share of transport",
        "Of a whole training step: engine, policy and learning included.",
    )


def _parts(one: Result) -> dict[str, float]:
    return {
        "transport": one["alone_us"],
        "engine": max(one["env_us"] - one["alone_us"], 0.0),
        "policy": one["policy_us"],
        "learning": one["learning_us"],
    }


def _table(result: Result) -> str:
    heads = ("Over", "Wall clock s", "Share of transport", "Transport µs", "Env µs", "Policy µs", "Learning µs")
    head = "".join(f'<th scope="col">{escape(one)}</th>' for one in heads)
    body = ""
    for one in result["comparison"]:
        us = (one["alone_us"], one["env_us"], one["policy_us"], one["learning_us"])
        cells = (one["transport"], f"{one['seconds']:.1f}", f"{share(one):.1%}", *(f"{value:,.0f}" for value in us))
        body += "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>"
    updates = result["comparison"][0]["updates"]
    return (
        f"<h2>Wall clock of the first {updates} updates</h2>"
        f'<div class="card scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
    )


def _notes(result: Result) -> str:
    texts = (
        "A step of the batch: the policy acts on all envs, the engine steps them, a share of an update is learnt.",
        "Env: the time in calls of the env that the program waits; values and probabilities are computed meanwhile.",
        f"Evaluation: 32 other envs, {result['evaluated_steps']} steps each, without noise. "
        f"An update: {result['horizon']} steps of the batch.",
        "Times are of this machine under the load it had; on another they differ, the curves do not.",
    )
    items = "".join(f"<li>{escape(text)}</li>" for text in texts)
    pairs = {**result["machine"], "command": result["command"], "numbers": "training.json", "policy": "policy.pt"}
    machine = "".join(f"<dt>{escape(name)}</dt><dd>{escape(str(value))}</dd>" for name, value in pairs.items())
    return f"<details><summary>How this was done</summary><ul>{items}</ul><dl>{machine}</dl></details>"
