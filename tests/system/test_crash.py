"""A real agent, killed at random moments over simulated weeks: nothing lost, nothing doubled."""

import os
import sys

import pytest

from tests.postgres import postgres
from tests.system.crash_parts import crash

__all__ = ["postgres"]  # the fixture

#: Kills for each store; `make crash` asks for more.
KILLS = int(os.environ.get("GPUTAILOR_CRASH_KILLS", "5"))

pytestmark = [pytest.mark.system, pytest.mark.timeout(200 + 30 * KILLS)]


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request, tmp_path):
    """Address of an empty store."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'agent.db'}"
    return request.getfixturevalue("postgres").database()


def test_case_34_killed_at_random_it_counts_each_hour_once_and_tells_each_report_once(
    store, tmp_path
):
    found = crash(tmp_path, store, KILLS, seed=KILLS, weeks=max(4.0, KILLS / 4))
    assert found["kills"] == KILLS
    assert found["reports"] >= 2
    sys.stdout.write(f"{store.partition(':')[0]}: {found}\n")
