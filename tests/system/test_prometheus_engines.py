"""Engines, CPU, pressure and restarts out of real servers: the same truth from each."""

import shutil

import httpx
import pytest

from gputailor_agent.model.containers import CONTAINER_ITSELF
from gputailor_agent.profiles.containers import container_use
from gputailor_agent.profiles.tally import DeviceTally
from gputailor_agent.rollup.history import fill_store, read_window
from gputailor_agent.sources.prometheus import PrometheusSource
from gputailor_agent.store import Store
from tests.agent.dialects.engine_pages import PAGES, TRUTH, UNTOLD, page
from tests.agent.sources.test_containers import cadvisor, network, pressing, state
from tests.system.prometheus_history import Running, found_binaries, labelled, need_binaries
from tests.system.test_prometheus_victoria import in_milliseconds, victoria
from tests.testbed.servers import eventually

pytestmark = [pytest.mark.system, pytest.mark.timeout(180)]

HOUR = 3600
BEGIN = 1_768_046_400  # as in the pages
END = BEGIN + 2 * HOUR
SCRAPE = 30
PODS = {engine: f"{engine.replace('_', '-')}-0" for engine in PAGES}
SERVERS = ["victoria-metrics", *range(max(1, len(found_binaries())))]


def lines(text, at, **target):
    labels = ",".join(f'{name}="{value}"' for name, value in target.items())
    for line in text.splitlines():
        yield f"{labelled(line, labels)} {at}\n"


def history():
    """Eight engines with a card each, and a training pod of two cards on the same node."""
    cards = {**{pod: [f"GPU-{pod}"] for pod in PODS.values()}, "train-0": ["GPU-t0", "GPU-t1"]}
    spaces = dict.fromkeys(PODS.values(), "serving") | {"train-0": "team"}
    dcgm = "".join(
        f'DCGM_FI_DEV_GPU_UTIL{{UUID="{card}",Hostname="node-a",namespace="{spaces[pod]}",'
        f'pod="{pod}",container="main"}} 50\n'
        for pod, own in cards.items()
        for card in own
    )
    for at in range(BEGIN - 300, END + 1, SCRAPE):
        yield from lines(dcgm, at, job="dcgm", instance="node-a:9400")
        for place, (engine, pod) in enumerate(PODS.items()):
            text = page(engine, at - BEGIN + HOUR)
            yield from lines(
                text, at, job="engines", instance=f"10.0.1.{place}:8000", namespace="serving",
                pod=pod, container="main",
            )  # fmt: skip
        kubelet = cadvisor(at) + network(at)
        yield from lines(kubelet, at, job="kubelet", instance="10.0.0.1:10250", node="node-a")
        restarts = state(0 if at < BEGIN + 1800 else 1)
        yield from lines(restarts, at, job="ksm", instance="10.0.0.5:8080")
        yield from lines(pressing(at), at, job="node", instance="10.0.0.1:9100", node="node-a")


@pytest.fixture(scope="module", params=SERVERS)
def url(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("server")
    if request.param == "victoria-metrics":
        if shutil.which("victoria-metrics") is None:
            pytest.skip("no victoria-metrics: apt-get install victoria-metrics")
        server, address = victoria(folder, in_milliseconds(history()))
        eventually(lambda: _known(address), "the history can be searched")
    else:
        server = Running(
            found_binaries()[request.param] if found_binaries() else need_binaries(),
            folder, history(),
        )  # fmt: skip
        address = server.url
    yield address
    server.stop()


def _known(address):
    form = {"match[]": '{job="node"}', "start": BEGIN, "end": END}
    found = httpx.get(f"{address}/api/v1/series", params=form, trust_env=False)
    return found.json()["data"]


@pytest.fixture(scope="module")
def found(url):
    with PrometheusSource(url, "test") as source:
        yield read_window(source, BEGIN, END)


def use_of(rows, pod):
    tally = DeviceTally()
    for row in rows:
        if row.key.pod == pod and row.key.gpu_uuid == CONTAINER_ITSELF:
            tally.add_row(row)
    return container_use([tally])


def test_every_engine_tells_of_two_hours_what_it_did(found):
    assert found.problems == []
    for engine, pod in PODS.items():
        _, use = use_of(found.rows, pod)
        assert use is not None, engine
        assert use.engines == (engine,)
        assert use.requests == pytest.approx(2 * TRUTH["requests"]), engine
        assert use.observed_seconds == pytest.approx(2 * HOUR, abs=2 * SCRAPE), engine
        for name in ("running", "waiting", "cache"):
            level = getattr(use, name)
            known = None if level is None else level.mean
            expected = None if name in UNTOLD[engine] else pytest.approx(TRUTH[name])
            assert known == expected, (engine, name)
        if engine in {"vllm", "sglang", "mindie"}:
            assert use.prompt_tokens == pytest.approx(2 * TRUTH["prompt_tokens"]), engine


def test_a_container_of_two_cards_used_its_cpu_once(found):
    host, engine = use_of(found.rows, "train-0")
    assert engine is None
    assert host.cpu_used_seconds == pytest.approx(1.5 * 2 * HOUR)
    assert host.cpu_of_limit == pytest.approx(0.75)
    assert host.throttled_ratio == pytest.approx(0.3)
    assert host.network_received_bytes == pytest.approx(2000 * 2 * HOUR)
    assert host.pressure["io/some"] == pytest.approx(0.2)
    assert host.node_pressure["io/some"] == pytest.approx(0.25)
    assert (host.restarts, host.oom_kills) == (1, 1)
    assert host.memory_peak_bytes == 3 * 1024**3


def test_the_store_keeps_it_and_nothing_is_asked_twice(url, found, tmp_path):
    with PrometheusSource(url, "test") as source, Store.open(tmp_path / "g.db") as store:
        assert fill_store(source, BEGIN, END + 300, store) == []
        before = source.cost.samples
        assert fill_store(source, BEGIN, END + 300, store) == []
        assert source.cost.samples == before
        kept = list(store.usage("test", BEGIN, END))
    assert {row.key: row for row in kept} == {row.key: row for row in found.rows}


def test_the_second_hour_costs_less_than_two_passes_over_the_levels(url):
    with PrometheusSource(url, "test") as source:
        readings = list(source.hours(BEGIN, END))
    scrapes = HOUR // SCRAPE
    levels = 2 * (7 + 5 + 4 + 2 + 2 + 3) + 12  # series x ways, and one that is counted of each
    devices = 2 * 10  # read and counted
    assert readings[1].samples <= scrapes * (levels + devices) + 1000
