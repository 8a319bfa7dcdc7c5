"""Small line charts as SVG, drawn by hand: no library is worth its weight for axes and lines.

A plot is made of numbers that a table has already; a point with an unknown coordinate is left out.
"""

from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Final

from gputailor_agent.evaluation.base import Cell, Outcome, Plot, Point, Series, Table

_WIDTH: Final = 640
_HEIGHT: Final = 400
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 16, 34, 92
_TICKS: Final = 5
_COLOURS: Final = ("#1f6feb", "#bf3989", "#1a7f37", "#9a6700", "#57606a")
_STYLE: Final = (
    "text{font:12px sans-serif;fill:#24292f}.t{font-size:14px;font-weight:600}"
    ".g{stroke:#d0d7de;stroke-width:1}.r{stroke:#57606a;stroke-width:1;stroke-dasharray:5 4}"
)


def series_of(table: Table, name: str, x: str, y: str, ends: tuple[str, str] = ("", "")) -> Series:
    """Take a line from a table's columns by their titles, the first of each; ``ends``: intervals.

    Points of which either coordinate is unknown are left out.
    """
    low, high = ends

    def cell(row: Sequence[Cell], title: str) -> float | None:
        return _number(row[table.columns.index(title)]) if title else None

    points = (
        Point(x=at, y=value, low=cell(row, low), high=cell(row, high))
        for row in table.rows
        for at, value in [(cell(row, x), cell(row, y))]
        if at is not None and value is not None
    )
    return Series(name=name, points=tuple(points))


def _number(value: Cell) -> float | None:
    """A cell's number; of text such as "30" or "1.20x", too."""
    try:
        return None if value is None else float(str(value).removesuffix("x"))
    except ValueError:
        return None


def svg(plot: Plot) -> str:
    """Return the plot as a standalone SVG image; its description has every line's points."""
    points = [point for line in plot.series for point in line.points]
    xs = [point.x for point in points] or [0.0]
    ys = [
        value for point in points for value in (point.y, point.low, point.high) if value is not None
    ] or [0.0]
    x_ends = _ends(xs, plot.x_unit)
    y_ends = _ends([*ys, *([plot.goal] if plot.goal is not None else [])], plot.y_unit)
    frame = _Frame(x_ends, y_ends)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        f'width="{_WIDTH}" height="{_HEIGHT}" role="img">'
    )
    parts = [
        head,
        f"<title>{escape(plot.title)}</title>",
        f"<desc>{escape(_words(plot))}</desc>",
        f"<style>{_STYLE}</style>",
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#fff"/>',
        f'<text class="t" x="{_LEFT}" y="20">{escape(plot.title)}</text>',
        *_axes(plot, frame),
        *_references(plot, frame),
        *(
            part
            for at, line in enumerate(plot.series)
            for part in _line(line, frame, _COLOURS[at % len(_COLOURS)])
        ),
        *_legend(plot.series),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def write_plots(outcomes: Iterable[Outcome], folder: Path) -> list[Path]:
    """Write every plot of the outcomes as ``folder/NAME.svg``; returns the files."""
    written = []
    for plot in (plot for outcome in outcomes for plot in outcome.plots):
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{plot.name}.svg"
        path.write_text(svg(plot), encoding="utf-8")
        written.append(path)
    return written


class _Frame:
    """From values to places on the picture."""

    def __init__(self, x_ends: tuple[float, float], y_ends: tuple[float, float]) -> None:
        self.x_ends, self.y_ends = x_ends, y_ends

    def x(self, value: float) -> float:
        low, high = self.x_ends
        return round(_LEFT + (value - low) / (high - low) * (_WIDTH - _LEFT - _RIGHT), 1)

    def y(self, value: float) -> float:
        low, high = self.y_ends
        return round(_HEIGHT - _BOTTOM - (value - low) / (high - low) * _tall(), 1)


def _tall() -> int:
    return _HEIGHT - _TOP - _BOTTOM


def _ends(values: Sequence[float], unit: str) -> tuple[float, float]:
    """Where an axis begins and ends: at 0, or below the least where all are far from it."""
    low, high = min(values), max(values)
    low = 0.0 if low >= 0 and low < 0.7 * high else low - 0.05 * (high - low)
    if unit == "ratio":
        low, high = max(0.0, low), min(1.0, high + 0.02)
    return (low, high) if high > low else (low, low + 1.0)


def _shown(value: float, unit: str) -> str:
    if unit == "ratio":
        return f"{value * 100:.0f} %"
    return f"{value:.2f}x" if unit == "factor" else f"{value:.4g}"


def _axes(plot: Plot, frame: _Frame) -> Iterable[str]:
    bottom, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
    for at in range(_TICKS + 1):
        share = at / _TICKS
        y = frame.y_ends[0] + share * (frame.y_ends[1] - frame.y_ends[0])
        x = frame.x_ends[0] + share * (frame.x_ends[1] - frame.x_ends[0])
        yield f'<line class="g" x1="{_LEFT}" x2="{right}" y1="{frame.y(y)}" y2="{frame.y(y)}"/>'
        yield (
            f'<text x="{_LEFT - 6}" y="{frame.y(y) + 4}" text-anchor="end">'
            f"{_shown(y, plot.y_unit)}</text>"
        )
        yield (
            f'<text x="{frame.x(x)}" y="{bottom + 18}" text-anchor="middle">'
            f"{_shown(x, plot.x_unit)}</text>"
        )
    middle = (_LEFT + right) / 2
    yield f'<text x="{middle}" y="{bottom + 38}" text-anchor="middle">{escape(plot.x)}</text>'
    turned = f"rotate(-90 14 {_TOP + _tall() / 2})"
    yield (
        f'<text x="14" y="{_TOP + _tall() / 2}" text-anchor="middle" transform="{turned}">'
        f"{escape(plot.y)}</text>"
    )


def _references(plot: Plot, frame: _Frame) -> Iterable[str]:
    """Draw the goal, and the diagonal on which what was stated is what was seen."""
    if plot.goal is not None:
        y = frame.y(plot.goal)
        yield f'<line class="r" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y}" y2="{y}"/>'
    if plot.diagonal:
        low = max(frame.x_ends[0], frame.y_ends[0])
        high = min(frame.x_ends[1], frame.y_ends[1])
        yield (
            f'<line class="r" x1="{frame.x(low)}" y1="{frame.y(low)}" '
            f'x2="{frame.x(high)}" y2="{frame.y(high)}"/>'
        )


def _line(line: Series, frame: _Frame, colour: str) -> Iterable[str]:
    points = sorted(line.points, key=lambda point: point.x)
    for point in points:
        if point.low is not None and point.high is not None:
            x = frame.x(point.x)
            yield (
                f'<line x1="{x}" x2="{x}" y1="{frame.y(point.low)}" y2="{frame.y(point.high)}" '
                f'stroke="{colour}" stroke-opacity="0.4" stroke-width="4"/>'
            )
    places = " ".join(f"{frame.x(point.x)},{frame.y(point.y)}" for point in points)
    yield f'<polyline points="{places}" fill="none" stroke="{colour}" stroke-width="2"/>'
    for point in points:
        yield f'<circle cx="{frame.x(point.x)}" cy="{frame.y(point.y)}" r="3" fill="{colour}"/>'


def _legend(lines: Sequence[Series]) -> Iterable[str]:
    for at, line in enumerate(lines):
        x, y = _LEFT + 190 * (at % 3), _HEIGHT - 34 + 18 * (at // 3)
        yield f'<rect x="{x}" y="{y - 9}" width="12" height="4" fill="{_COLOURS[at % 5]}"/>'
        yield f'<text x="{x + 18}" y="{y - 2}">{escape(line.name)}</text>'


def _words(plot: Plot) -> str:
    """What the picture says, for those who do not see it."""
    lines = (
        f"{line.name}: "
        + ", ".join(
            f"{_shown(point.x, plot.x_unit)}: {_shown(point.y, plot.y_unit)}"
            for point in line.points
        )
        for line in plot.series
    )
    return f"{plot.y} by {plot.x}. {'; '.join(lines)}"
