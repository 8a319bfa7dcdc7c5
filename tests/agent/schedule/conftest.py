"""What an agent under test writes to and reads from."""

import pytest

from gputailor_agent.store import Store
from tests.agent.rollup.exporter_model import Exporter, Job
from tests.agent.schedule.fakes import T0


@pytest.fixture
def store(tmp_path):
    with Store.open(tmp_path / "g.db") as opened:
        yield opened


@pytest.fixture
def exporter():
    return Exporter([Job(lambda _: 0.5, T0 + 5)], T0)
