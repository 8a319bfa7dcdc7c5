"""Faults of real servers: nothing is lost, nothing counted twice, and the words say what happened."""

import pytest

from gputailor_agent.rollup.history import fill_store, read_window
from gputailor_agent.sources.prometheus import Access, Budget, PrometheusError, PrometheusSource
from gputailor_agent.store import Store
from tests.system.prometheus_between import between, broken_off, busy, every, partly, slow
from tests.system.prometheus_history import (
    Running,
    dcgm_history,
    need_binaries,
    scraped,
    simulate,
)
from tests.system.test_prometheus_counters import EVENTFUL, HOUR, NOW, PAGE, START, from_server

pytestmark = [pytest.mark.system, pytest.mark.timeout(180)]

GAP = (NOW - 5.5 * HOUR, NOW - 2.7 * HOUR)  # in which the second replica scraped nothing
QUICK = Access(attempts=4)


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    (folder / "scenario.yaml").write_text(EVENTFUL, encoding="utf-8")
    return simulate(folder / "scenario.yaml", folder / "out", NOW, 8 / 24, page=f"{PAGE}s")


@pytest.fixture(scope="module")
def serve(tmp_path_factory):
    running = []

    def begin(lines, *flags):
        running.append(
            Running(need_binaries(), tmp_path_factory.mktemp("prometheus"), lines, flags)
        )
        return running[-1]

    yield begin
    for server in running:
        server.stop()


@pytest.fixture(scope="module")
def server(serve, pages):
    return serve(scraped(pages))


@pytest.fixture(scope="module")
def truth(server):
    """What an undisturbed reading gives, by key."""
    return from_server(server.url)[0]


def rows_of(url, **options):
    """Rows of one reading, and what was said; pauses are not waited for."""
    options = {"access": QUICK, "sleep": lambda _seconds: None, **options}
    with PrometheusSource(url, "test", **options) as source:
        found = read_window(source, START, NOW)
    return {row.key: row for row in found.rows}, found.problems


def fill(url, store, now, **options):
    """One go of an agent's back-fill."""
    options = {"access": QUICK, "sleep": lambda _seconds: None, **options}
    with PrometheusSource(url, "test", **options) as source:
        return fill_store(source, START, now, store)


def kept(store):
    return {row.key: row for row in store.usage("test", START, NOW)}


def assert_same(told, truth, *, seconds=0.01):
    """The same rows, each to so many seconds."""
    assert told.keys() == truth.keys()
    for key, row in truth.items():
        assert told[key].allocated_seconds == pytest.approx(row.allocated_seconds, abs=seconds), key
        for name, use in row.signals.items():
            mine = told[key].signals[name].active_seconds
            assert mine == pytest.approx(use.active_seconds, abs=seconds), (key, name)


def test_a_server_killed_in_the_middle_is_gone_on_with(server, truth, tmp_path):
    done = []

    def progress(hours, _total):
        done.append(hours)
        if hours == 7:  # the block that holds START begins four hours before it
            server.kill()

    with Store.open(tmp_path / "kept.db") as store:
        with PrometheusSource(
            server.url, "test", access=QUICK, sleep=lambda _seconds: None
        ) as source:
            (told,) = fill_store(source, START, NOW + 300, store, progress)
        assert "history was read up to 2026-01-10 07:00 UTC and then stopped" in told
        assert "cannot be reached" in told
        with pytest.raises(PrometheusError, match="cannot be reached"):
            fill(server.url, store, NOW + 300)
        server.restart()
        assert fill(server.url, store, NOW + 300) == []
        assert_same(kept(store), truth)
    assert done == list(range(1, 8))


@pytest.mark.parametrize("harm", [every(3, busy), every(3, broken_off)], ids=["503", "half"])
def test_answers_that_fail_now_and_then_change_nothing(server, truth, harm):
    with between(server.url) as proxy:
        proxy.harm = harm
        told, problems = rows_of(proxy.url)
    assert problems == []
    assert told == truth


def test_a_server_that_stays_busy_is_told_and_gone_on_with(server, truth, tmp_path):
    with between(server.url) as proxy, Store.open(tmp_path / "kept.db") as store:
        proxy.harm = busy
        with pytest.raises(PrometheusError, match="answered 503 4 times: it is overloaded"):
            fill(proxy.url, store, NOW + 300)
        proxy.harm = None
        assert fill(proxy.url, store, NOW + 300) == []
        assert_same(kept(store), truth)


def test_a_server_that_always_breaks_off_is_told(server):
    with between(server.url) as proxy:
        proxy.harm = broken_off
        with pytest.raises(PrometheusError, match="breaks its answers off"):
            rows_of(proxy.url)


def test_a_slow_server_is_waited_for_and_one_that_is_too_slow_is_told(server, truth):
    with between(server.url) as proxy:
        proxy.harm = every(40, slow(0.5))
        told, _ = rows_of(proxy.url, access=Access(timeout_seconds=5.0))
        assert told == truth
        proxy.harm = slow(0.5)
        with pytest.raises(PrometheusError, match=r"did not answer within 0\.2 s"):
            rows_of(proxy.url, access=Access(timeout_seconds=0.2))


@pytest.mark.parametrize("most", [150, 250])
def test_a_server_that_loads_few_samples_at_once_is_asked_for_less(serve, pages, truth, most):
    small = serve(scraped(pages), f"--query.max-samples={most}")
    told, problems = rows_of(small.url)
    assert problems == []
    assert told == truth


def test_an_answer_larger_than_we_hold_is_asked_for_in_parts(server, truth):
    told, problems = rows_of(server.url, budget=Budget(answer_bytes=40_000))
    assert problems == []
    assert told == truth


def test_a_partial_answer_counts_as_not_observed_and_is_asked_for_again(server, truth, tmp_path):
    said = "store 10.0.0.3:10901 unavailable"
    with between(server.url) as proxy, Store.open(tmp_path / "kept.db") as store:
        fill(proxy.url, store, NOW - 3 * HOUR + 300)
        proxy.harm = partly(lambda metric: metric.get("node") == "node-a", said)
        problems = fill(proxy.url, store, NOW - HOUR + 300)
        assert any(said in one and "not observed" in one for one in problems)
        assert not any(
            key.pod.startswith("long") and key.hour >= NOW - 2 * HOUR for key in kept(store)
        )
        proxy.harm = None
        assert fill(proxy.url, store, NOW + 300) == []
        assert_same(kept(store), truth)


def test_hours_that_stay_partial_are_taken_as_they_are_in_the_end(server, tmp_path):
    said = "store 10.0.0.3:10901 unavailable"
    with between(server.url) as proxy, Store.open(tmp_path / "kept.db") as store:
        proxy.harm = partly(lambda metric: metric.get("node") == "node-a", said)
        late = NOW + 13 * HOUR  # so that the last blocks, of which one asks again, are empty
        fill(proxy.url, store, late)
        asked = len(proxy.asked)
        fill(proxy.url, store, late)
        assert not [path for path in proxy.asked[asked:] if "/query" in path]
        assert {key.pod[:3] for key in kept(store)} == {"one", "two"}


def with_gap(lines):
    return (line for line in lines if not GAP[0] < float(line.rsplit(" ", 1)[1]) <= GAP[1])


def test_two_replicas_that_disagree_behind_one_address_lose_nothing(serve, pages, truth):
    """Requests go to each in turn, whichever is first; one scraped nothing for three hours."""
    other = serve(with_gap(scraped(pages, late=11.0)))
    whole = serve(scraped(pages))
    for servers in ((other.url, whole.url), (whole.url, other.url)):
        with between(*servers) as proxy:
            told, problems = rows_of(proxy.url)
        assert any("several servers answer" in one for one in problems)
        assert_same(told, truth, seconds=PAGE)


def test_replicas_that_agree_are_not_suspected(server, truth):
    with between(server.url, server.url) as proxy:
        told, problems = rows_of(proxy.url)
    assert problems == []
    assert told == truth


def copies(pages):
    """One store that keeps what both replicas wrote, told apart by a label."""
    yield from scraped(pages, prometheus_replica="a")
    yield from with_gap(scraped(pages, late=11.0, prometheus_replica="b"))


def test_copies_with_replica_labels_count_once(serve, pages, truth):
    told, problems = rows_of(serve(copies(pages)).url)
    assert problems == []
    assert_same(told, truth, seconds=12.0)


def dcgm_copies(scenario):
    for line in dcgm_history(scenario, START + 4 * HOUR, NOW):
        for replica in "ab":
            yield line.replace("{", f'{{prometheus_replica="{replica}",', 1)


def test_copies_of_gauges_count_once(serve, pages, tmp_path):
    from gputailor_exporter.scenarios.scenario import load  # noqa: PLC0415 - beside its only use

    path = tmp_path / "scenario.yaml"
    path.write_text(EVENTFUL, encoding="utf-8")
    scenario = load(path, NOW)
    one = rows_of(serve(dcgm_history(scenario, START + 4 * HOUR, NOW)).url)
    both = rows_of(serve(dcgm_copies(scenario)).url)
    assert both == one


def test_a_clock_that_is_ahead_keeps_no_hour_that_has_not_ended(server, truth, tmp_path):
    """Our clock says three hours more than the server's, whose own we are told by its answers."""

    def fill_at(now, skew):
        with PrometheusSource(server.url, "test", access=QUICK) as source:
            source.ahead_seconds = lambda: skew  # as measured from the header Date
            return fill_store(source, START, now, store)

    with Store.open(tmp_path / "kept.db") as store:
        (told,) = fill_at(NOW + 300, 3 * HOUR)
        assert "clock is 10800 s ahead of the server's" in told
        assert max(key.hour for key in kept(store)) == NOW - 4 * HOUR
        assert fill_at(NOW + 300, 0.0) == []
        assert_same(kept(store), truth)
