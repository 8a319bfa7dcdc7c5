"""What is served and what can be set is in docs/web.md, and the pictures it shows are there."""

import re

import pytest
from fastapi.testclient import TestClient

from gputailor_agent.api.app import create_app
from gputailor_agent.cli.web import WebKeys
from tests.agent.api.standing import State
from tests.agent.reports.plans import sample_plan

LARGEST_BYTES = 150_000


@pytest.fixture(scope="module")
def page(repository):
    return (repository / "docs" / "web.md").read_text("utf-8")


def test_every_address_is_documented(page):
    described = TestClient(create_app(State(sample_plan()))).get("/api/v1/openapi.json").json()
    shown = page.replace("ID", "{workload_id}").replace("PERIOD", "{period}")
    for path in described["paths"]:
        assert f"{path}`" in shown or f"`{path.removeprefix('/api/v1')}`" in shown or path in shown


def test_every_setting_is_documented(page):
    for name in WebKeys.model_fields:
        assert name in page


def test_pictures_are_there_and_small(page, repository):
    shown = re.findall(r"\]\((pictures/[^)]+)\)", page)
    assert shown
    for name in shown:
        assert (repository / "docs" / name).exists(), f"{name}: make pictures"
    for path in (repository / "docs" / "pictures").iterdir():
        assert path.stat().st_size <= LARGEST_BYTES, path.name
