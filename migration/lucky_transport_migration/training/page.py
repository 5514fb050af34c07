"""A training's page: one HTML file, no scripts, nothing loaded from anywhere. The numbers lie beside it as JSON."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from PIL import Image

from lucky_transport_migration.bench.drawing import Chart
from lucky_transport_migration.table import Table, render, write_files
from lucky_transport_migration.training import charts

Result = Mapping[str, Any]

#: The sheet of all pictures: so many in a row, so many pixels wide.
_COLUMNS, _SHEET_WIDTH = 4, 960

#: Reward terms that say how well the robot walks, and what the page calls them.
_TERMS = {"track_lin_vel_xy": "speed", "track_ang_vel_z": "turning", "gait": "gait"}

_STEP_S = 0.02  # of the engine, between two pictures of a sequence


def share(one: Mapping[str, Any]) -> float:
    """Return the share of a training step that is transport: the transport alone over env, policy and learning."""
    return one["alone_us"] / (one["env_us"] + one["policy_us"] + one["learning_us"])


def write_page(result: Result, folder: Path) -> Path:
    """Write training.html and training.json into `folder`, and walking.jpg where the engine has a camera.

    Returns the page's path.
    """
    plain = {name: value for name, value in result.items() if name != "pictures"}
    write_files(folder, {"training.html": training_page(result), "training.json": json.dumps(plain, indent=1)})
    if result["pictures"]:
        _contact_sheet(result["pictures"]).save(folder / "walking.jpg", quality=85)
    return folder / "training.html"


def training_page(result: Result) -> str:
    """Return the page of a training's result."""
    apart_s = _STEP_S * result["picture_steps"]
    first, *others = result["verdict"]
    _, _, compared = others[0].partition(": ") if result["comparison"] else ("", "", "")
    return render(
        "training.html",
        title=f"{result['engine']}: learning to walk over shared memory and gRPC",
        about=f"PPO on the CPU, {result['num_envs']} envs, {result['updates']:,} updates over {result['transport']}, "
        f"seed {result['seed']}; {result['measured_at']}",
        lead=first,
        result=result,
        compared=compared[:1].upper() + compared[1:],
        numbers=[
            (f"{result['evaluated'] / result['still']:.2f}×", "the reward of standing still"),
            (f"{result['evaluated']:.2f}", "reward of a step, without noise"),
            (f"{result['seconds']:.0f} s", f"for {result['env_steps']:,} env steps, learning included"),
            (f"{result['env_steps'] / result['seconds']:,.0f}", "env steps a second, learning included"),
        ],
        pictures=[
            (_data_url(image), f"{number * apart_s:.2f} s into the sequence")
            for number, image in enumerate(result["pictures"])
        ],
        apart=f"{apart_s:.2f} s from image to image, {len(result['pictures']) * apart_s:.1f} s in all",
        charts=list(_charts(result)),
        tables=_tables(result),
        machine={**result["machine"], "command": result["command"], "numbers": "training.json", "policy": "policy.pt"},
    )


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


def _charts(result: Result) -> Iterator[Chart]:
    rows, compared = result["rows"], result["comparison"]
    steps = [row["env_steps"] for row in rows]
    yield charts.curves(
        steps,
        {"training": [row["reward"] for row in rows]},
        "Reward a step",
        "While training, with the noise that explores; the evaluation has none.",
        {"standing": result["still"], "evaluated": result["evaluated"]},
    )
    terms = {text: [row["terms"][name] for row in rows] for name, text in _TERMS.items() if name in rows[0]["terms"]}
    if terms:
        what = "Each by its weight: the commanded speed, the turning rate, and lifting the feet in turn."
        yield charts.curves(steps, terms, "What the reward is made of", what)
    if not compared:
        return
    yield charts.same_curves(
        {one["transport"]: one["rewards"] for one in compared},
        result["equal"],
        "The first updates, over each transport",
        "Mean reward of an update. Equal runs lie exactly inside each other.",
    )
    yield charts.costs(
        {one["transport"]: _costs(one) for one in compared},
        "What a training step costs",
        "A step of the whole batch, medians. Transport: the same step with an engine that does nothing.",
    )


def _costs(one: Result) -> dict[str, float]:
    return {
        "transport": one["alone_us"],
        "engine": max(one["env_us"] - one["alone_us"], 0.0),
        "policy": one["policy_us"],
        "learning": one["learning_us"],
    }


def _tables(result: Result) -> list[Table]:
    compared: Sequence[Result] = result["comparison"]
    if not compared:
        return []
    heads = ("wall clock s", "share of transport", "transport µs", "env µs", "policy µs", "learning µs")
    times = ("alone_us", "env_us", "policy_us", "learning_us")
    rows = [
        (one["transport"], f"{one['seconds']:.1f}", f"{share(one):.1%}", *(f"{one[name]:,.0f}" for name in times))
        for one in compared
    ]
    return [Table(f"the first {compared[0]['updates']} updates over", heads, rows)]
