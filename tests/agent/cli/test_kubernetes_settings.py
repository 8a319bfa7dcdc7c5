"""Writing into the cluster is off unless it is asked for, and needs a cluster to write to."""

import pytest

from gputailor_agent.cli.clusters import ClusterAccess
from gputailor_agent.cli.errors import UsageError
from gputailor_agent.cli.kubernetes import telling_of
from gputailor_agent.cli.settings import AgentSettings
from gputailor_agent.cli.validating import check
from gputailor_agent.schedule.telling import Telling
from gputailor_agent.store import Store
from tests.agent.inventory.live.conftest import api, kubeconfig, write_kubeconfig

__all__ = ["api", "kubeconfig", "write_kubeconfig"]


def settings(**more):
    return AgentSettings(targets="node-1:9836", **more)


def telling(given, access):
    with Store.open() as store:
        return telling_of(given, access, store, "lab", lambda _job, _outcome: None)


def test_nothing_is_written_by_default(kubeconfig):
    assert settings().channels == ()
    assert telling(settings(), ClusterAccess(kubeconfig=kubeconfig)) is None


@pytest.mark.parametrize(
    ("given", "channels"),
    [
        ({"kubernetes_events": True}, ("event",)),
        ({"kubernetes_annotations": True}, ("annotation",)),
        ({"kubernetes_events": True, "kubernetes_annotations": True}, ("event", "annotation")),
    ],
)
def test_each_setting_is_a_channel_of_its_own(kubeconfig, given, channels):
    asked = settings(**given, kubeconfig=kubeconfig)
    assert asked.channels == channels
    assert isinstance(telling(asked, asked.cluster_access), Telling)
    check(asked)


def test_without_a_live_cluster_it_is_a_fault_that_says_what_to_do(monkeypatch):
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(UsageError) as told:
        check(settings(kubernetes_events=True))
    assert str(told.value).startswith(
        "kubernetes_events: no live cluster is followed, so there is nothing to write to; give "
        "--kubernetes"
    )


def test_the_setting_is_read_from_the_environment(monkeypatch):
    monkeypatch.setenv("GPUTAILOR_KUBERNETES_EVENTS", "true")
    assert settings().features == ("kubernetes_events",)
