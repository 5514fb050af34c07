"""One colour, dash pattern and marker per path, the same in every plot, table and theme.

Colours are Okabe and Ito's, which people with any colour vision tell apart; the dash pattern says the same once more.

A plot is drawn in these colours and its SVG then refers to CSS variables, so that the page's theme decides.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["INK", "Look", "css_variables", "look", "themed"]

#: Drawn where the page's text colour belongs; no plot uses it for anything else.
INK = "#123457"


@dataclass(frozen=True, slots=True)
class Look:
    """How a path is drawn. `light` and `dark` are its colour on either ground, `light` also the one plots use."""

    name: str
    light: str
    dark: str
    dash: tuple[float, ...]
    marker: str


_LOOKS = (
    Look("shm", "#0072b2", "#56b4e9", (), "o"),
    Look("grpc", "#d55e00", "#ff8a3d", (5, 1.5), "s"),
    Look("grpc-batch", "#b07800", "#e6b422", (1.5, 1.5), "^"),
    Look("inproc", "#00815f", "#2fc79a", (6, 1.5, 1.5, 1.5), "D"),
    Look("limit", "#6b6f76", "#a3a8b0", (1, 1), "v"),
    Look("shm-python", "#5b7f95", "#9dbdd0", (3, 1, 1, 1), "h"),
    Look("unix-socket", "#a84c83", "#e39ac3", (3, 1), "P"),
    Look("iceoryx2", "#b3003c", "#ff7fa5", (6, 2), "p"),
)
_OTHERS = (
    Look("other-1", "#9a4f8f", "#dd9fd4", (3, 1), "P"),
    Look("other-2", "#464a94", "#a4a9f5", (8, 2), "X"),
    Look("other-3", "#805a3c", "#cfa37a", (2, 3), "*"),
)
_BY_NAME = {one.name: one for one in _LOOKS}
#: Paths that are never in one chart with those whose look they have.
_BY_NAME |= {
    "grpc-tcp": _BY_NAME["grpc"],
    "grpc-unix": _BY_NAME["grpc-batch"],
    "openra": _BY_NAME["grpc"],
}


def look(name: str, others: tuple[str, ...] = ()) -> Look:
    """Return how the path `name` is drawn; paths without a look of their own take one by their place in `others`."""
    if name in _BY_NAME:
        return _BY_NAME[name]
    return _OTHERS[others.index(name) % len(_OTHERS) if name in others else 0]


def css_variables(*, dark: bool) -> str:
    """Return the declarations of one theme."""
    return "".join(f"--{one.name}:{one.dark if dark else one.light};" for one in (*_LOOKS, *_OTHERS))


def themed(svg: str) -> str:
    """Return the SVG with every known colour replaced by its variable, and the ink by the text's colour."""
    for one in (*_LOOKS, *_OTHERS):
        svg = svg.replace(one.light, f"var(--{one.name})")
    return svg.replace(INK, "currentColor")
