"""Draws the figures of the documentation: `python docs/figures/draw.py` writes the SVG files beside it.

Text stays text, colours follow the reader's light or dark scheme, and two runs give the same bytes.
"""

from __future__ import annotations

from pathlib import Path

STYLE = """
    .sheet { fill: #ffffff; stroke: #d0d7de; }
    .box { fill: #f6f8fa; stroke: #8c959f; }
    .way { fill: #ddf4ff; stroke: #0969da; }
    text { font: 15px system-ui, "Segoe UI", "DejaVu Sans", sans-serif; fill: #1f2328; text-anchor: middle; }
    .title { font-weight: 600; }
    .small { font-size: 13.5px; fill: #59636e; }
    .code { font-family: ui-monospace, "DejaVu Sans Mono", monospace; font-size: 13.5px; }
    .line { stroke: #59636e; stroke-width: 1.5; fill: none; }
    .tip { fill: #59636e; }
    @media (prefers-color-scheme: dark) {
      .sheet { fill: #0d1117; stroke: #3d444d; }
      .box { fill: #151b23; stroke: #656c76; }
      .way { fill: #121d2f; stroke: #4493f8; }
      text { fill: #f0f6fc; }
      .small { fill: #9198a1; }
      .line { stroke: #9198a1; }
      .tip { fill: #9198a1; }
    }
"""


class Drawing:
    """An SVG drawing that grows by boxes, texts and arrows."""

    def __init__(self, width: int, height: int, title: str) -> None:
        self._head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
            f'height="{height}" role="img">\n  <title>{title}</title>\n  <style>{STYLE}  </style>'
        )
        self._parts: list[str] = []
        self.box(0.5, 0.5, width - 1, height - 1, "sheet")

    def box(self, x: float, y: float, width: float, height: float, kind: str = "box") -> None:
        self._parts.append(f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}" rx="8"/>')

    def text(self, x: float, y: float, words: str, kind: str = "") -> None:
        attribute = f' class="{kind}"' if kind else ""
        self._parts.append(f'<text{attribute} x="{x}" y="{y}">{words}</text>')

    def arrow(self, x: float, y: float, end_y: float) -> None:
        """A vertical line with a tip at both ends: requests go down, answers come up."""
        self._parts.append(f'<path class="line" d="M{x} {y + 6} V{end_y - 6}"/>')
        for tip, base in ((y, y + 8), (end_y, end_y - 8)):
            self._parts.append(f'<path class="tip" d="M{x} {tip} l-4.5 {base - tip} h9 z"/>')

    def __str__(self) -> str:
        return "\n  ".join([self._head, *self._parts]) + "\n</svg>\n"


def overview() -> Drawing:
    """What a program calls, the two ways to the engine, and what chooses between them."""
    drawing = Drawing(460, 344, "A program reaches its engine over gRPC or over shared memory")
    drawing.text(230, 27, "your Python program", "title")
    for x, code, words in (
        (12, "make()", "a VectorEnv"),
        (160, "connect()", "typed calls"),
        (308, "run -- python …", "its gRPC stubs"),
    ):
        drawing.box(x, 40, 140, 54)
        drawing.text(x + 70, 63, code, "code")
        drawing.text(x + 70, 83, words, "small")
        drawing.arrow(x + 70, 96, 126)
    drawing.box(12, 128, 436, 92, "box")
    drawing.text(230, 151, "LUCKY_TRANSPORT=grpc|shm|auto", "code")
    drawing.box(24, 164, 200, 44)
    drawing.text(124, 191, "gRPC, as before")
    drawing.box(236, 164, 200, 44, "way")
    drawing.text(336, 191, "shared memory", "title")
    for x in (124, 336):
        drawing.arrow(x, 222, 254)
    drawing.text(230, 243, "equal, bit for bit", "small")
    drawing.box(12, 256, 436, 76)
    drawing.text(230, 280, "engine", "title")
    drawing.text(230, 301, "MuJoCo · Gymnasium · an engine of yours in", "small")
    drawing.text(230, 320, "Python, C, C++ or C#", "small")
    return drawing


#: File -> what draws it.
FIGURES = {"overview.svg": overview}


if __name__ == "__main__":
    for name, draw in FIGURES.items():
        Path(__file__).with_name(name).write_text(str(draw()), encoding="utf-8")
