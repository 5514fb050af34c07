"""How every chart is drawn: plain matplotlib under one style sheet, each a picture of its own with a white ground.

Equal input gives equal bytes. Nothing is told by colour alone: a path has a colour, a dash pattern and a marker, the
same in all charts, and each chart has a sentence that says what it shows to readers that cannot see it.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import matplotlib as mpl
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, LogLocator, NullFormatter

_STYLE = str(files("lucky_transport_migration.bench").joinpath("bench.mplstyle"))
_LOOKS: list[dict[str, Any]] = list(mpl.rc_params_from_file(_STYLE, use_default_template=False)["axes.prop_cycle"])
#: In the order of the style sheet's looks. The last three stand for any other path, which no chart has beside them.
_PATHS = (
    *("shm", "grpc", "grpc-batch", "inproc", "limit", "openra"),
    *("kit-c", "kit-cpp", "kit-csharp"),
)
_ALIKE = {"grpc-tcp": "grpc", "grpc-unix": "grpc-batch"}


@dataclass(frozen=True, slots=True)
class Chart:
    """A picture with its title, a line that says how to read it, and the sentence that tells it in words.

    source: the picture itself as an address, so that a page needs nothing beside it.
    """

    title: str
    caption: str
    sentence: str
    source: str


def draw(
    title: str, caption: str, sentence: str, paint: Callable[[Axes], None], height_in: float | None = None
) -> Chart:
    """Return the chart that `paint` draws, of the style sheet's height unless one is given."""
    with style.context(_STYLE):
        figure = Figure()
        FigureCanvasSVG(figure)
        if height_in is not None:
            figure.set_figheight(height_in)
        axes = figure.add_subplot()
        paint(axes)
        if axes.get_legend_handles_labels()[0]:
            figure.legend(loc="outside lower left", ncols=2)
        buffer = io.BytesIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return Chart(title, caption, sentence, "data:image/svg+xml;base64," + base64.b64encode(buffer.getvalue()).decode())


def look(path: str) -> dict[str, Any]:
    """Return colour, line style and marker of a path, as matplotlib takes them."""
    name = _ALIKE.get(path, path)
    place = _PATHS.index(name) if name in _PATHS else len(_PATHS) - 1 - sum(name.encode()) % 3
    return _LOOKS[place]


def duration_axis(axis: Any, low_s: float, high_s: float) -> None:
    """Label a logarithmic axis of seconds with durations in the unit that fits."""
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)) if high_s / low_s < 100 else LogLocator())
    axis.set_major_formatter(EngFormatter("s"))
    axis.set_minor_formatter(NullFormatter())


def height_of(rows: int) -> float:
    """Return the height in inches of a chart with so many rows."""
    return 1.0 + 0.3 * rows
