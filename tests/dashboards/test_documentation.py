"""The pages on dashboards and alerts are what the code says."""

import re

import pytest

from gputailor_dashboards import documentation
from gputailor_dashboards.alerts import ALERTS
from gputailor_dashboards.boards import BOARDS
from gputailor_dashboards.generating import BUILDERS

AGAIN = "run: python -m gputailor_dashboards.documentation"


@pytest.fixture(scope="module")
def pages():
    return documentation.pages()


def test_the_pages_are_up_to_date(repository, pages):
    stale = [
        name
        for name, text in pages.items()
        if not (repository / name).exists() or (repository / name).read_text("utf-8") != text
    ]
    assert not stale, AGAIN


def test_no_page_of_an_alert_that_is_no_more_is_left(repository, pages):
    lying = {
        path.relative_to(repository).as_posix() for path in (repository / "docs/alerts").iterdir()
    }
    assert lying <= set(pages), AGAIN


def test_every_panel_stands_there_with_its_question(pages):
    text = pages[documentation.PAGE]
    for name, builder in BUILDERS.items():
        assert f"`{name}`" in text
        for heading in builder.questions():
            for one in heading.panels:
                assert f"| {one.title} | " in text
    for board in BOARDS.values():
        assert f"### {board.title}\n" in text


def test_every_alert_has_a_page_where_its_annotation_points(pages):
    for alert in ALERTS:
        text = pages[alert.document()["annotations"]["runbook_url"]]
        for step in (*alert.runbook, alert.impact, alert.missing, alert.expr):
            assert step in text
        assert "{{" not in text
        assert f"({alert.name}.md)" in pages["docs/alerts/README.md"]


def test_a_runbook_can_lie_elsewhere():
    for alert in ALERTS:
        url = alert.document("https://example.org/runbooks/")["annotations"]["runbook_url"]
        assert url == f"https://example.org/runbooks/{alert.name}.md"


def test_links_between_the_pages_lead_somewhere(pages):
    text = pages[documentation.PAGE]
    anchors = {
        title.lower().replace(" ", "-").replace("'", "")
        for title in re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    }
    for name, page in pages.items():
        for target in re.findall(r"\]\(([^)]+)\)", page):
            path, _, anchor = target.partition("#")
            if anchor:
                assert anchor in anchors, (name, target)
            elif path.startswith("../"):
                assert path.removeprefix("../") == "dashboards.md"
            else:
                assert any(other.endswith(path) for other in pages), (name, target)


def test_writing_removes_the_page_of_an_alert_that_is_no_more(tmp_path, pages):
    documentation.write(tmp_path)
    left = tmp_path / "docs" / "alerts" / "GpuOnFire.md"
    left.write_text("x", "utf-8")
    documentation.write(tmp_path)
    assert not left.exists()
    assert {
        p.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("*.*") if p.is_file()
    } == set(pages)
