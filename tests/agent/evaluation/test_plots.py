"""Plots say in a picture what their tables say in numbers."""

import re
from xml.etree import ElementTree as ET

import pytest

from gputailor_agent.evaluation import evaluate, find
from gputailor_agent.evaluation.base import Plot, Point, Series, Table
from gputailor_agent.evaluation.pages import as_markdown
from gputailor_agent.evaluation.plots import series_of, svg, write_plots
from tests.agent.evaluation import twins

SVG = "{http://www.w3.org/2000/svg}"


def plot(*points, **more):
    return Plot(
        name="p", title="A <b> & c", x="time", y="share", y_unit="ratio",
        series=(Series(name="one & two", points=points),), **more,
    )  # fmt: skip


def drawn(made):
    return ET.fromstring(svg(made))


def test_a_plot_is_well_formed_and_its_words_are_escaped():
    root = drawn(plot(Point(x=0, y=0.5), Point(x=10, y=0.9)))
    assert root.find(f"{SVG}title").text == "A <b> & c"
    assert "one & two: 0: 50 %, 10: 90 %" in root.find(f"{SVG}desc").text


def test_more_is_higher_and_later_is_further_right():
    root = drawn(plot(Point(x=0, y=0.1), Point(x=10, y=0.9)))
    first, last = (
        (float(one.get("cx")), float(one.get("cy"))) for one in root.iter(f"{SVG}circle")
    )
    assert first[0] < last[0]
    assert first[1] > last[1]


def test_an_interval_spans_its_ends_and_everything_lies_inside_the_picture():
    root = drawn(plot(Point(x=1, y=0.5, low=0.2, high=1.0), goal=0.97, diagonal=True))
    numbers = [
        float(value)
        for line in root.iter(f"{SVG}line")
        for value in (line.get("y1"), line.get("y2"))
    ]
    assert all(0 <= value <= 400 for value in numbers)


@pytest.mark.parametrize("points", [(), (Point(x=1, y=0.0),), (Point(x=1, y=1.0),) * 2])
def test_nothing_one_point_or_equal_points_are_drawn_without_an_error(points):
    assert len(list(drawn(plot(*points)).iter(f"{SVG}circle"))) == len(points)


def test_a_line_leaves_out_what_is_not_known():
    table = Table(
        title="t", columns=("at", "value", "low", "high"), units=("", "ratio", "ratio", "ratio"),
        rows=(("30", 0.5, 0.4, 0.6), ("1.20x", None, None, None), ("never", 0.9, None, None)),
    )  # fmt: skip
    line = series_of(table, "n", "at", "value", ("low", "high"))
    assert line.points == (Point(x=30.0, y=0.5, low=0.4, high=0.6),)


def test_every_plot_of_a_study_is_a_file_and_an_image_of_the_page(tmp_path):
    twins.everything(tmp_path)
    chosen = tuple(find(name) for name in ("sharing", "savings"))
    outcomes = evaluate(tmp_path, chosen)
    files = write_plots(outcomes, tmp_path / "out" / "plots")
    shown = re.findall(r"!\[[^\]]+\]\(plots/([a-z-]+)\.svg\)", as_markdown(outcomes))
    assert shown
    assert sorted(shown) == sorted(file.stem for file in files)
