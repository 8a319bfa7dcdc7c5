"""Every engine's documented page comes to the same truth, as far as the engine tells it."""

import pytest

from gputailor_agent.dialects.engines import COUNTERS, Told, engines
from gputailor_agent.model.containers import EngineUse
from gputailor_agent.sources.prometheus.containers import ContainerReader
from tests.agent.dialects.engine_pages import PAGES, TRUTH, UNTOLD, page
from tests.agent.sources.memory_prometheus import MemoryPrometheus

HOUR = 3600
BEGIN = 1_768_046_400
POD = ("serving", "model-0")
TARGET = {
    "job": "engines", "instance": "10.0.0.9:8000",
    "namespace": "serving", "pod": "model-0", "container": "main",
}  # fmt: skip
each = pytest.mark.parametrize("engine", engines(), ids=lambda engine: engine.name)


def read(server, pods=(POD,), begin=BEGIN, end=BEGIN + HOUR):
    with server.client() as client:
        reader = ContainerReader(client)
        reader.look(begin, end)
        return reader.hour(begin, end, pods).containers


def use_of(reading):
    return EngineUse.of({reading.source}, reading.amounts, reading.peaks)


def served(engine, **target):
    server = MemoryPrometheus()
    server.scrapes(
        lambda at: page(engine, at - BEGIN + HOUR), BEGIN - 300, BEGIN + HOUR, **(TARGET | target)
    )
    return server


def test_the_engines_are_those_with_a_page():
    assert {engine.name for engine in engines()} == set(PAGES) == set(UNTOLD)


@each
def test_a_documented_page_comes_to_what_was_done(engine):
    (reading,) = read(served(engine.name))
    assert (reading.source, reading.namespace, reading.pod, reading.container) == (
        engine.name, "serving", "model-0", "main",
    )  # fmt: skip
    use = use_of(reading)
    told = {
        name: level.mean if (level := getattr(use, name)) and name in _LEVELS else level
        for name in TRUTH
    }
    expected = {n: None if n in UNTOLD[engine.name] else v for n, v in TRUTH.items()}
    assert told == {n: v if v is None else pytest.approx(v) for n, v in expected.items()}
    assert use.observed_seconds == HOUR
    assert use.last_request == BEGIN + HOUR


_LEVELS = {"running", "waiting", "cache"}


@each
def test_an_engine_without_a_request_says_zero_and_no_last_request(engine):
    server = MemoryPrometheus()
    quiet = "\n".join(f"{line.rsplit(' ', 1)[0]} 0" for line in page(engine.name, 0).splitlines())
    server.scrapes(lambda _: quiet + "\n", BEGIN - 300, BEGIN + HOUR, **TARGET)
    (reading,) = read(server)
    use = use_of(reading)
    assert use.requests == 0
    assert use.last_request is None


@each
def test_labels_that_tell_series_apart_are_those_of_its_page(engine):
    assert all(metric.names for metric in engine.metrics)
    assert engine.of(Told.REQUESTS)
    assert engine.apart


@each
@pytest.mark.parametrize("raw", [float("nan"), float("inf"), -1.0, 2.0**63])
def test_no_impossible_value_becomes_a_measurement(engine, raw):
    assert all(metric.canonical(raw) is None for metric in engine.metrics if metric.scale == 1)


def test_a_share_in_percent_is_unknown_rather_than_full():
    mindie = next(engine for engine in engines() if engine.name == "mindie")
    (cache,) = mindie.of(Told.CACHE)
    assert cache.canonical(30.0) is None
    assert cache.canonical(1.0) == 1.0


def test_names_that_are_not_an_engines_alone_count_only_with_its_signature():
    server = MemoryPrometheus()
    other = "num_requests_running 5\nrequest_success_total 100\n"
    server.scrapes(lambda _: other, BEGIN - 300, BEGIN + HOUR, **TARGET)
    assert read(server) == ()
    more = TARGET | {"pod": "model-1", "instance": "10.0.0.10:8000"}
    server.scrapes(lambda at: page("mindie", at - BEGIN + HOUR), BEGIN, BEGIN + HOUR, **more)
    assert {one.pod for one in read(server)} == {"model-1"}


def test_vllm_below_ray_is_read_as_vllm():
    text = page("vllm", HOUR).replace("vllm:", "ray_vllm_")
    server = MemoryPrometheus()
    server.scrapes(lambda _: text, BEGIN - 300, BEGIN + HOUR, **TARGET)
    (reading,) = read(server)
    assert reading.source == "vllm"
    assert use_of(reading).running.mean == pytest.approx(3.0)


def test_processes_of_one_pod_add_up_and_copies_of_one_process_do_not():
    server = served("vllm")
    for replica in ("a", "b"):  # two servers' copies of a second process
        server.scrapes(
            lambda at: page("vllm", at - BEGIN + HOUR), BEGIN - 300, BEGIN + HOUR,
            **TARGET | {"instance": "10.0.0.9:8001", "prometheus_replica": replica},
        )  # fmt: skip
    server.scrapes(
        lambda at: page("vllm", at - BEGIN + HOUR), BEGIN - 300, BEGIN + HOUR,
        **TARGET | {"job": "again", "container": ""},
    )  # fmt: skip
    readings = read(server)
    assert len(readings) == 2
    assert sum(use_of(one).requests for one in readings) == pytest.approx(2 * TRUTH["requests"])
    assert {one.container for one in readings} == {"main"}


def test_a_restart_inside_the_hour_loses_nothing_that_was_scraped():
    server = MemoryPrometheus()
    again = BEGIN + 1800

    def text(at):
        start = BEGIN - HOUR if at < again else again
        return page("vllm", at - start) + f"process_start_time_seconds {start}\n"

    server.scrapes(text, BEGIN - 300, BEGIN + HOUR, **TARGET)
    (reading,) = read(server)
    missing = 0.2 * 30  # of the last interval before
    assert use_of(reading).requests == pytest.approx(TRUTH["requests"] - missing)


def test_an_engine_that_began_before_it_was_scraped_is_not_credited_its_history():
    server = MemoryPrometheus()
    server.scrapes(
        lambda at: page("tgi", at - BEGIN + 86_400), BEGIN + 1800, BEGIN + HOUR, **TARGET
    )
    (reading,) = read(server)
    use = use_of(reading)
    assert use.requests == pytest.approx(TRUTH["requests"] / 2)
    assert use.observed_seconds == pytest.approx(HOUR / 2, abs=30)


def test_the_first_request_to_a_target_that_was_scraped_counts_from_zero():
    server = MemoryPrometheus()
    name = ':tensorflow:serving:request_count{model_name="m",status="OK"} 7\n'
    server.scrapes(lambda at: name if at > BEGIN + 600 else "", BEGIN - 300, BEGIN + HOUR, **TARGET)
    server.scrapes(lambda _: "up 1\n", BEGIN - 300, BEGIN + HOUR, **TARGET)
    (reading,) = read(server)
    assert use_of(reading).requests == 7


def test_an_engine_that_ended_inside_the_hour_is_told_to_its_last_scrape():
    server = MemoryPrometheus()
    server.scrapes(lambda at: page("vllm", at - BEGIN + HOUR), BEGIN - 300, BEGIN + 1200, **TARGET)
    (reading,) = read(server)
    use = use_of(reading)
    assert use.requests == pytest.approx(TRUTH["requests"] / 3)
    assert use.observed_seconds == pytest.approx(1200)


def test_a_scrape_without_a_pod_is_found_by_its_address_unless_pods_share_it():
    server = served("vllm", namespace="", pod="", container="")
    info = 'kube_pod_info{namespace="serving",pod="model-0",pod_ip="10.0.0.9",uid="u"} 1\n'
    server.scrapes(lambda _: info, BEGIN, BEGIN + HOUR, job="ksm", instance="k:8080")
    (reading,) = read(server)
    assert (reading.namespace, reading.pod) == POD
    other = info.replace("model-0", "other").replace('"u"', '"v"')
    server.scrapes(lambda _: other, BEGIN, BEGIN + HOUR, job="ksm", instance="k:8080")
    assert read(server) == ()


def test_an_hour_costs_one_sample_a_counter_and_few_passes_over_the_levels():
    server = served("vllm")
    server.scrapes(lambda at: page("vllm", at - BEGIN + HOUR), BEGIN + HOUR + 30, BEGIN + 2 * HOUR,
                   **TARGET)  # fmt: skip
    with server.client() as client:
        reader = ContainerReader(client)
        reader.look(BEGIN, BEGIN + 2 * HOUR)
        reader.hour(BEGIN, BEGIN + HOUR, {POD})
        server.touched = 0
        reader.hour(BEGIN + HOUR, BEGIN + 2 * HOUR, {POD})
    counters = sum(line.startswith(_COUNTED) for line in PAGES["vllm"].splitlines())
    scrapes = HOUR // 30
    levels = 7  # series, of which each is read for its mean and for its highest
    assert server.touched <= counters + scrapes * (2 * levels + 2) + HOUR / 30


_COUNTED = tuple(n for e in engines() for m in e.of(*COUNTERS) for n in m.names)
