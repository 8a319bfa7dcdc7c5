"""Cases from the field that belong to reading a Prometheus, by their numbers."""

import threading
import time
from urllib.parse import parse_qs

import httpx
import pytest

from gputailor_agent.dialects import gputailor
from gputailor_agent.dialects.gauges import gauge_dialects
from gputailor_agent.sources.prometheus import Budget, PrometheusSource

HOUR = 3600
START = 1_768_046_400  # 2026-01-10 12:00 UTC
HELD = {"namespace": "team", "pod": "train-0", "container": "main"}
EXPORTER = {"namespace": "monitoring", "pod": "exporter-x7k2p", "container": "exporter"}
#: Labels of a device in each dialect that names pods by the labels that a scrape has, too.
DEVICES = {
    "dcgm": {"UUID": "GPU-1", "gpu": "0", "Hostname": "n1"},
    "hami": {"device_uuid": "GPU-1", "device_index": "0", "node": "n1", "vdevice_index": "0"},
    "amd": {"gpu_uuid": "GPU-1", "gpu_id": "0", "hostname": "n1", "gpu_partition_id": "0"},
}


def renamed(labels):
    """As a scrape without honorLabels leaves them: the exporter's own in front, others kept."""
    return {**labels, **{f"exported_{name}": labels[name] for name in HELD}, **EXPORTER}


@pytest.mark.parametrize("name", sorted(DEVICES))
def test_case_14_a_pod_in_exported_pod_is_the_same_pod(name):
    dialect = next(one for one in gauge_dialects() if one.name == name)
    honoured = DEVICES[name] | HELD
    found = dialect.identify(honoured, "c")
    assert found is not None
    assert (found.holder.namespace, found.holder.pod) == ("team", "train-0")
    assert dialect.identify(renamed(honoured), "c") == found


def test_case_14_our_own_exporter_s_pods_are_found_in_exported_pod_too():
    name = "gputailor_container_gpu_allocated_seconds_total"
    honoured = {**HELD, "node": "n1", "gpu_uuid": "GPU-1", "pod_uid": "u"}
    found = gputailor.DIALECT.place(name, honoured, "c")
    assert found is not None
    assert gputailor.DIALECT.place(name, renamed(honoured), "c") == found


def test_case_14_the_chart_s_monitor_honours_the_exporter_s_labels(repository):
    monitor = repository / "helm/gputailor/templates/servicemonitor.yaml"
    assert "honorLabels: true" in monitor.read_text("utf-8")


class Server:
    """A Prometheus with dcgm-exporter's utilisation, which says what each query touched."""

    def __init__(self, samples: int) -> None:
        self.samples = samples
        self.queries: list[dict[str, str]] = []
        self.most_at_once = 0
        self._at_once = 0
        self._lock = threading.Lock()

    def __call__(self, request: httpx.Request) -> httpx.Response:
        with self._lock:
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
        time.sleep(0.002)
        path = request.url.path.partition("/api/v1/")[2]
        data: object = []
        if path == "label/__name__/values":
            data = ["DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_POWER_USAGE"]
        elif path.startswith("query"):
            form = parse_qs(request.content.decode())
            self.queries.append({name: values[0] for name, values in form.items()})
            stats = {"samples": {"totalQueryableSamples": self.samples}}
            kind = "matrix" if path == "query_range" else "vector"
            data = {"resultType": kind, "result": [], "stats": stats}
        with self._lock:
            self._at_once -= 1
        return httpx.Response(200, json={"status": "success", "data": data})

    def source(self, **budget: int) -> PrometheusSource:
        limits = Budget(samples_per_second=None, **budget)
        return PrometheusSource("http://p", "c", budget=limits, transport=httpx.MockTransport(self))


@pytest.mark.parametrize("concurrency", [1, 2])
def test_case_31_no_more_questions_are_asked_at_once_than_the_budget_allows(concurrency):
    server = Server(samples=0)
    with server.source(concurrency=concurrency) as source:
        assert len(list(source.hours(START, START + 6 * HOUR))) == 6
    assert server.most_at_once == concurrency


def test_case_31_reading_stops_soon_after_the_samples_are_used_up():
    budget, days = 30_000, 14
    with Server(samples=1000).source(samples=budget) as source:
        costs = [reading.samples for reading in source.hours(START, START + days * 24 * HOUR)]
    assert sum(costs) >= budget
    assert sum(costs) < budget + 24 * max(costs)  # at most a day beyond, of the fourteen


def test_case_31_no_question_reaches_beyond_the_hour_that_is_asked_for():
    server = Server(samples=1)
    with server.source() as source:
        list(source.hours(START + 24 * HOUR, START + 25 * HOUR))
    ranged = [one for one in server.queries if "start" in one]
    assert ranged
    assert min(float(one["start"]) for one in ranged) > START + 24 * HOUR
    assert max(float(one["end"]) for one in ranged) <= START + 25 * HOUR
