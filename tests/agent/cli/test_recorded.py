"""A Prometheus with kube-state-metrics as what was asked for, from the command line and the agent."""

import inspect
from contextlib import ExitStack
from pathlib import Path

import pytest

from gputailor_agent.cli import recorded
from gputailor_agent.cli.errors import UsageError
from gputailor_agent.cli.explain import explain
from gputailor_agent.cli.histories import PrometheusAccess
from gputailor_agent.cli.judged import inputs_of, judging
from gputailor_agent.cli.recorded import RecordedInventory
from gputailor_agent.cli.report import report
from gputailor_agent.cli.serve import inventory_reader
from gputailor_agent.cli.settings import load_settings
from gputailor_agent.model.inventory import Inventory

HOUR = 3600.0
NOON = 1_800_014_400.0  # a whole hour
ACCESS = PrometheusAccess(url="http://p")


class Server:
    """Stands for ``read_recorded``; remembers the windows that it was asked for."""

    def __init__(self, *, complete=True):
        self.complete = complete
        self.windows = []
        self.error = None

    def __call__(self, _access, cluster, window):
        self.windows.append((window.start, window.end))
        if self.error is not None:
            raise self.error
        return Inventory(cluster=cluster, at=window.end, complete=self.complete)


@pytest.fixture
def server(monkeypatch):
    found = Server()
    monkeypatch.setattr(recorded, "read_recorded", found)
    return found


def test_the_window_is_read_once_and_then_each_hour_what_is_new(server):
    read = RecordedInventory(ACCESS, "lab", 14 * 24 * HOUR)
    for at in (NOON, NOON + HOUR / 2, NOON + HOUR, NOON + 5 * HOUR):
        read(at)
    assert server.windows == [
        (NOON - 14 * 24 * HOUR, NOON),
        (NOON - HOUR, NOON + HOUR),
        (NOON, NOON + 5 * HOUR),
    ]


def test_within_an_hour_the_last_reading_says_when_it_was_made(server):
    read = RecordedInventory(ACCESS, "lab", HOUR)
    assert read(NOON + 60) is read(NOON + 3599)
    assert read(NOON + 3599).at == NOON + 60
    assert len(server.windows) == 1


def test_a_reading_that_failed_is_tried_again_at_once_and_whole(server):
    read = RecordedInventory(ACCESS, "lab", 10 * HOUR)
    server.error = OSError("gone")
    with pytest.raises(OSError, match="gone"):
        read(NOON)
    server.error = None
    read(NOON + 1)
    assert server.windows[-1] == (NOON + 1 - 10 * HOUR, NOON + 1)


def test_after_an_incomplete_reading_the_whole_window_is_read_again(server):
    server.complete = False
    read = RecordedInventory(ACCESS, "lab", 10 * HOUR)
    read(NOON)
    read(NOON + HOUR)
    assert server.windows[-1] == (NOON - 9 * HOUR, NOON + HOUR)


def test_a_clock_that_was_set_back_reads_anew(server):
    read = RecordedInventory(ACCESS, "lab", 10 * HOUR)
    read(NOON)
    read(NOON - 5 * HOUR)
    assert server.windows[-1] == (NOON - 15 * HOUR, NOON - 5 * HOUR)


def settings_of(tmp_path, monkeypatch, **given):
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.chdir(tmp_path)
    return load_settings(given, None)


def test_the_agent_reads_it_where_only_a_prometheus_is_named(tmp_path, monkeypatch):
    settings = settings_of(tmp_path, monkeypatch, prometheus_url="http://p")
    with ExitStack() as parts:
        assert isinstance(inventory_reader(settings, parts), RecordedInventory)


def test_the_agent_reads_files_where_they_are_named_or_exporters_are_scraped(tmp_path, monkeypatch):
    path = tmp_path / "cluster.json"
    path.write_text('{"kind": "List", "items": []}', encoding="utf-8")
    for given in ({"prometheus_url": "http://p", "inventory": [path]}, {"targets": ["a:1"]}):
        with ExitStack() as parts:
            reader = inventory_reader(settings_of(tmp_path, monkeypatch, **given), parts)
        assert not isinstance(reader, RecordedInventory)
        assert reader(NOON).pods == ()


@pytest.mark.parametrize("command", [report, explain])
def test_both_commands_take_the_same_options(command):
    shared = inspect.signature(inputs_of).parameters
    told = inspect.signature(judging(command)).parameters
    assert set(shared) < set(told)
    assert "inputs" not in told
    assert {name: told[name].annotation for name in shared} == {
        name: one.annotation for name, one in shared.items()
    }


def test_a_command_gets_what_its_options_mean():
    got = []

    def command(word, *, inputs, output="table"):
        got.append((word, inputs, output))

    asked = {name: one.default for name, one in inspect.signature(inputs_of).parameters.items()}
    judging(command)(word="web", output="json", **{**asked, "inventory": [Path("a.json")]})
    ((word, inputs, output),) = got
    assert (word, inputs.inventory, output) == ("web", (Path("a.json"),), "json")


def test_options_that_mean_nothing_are_wrong_usage():
    with pytest.raises(UsageError, match="add --prometheus-url"):
        inputs_of(prometheus_label=["cluster=a"])
