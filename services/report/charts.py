"""Charts as SVG text, drawn here so that a page needs no script. Colours are classes of the page's style.

Every mark has a title, which browsers show and screen readers read. Pure.
"""

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

WIDTH, HEIGHT = 720, 220
LEFT, RIGHT, TOP, BOTTOM = 52, 12, 10, 34
GRID = 4


class Line(NamedTuple):
    """A named series; None is a gap. `kind` is a CSS class: ``a``, ``b`` or ``c``."""

    name: str
    kind: str
    values: Sequence[float | None]


def lines(label: str, names: Sequence[str], drawn: Sequence[Line], top: float, unit: str = "") -> str:
    """Series over the same steps, from zero to `top`; below them the first, middle and last step's name."""
    steps = max(1, len(names) - 1)
    width, height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    parts = [_axis(top, unit)]
    for line in drawn:
        points = [
            None
            if value is None
            else (LEFT + width * place / steps, TOP + height - height * min(value, top) / top)
            for place, value in enumerate(line.values)
        ]
        parts += [f'<path class="{line.kind}" d="{_path(run)}"/>' for run in _runs(points) if len(run) > 1]
        parts += [
            f'<circle class="{line.kind}" cx="{p[0]:.1f}" cy="{p[1]:.1f}" r="2.5"><title>'
            f"{escape(names[place])}, {escape(line.name)}: {_number(line.values[place], unit)}</title>"
            "</circle>"
            for place, p in enumerate(points)
            if p is not None
        ]
    parts += _below(names)
    return _svg(label, HEIGHT, parts)


def columns(label: str, names: Sequence[str], values: Sequence[float]) -> str:
    """One column a name."""
    top = nice(max(values, default=0.0))
    width, height = (WIDTH - LEFT - RIGHT) / max(1, len(values)), HEIGHT - TOP - BOTTOM
    parts = [_axis(top, "")]
    for place, value in enumerate(values):
        high = height * value / top
        x, middle, broad = LEFT + width * place, LEFT + width * (place + 0.5), max(1.0, width - 6)
        parts.append(
            f'<rect class="a" x="{x + 3:.1f}" y="{TOP + height - high:.1f}" width="{broad:.1f}" '
            f'height="{high:.1f}"><title>{escape(names[place])}: {_number(value, "")}</title></rect>'
            f'<text x="{middle:.1f}" y="{HEIGHT - 14}" text-anchor="middle">{escape(names[place])}</text>'
        )
    return _svg(label, HEIGHT, parts)


def bars(label: str, names: Sequence[str], values: Sequence[float], unit: str = "") -> str:
    """One bar a row, its name left and its value right of it."""
    row, text = 24, 250
    top = max([*values, 1e-9])
    parts = []
    for place, value in enumerate(values):
        y, length = place * row, (WIDTH - text - 90) * value / top
        parts.append(
            f'<text x="{text - 8}" y="{y + 16}" text-anchor="end">{escape(names[place])}</text>'
            f'<rect class="a" x="{text}" y="{y + 4}" width="{max(1.0, length):.1f}" height="{row - 8}"/>'
            f'<text x="{text + length + 6:.1f}" y="{y + 16}">{_number(value, unit)}</text>'
        )
    return _svg(label, max(row, row * len(values)), parts)


def nice(value: float) -> float:
    """The next round number at or above: 1, 2, 2.5 or 5 times a power of ten."""
    if value <= 0:
        return 1.0
    power = 10.0 ** (len(str(int(value))) - 1) if value >= 1 else 1.0
    while power > value:
        power /= 10
    return next(step * power for step in (1, 2, 2.5, 5, 10) if step * power >= value)


def _axis(top: float, unit: str) -> str:
    height = HEIGHT - TOP - BOTTOM
    parts = []
    for step in range(GRID + 1):
        y = TOP + height * step / GRID
        value = top * (GRID - step) / GRID
        parts.append(
            f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
            f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{_number(value, unit)}</text>'
        )
    return "".join(parts)


def _below(names: Sequence[str]) -> list[str]:
    if not names:
        return []
    width = WIDTH - LEFT - RIGHT
    places = {0: "start", len(names) - 1: "end"} if len(names) > 1 else {0: "start"}
    if len(names) > 6:
        places[len(names) // 2] = "middle"
    return [
        f'<text x="{LEFT + width * place / max(1, len(names) - 1):.1f}" y="{HEIGHT - 12}" '
        f'text-anchor="{anchor}">{escape(names[place])}</text>'
        for place, anchor in places.items()
    ]


def _runs(points: Sequence[tuple[float, float] | None]) -> list[list[tuple[float, float]]]:
    runs: list[list[tuple[float, float]]] = [[]]
    for point in points:
        if point is None:
            runs.append([])
        else:
            runs[-1].append(point)
    return runs


def _path(points: Sequence[tuple[float, float]]) -> str:
    return "M" + " L".join(f"{x:.1f} {y:.1f}" for x, y in points)


def _number(value: float | None, unit: str) -> str:
    if value is None:
        return "unknown"
    if unit == "%":
        return f"{value * 100:.0f} %"
    text = f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.2g}"
    return f"{text} {unit}".strip()


def _svg(label: str, height: int, parts: Sequence[str]) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(label)}">{"".join(parts)}</svg>'
    )
