"""docs/cli.md is what the application says of itself."""

import re
from pathlib import Path

from gputailor_agent.cli import docs
from gputailor_agent.cli.settings import AgentSettings

PAGE = Path(__file__).resolve().parents[3] / "docs" / "cli.md"


def test_the_page_is_up_to_date():
    assert PAGE.read_text(encoding="utf-8") == docs.text(), (
        "regenerate: python -m gputailor_agent.cli.docs > docs/cli.md"
    )


def test_every_setting_and_command_is_described():
    page = docs.text()
    for name in AgentSettings.model_fields:
        assert f"`GPUTAILOR_{name.upper()}`" in page
    for command in ("demo", "serve", "report", "analyse", "explain", "doctor"):
        assert f"## gputailor {command}" in page
    assert "`--fail-on`" in page


def test_every_block_of_examples_has_examples():
    assert not re.search(r"```sh\n```", docs.text())


def test_a_single_example_stands_in_a_block():
    assert "```sh\ngputailor dashboards generate ./grafana\n```" in docs.text()
