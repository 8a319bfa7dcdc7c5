"""Commands shown in docs/catalogue.md and docs/estimate.md print what stands below them."""

import re
from datetime import date

import pytest

from gputailor_agent.cli import app, catalogue, estimate
from gputailor_agent.estimating.published import published_cases

PAGES = ("catalogue.md", "estimate.md")
SHOWN = re.compile(r"```console\n\$ gputailor (.*)\n((?:.*\n)*?)```")
FILES = {
    "wrong.csv": "accelerator,price_per_gpu_hour,curency\nL4,0.31,EUR\n",
    "mine.csv": "accelerator,price_per_gpu_hour,currency\nL4,0.31,EUR\n",
}


@pytest.fixture(autouse=True)
def same_everywhere(monkeypatch, tmp_path):
    monkeypatch.delenv("GPUTAILOR_PRICES", raising=False)
    monkeypatch.delenv("GPUTAILOR_MAX_PRICE_AGE_DAYS", raising=False)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setattr(catalogue, "today", lambda: date(2026, 11, 30))
    monkeypatch.setattr(estimate, "today", lambda: date(2026, 11, 30))
    monkeypatch.chdir(tmp_path)
    for name, content in FILES.items():
        (tmp_path / name).write_text(content, "utf-8")


def words(line):
    return [quoted or plain for quoted, plain in re.findall(r'"([^"]*)"|(\S+)', line)]


@pytest.mark.parametrize("name", PAGES)
def test_every_command_prints_what_the_page_shows(repository, capsys, name):
    shown = SHOWN.findall((repository / "docs" / name).read_text("utf-8"))
    assert shown
    for command, expected in shown:
        app.run("gputailor", words(command))
        out, err = capsys.readouterr()
        assert out + err == expected, f"docs/{name}: put there what the command prints: {command}"


def test_the_table_of_published_measurements_is_that_of_the_data(repository):
    page = (repository / "docs" / "estimate.md").read_text("utf-8")
    for case in published_cases():
        gib = [
            f"{value / 2**30:.2f}"
            for value in (
                case.measured_bytes,
                case.estimated.low,
                case.estimated.expected,
                case.estimated.high,
            )
        ]
        assert f"| {case.name} | {' | '.join(gib)} | {case.relative_error:+.0%} |" in page
