"""Every test of the store that asks for ``store`` runs on SQLite and on PostgreSQL."""

import pytest

from gputailor_agent.store import Store
from tests.postgres import postgres

__all__ = ["postgres"]


@pytest.fixture(params=["sqlite", "postgresql"])
def address(request, tmp_path):
    """Where a new store is."""
    if request.param == "sqlite":
        return str(tmp_path / "gputailor.db")
    return request.getfixturevalue("postgres").database()


@pytest.fixture
def store(address):
    """A new store."""
    with Store.open(address) as opened:
        yield opened
