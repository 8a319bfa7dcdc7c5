"""Series of kube-state-metrics in real servers: what is read of pods that went, and what it costs."""

import shutil
from pathlib import Path

import httpx
import pytest

from gputailor_agent.inventory.holding import held_interval, holding
from gputailor_agent.inventory.kube_state_metrics import accelerator_pattern, inventory_of
from gputailor_agent.sources.prometheus.client import (
    Access,
    Budget,
    PrometheusClient,
    PrometheusError,
)
from gputailor_agent.sources.prometheus.kube_state import KubeStateReader
from tests.agent.inventory.kube_state_metrics.told import pod, sample
from tests.system.prometheus_history import Binaries, Running, need_binaries, repeated
from tests.testbed.servers import HOST, Server, eventually, start_on_free_ports

pytestmark = [pytest.mark.system, pytest.mark.timeout(120)]

NOW = 1_768_046_400.0
HOUR = 3600.0
DAY = 24 * HOUR
DAYS = 3
START = NOW - DAYS * DAY
RUNS = 6  # of a CronJob, each deleted ten minutes after its end


def exposed(samples):
    """Series as exposition lines."""
    for one in samples:
        labels = ",".join(f'{name}="{text}"' for name, text in one.labels.items())
        yield f"{one.name}{{{labels}}} {one.value}"


def scraped(samples, start, end, **labels):
    """Two replicas scrape the same, the second ten seconds later and with labels of its own."""
    lines = list(exposed(samples))
    target = {"job": "state", **labels}
    yield from repeated(lines, start, end, instance="a:8080", **target)
    yield from repeated(lines, start + 10, end, instance="b:8080", **target)


def cron_run(number):
    """One run: an hour of work, then ten minutes in which its end is told."""
    name, job = f"nightly-{number}-x", f"nightly-{number}"
    began = START + number * 9 * HOUR
    running = pod(name, owner=("Job", job), began=began)
    yield from scraped(running, began, began + HOUR)
    told = pod(name, owner=("Job", job), began=began, phase="Succeeded", ended=began + HOUR)
    yield from scraped(told, began + HOUR + 60, began + HOUR + 600)
    owner = sample(
        "kube_job_owner",
        job_name=job,
        owner_kind="CronJob",
        owner_name="nightly",
        owner_is_controller="true",
    )
    yield from scraped([owner], began, began + HOUR + 600)


def history(end=NOW):
    """A pod that stays, runs that went, one deleted, one of three minutes, one kept completed."""
    yield from scraped(pod("stays", began=START), START, end)
    yield from scraped(pod("kept", began=NOW - 20 * HOUR), NOW - 20 * HOUR, NOW - 10 * HOUR - 60)
    completed = pod("kept", began=NOW - 20 * HOUR, phase="Succeeded", ended=NOW - 10 * HOUR)
    yield from scraped(completed, NOW - 10 * HOUR, end)
    for number in range(RUNS):
        yield from cron_run(number)
    yield from scraped(pod("deleted", began=NOW - 9 * HOUR), NOW - 9 * HOUR, NOW - 5 * HOUR)
    short = NOW - 30 * HOUR + 70
    yield from scraped(pod("short", began=short), short, short + 170)
    other = pod("other", resource="cpu", gpus=4.0)
    yield from scraped(other, START, end)
    node = [
        sample("kube_node_info", node="node-1"),
        sample("kube_node_status_capacity", 8.0, node="node-1", resource="nvidia_com_gpu"),
        sample("kube_node_status_allocatable", 8.0, node="node-1", resource="nvidia_com_gpu"),
    ]
    yield from scraped(node, START, end)
    east = pod("eastern", began=START)
    yield from scraped(east, NOW - HOUR, end, cluster="east")


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory):
    server = Running(need_binaries(), tmp_path_factory.mktemp("prometheus"), history())
    yield server.url
    server.stop()


@pytest.fixture(scope="module")
def debian(tmp_path_factory):
    """The system's own Prometheus, which is of the second generation where Debian made it."""
    found = [shutil.which(name) for name in ("prometheus", "promtool")]
    if None in found:
        pytest.skip("no prometheus and promtool of the system: apt-get install prometheus")
    folder = tmp_path_factory.mktemp("debian")
    server = Running(Binaries(*map(Path, found)), folder, history())
    yield server.url
    server.stop()


@pytest.fixture(scope="module")
def victoria(tmp_path_factory):
    binary = shutil.which("victoria-metrics")
    if binary is None:
        pytest.skip("no victoria-metrics: apt-get install victoria-metrics")
    folder = tmp_path_factory.mktemp("victoria")

    def begin(ports):
        address = f"{HOST}:{ports[0]}"
        command = [
            Path(binary),
            f"-storageDataPath={folder / 'data'}",
            f"-httpListenAddr={address}",
            *("-retentionPeriod=20y", "-search.latencyOffset=0s"),
        ]
        server = Server("victoria-metrics", command, folder / "victoria.log")
        url = f"http://{address}"
        server.wait_ready(lambda: httpx.get(f"{url}/health", trust_env=False).is_success)
        return server, url

    server, url = start_on_free_ports(1, begin)
    body = "".join(f"{line.rstrip()}000\n" for line in history()).encode()
    sent = httpx.post(f"{url}/api/v1/import/prometheus", content=body, timeout=60, trust_env=False)
    assert sent.is_success
    httpx.get(f"{url}/internal/force_flush", trust_env=False)
    eventually(lambda: read(url)[0].found, "the history can be searched")
    yield url
    server.stop()


def read(url, start=START, end=NOW, **options):
    with KubeStateReader(url, **options) as reader:
        return reader.read(accelerator_pattern(), start, end), reader.cost


def pods_of(url, **options):
    state, _ = read(url, **options)
    return {one.name: one for one in inventory_of(state, "lab").pods}


@pytest.fixture(params=["prometheus", "debian", "victoria"])
def url(request):
    return request.getfixturevalue(request.param)


def test_pods_that_went_are_there_with_their_beginning_and_their_end(url):
    found = pods_of(url)
    for number in range(RUNS):
        run = found[f"nightly-{number}-x"]
        began = START + number * 9 * HOUR
        assert (run.phase, run.started, run.finished) == ("Succeeded", began, began + HOUR)
    deleted = found["deleted"]
    assert (deleted.phase, deleted.reason) == ("Unknown", "NoLongerSeen")
    assert NOW - 5 * HOUR - 60 <= deleted.finished <= NOW - 5 * HOUR + 30
    assert found["stays"].phase == "Running"
    assert found["stays"].finished is None


def test_case_33_requests_that_persist_for_a_completed_pod_hold_nothing(url):
    state, _ = read(url)
    requested = {
        one.labels["pod"] for one in state.samples if one.name.endswith("resource_requests")
    }
    assert "kept" in requested  # kube-state-metrics still tells of its request
    found = {one.name: one for one in inventory_of(state, "lab").pods}
    assert not holding(found["kept"])
    assert held_interval(found["kept"], NOW) == (NOW - 20 * HOUR, NOW - 10 * HOUR)
    assert {name for name, one in found.items() if holding(one)} == {"stays", "eastern"}


def test_a_pod_of_three_minutes_is_not_missed(url):
    short = pods_of(url)["short"]
    assert 100 <= short.finished - short.started <= 170


def test_only_pods_that_ask_for_accelerators_are_read(url):
    state, _ = read(url)
    assert "uid-other" not in {one.labels.get("uid") for one in state.samples}


def test_labels_leave_the_other_clusters_out(url):
    assert set(pods_of(url, labels={"cluster": "east"})) == {"eastern"}
    assert "eastern" in pods_of(url)


def test_two_replicas_tell_of_each_pod_once(url):
    state, _ = read(url)
    found = inventory_of(state, "lab")
    assert len(found.pods) == len({pod.uid for pod in found.pods})
    (node,) = found.nodes
    assert node.capacity == {"nvidia.com/gpu": 8.0}
    assert {one.gpus[0].count for pod in found.pods for one in pod.containers} == {1.0}


def test_a_shorter_window_has_the_pods_of_that_time(url):
    state, _ = read(url, start=NOW - 6 * HOUR)
    names = {one.labels["pod"] for one in state.samples if "uid" in one.labels}
    assert names == {"stays", "deleted", "kept", "eastern"}


def test_as_of_an_earlier_time_it_is_what_was_there_then(url):
    at = START + 9 * HOUR + 1800
    state, _ = read(url, end=at)
    running = {one.name for one in inventory_of(state, "lab").pods if one.finished is None}
    assert running == {"stays", "nightly-1-x"}


def test_when_nobody_has_scraped_it_lately_it_is_as_of_the_last_time(url):
    state, _ = read(url, end=NOW + 2 * HOUR)
    assert not state.current
    assert state.at == pytest.approx(NOW, abs=60)
    found = inventory_of(state, "lab")
    assert found.complete is False
    assert {one.name for one in found.pods if one.phase == "Running"} == {"stays", "eastern"}


def test_a_server_that_never_saw_it_is_found_out(url):
    state, _ = read(url, labels={"cluster": "none"})
    assert (state.found, state.samples) == (False, ())


def test_what_it_costs_is_a_sample_of_what_is_there_and_an_hour_of_what_went(prometheus):
    _, cost = read(prometheus)
    whole = 'sum(count_over_time(kube_pod_status_phase{pod!="other"}[3d]))'
    with PrometheusClient(prometheus, Access()) as client:
        kept = float(client.query(whole, NOW).result[0].value[1])
    assert cost.samples < kept / 5  # of one metric out of twenty
    assert cost.requests < 60


def test_the_budget_leaves_the_oldest_out_and_counts_them(prometheus):
    state, _ = read(prometheus, budget=Budget(samples=1_000))
    assert state.unread > 0
    found = inventory_of(state, "lab")
    assert "stays" in {one.name for one in found.pods}
    assert any("are left out" in one for one in found.problems)


def test_a_server_that_does_not_answer_is_an_error():
    reader = KubeStateReader("http://127.0.0.1:1", sleep=lambda _seconds: None)
    with reader, pytest.raises(PrometheusError, match="cannot be reached"):
        reader.read(accelerator_pattern(), START, NOW)
