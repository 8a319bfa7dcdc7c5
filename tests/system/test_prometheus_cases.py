"""Cases from the field on a real Prometheus, by their numbers."""

import msgspec
import pytest

from gputailor_agent.rollup.history import fill_store, read_window
from gputailor_agent.sources.prometheus import Budget, PrometheusSource
from gputailor_agent.store import Store
from tests.system.prometheus_history import SCRAPE, Running, need_binaries

pytestmark = [pytest.mark.system, pytest.mark.timeout(120)]

HOUR = 3600
NOW = 1_768_046_400  # 2026-01-10 12:00 UTC
HOURS = 48
START = NOW - HOURS * HOUR
GPUS = 2
METRICS = {"DCGM_FI_DEV_GPU_UTIL": 40, "DCGM_FI_DEV_FB_USED": 2048, "DCGM_FI_DEV_POWER_USAGE": 90}
#: What is touched of an hour: each sample of three gauges once, and those of one counted.
OF_AN_HOUR = GPUS * HOUR // SCRAPE * (len(METRICS) + 1)


def lines():
    """One truth twice: as a scrape that honours the exporter's labels stores it, and as not."""
    for gpu in range(GPUS):
        own = {"UUID": f"GPU-{gpu}", "gpu": str(gpu), "Hostname": "n1", "modelName": "NVIDIA L4"}
        held = {"namespace": "team", "pod": f"train-{gpu}", "container": "main"}
        kept = {f"exported_{name}": value for name, value in held.items()}
        exporter = {"namespace": "monitoring", "pod": "dcgm-x7k2p", "container": "exporter"}
        for cluster, whose in (("honoured", held), ("renamed", kept | exporter)):
            target = {"job": "dcgm", "instance": "10.0.0.5:9400", "cluster": cluster}
            labels = ",".join(f'{k}="{v}"' for k, v in (own | whose | target).items())
            for metric, value in METRICS.items():
                for at in range(START, NOW + 1, SCRAPE):
                    yield f"{metric}{{{labels}}} {value + gpu} {at}\n"


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    server = Running(need_binaries(), tmp_path_factory.mktemp("prometheus"), lines())
    yield server.url
    server.stop()


def reading(url, cluster="honoured", **budget):
    return PrometheusSource(url, "c", labels={"cluster": cluster}, budget=Budget(**budget))


def test_case_14_rows_are_the_same_whether_the_scrape_honours_labels_or_not(url):
    told = {}
    for cluster in ("honoured", "renamed"):
        with reading(url, cluster) as source:
            found = read_window(source, START, NOW)
        told[cluster] = {row.key: msgspec.to_builtins(row) for row in found.rows}
    assert {key.pod for key in told["renamed"]} == {f"train-{gpu}" for gpu in range(GPUS)}
    assert told["renamed"] == told["honoured"]


def test_case_31_a_new_hour_touches_that_hour_s_samples_and_no_others(url, tmp_path):
    with Store.open(tmp_path / "kept.db") as store:
        with reading(url) as source:
            assert fill_store(source, START, NOW - HOUR, store) == []
            assert source.cost.samples < (HOURS - 1) * OF_AN_HOUR * 1.5
        with reading(url) as source:
            assert fill_store(source, START, NOW, store) == []
            assert 0 < source.cost.samples < 3 * OF_AN_HOUR  # an hour overlaps


def test_case_31_a_scan_ends_with_its_budget_and_goes_on_the_next_time(url, tmp_path):
    runs, budget = 0, 2 * OF_AN_HOUR
    with Store.open(tmp_path / "kept.db") as store:
        problems = ["not begun"]
        while problems:
            with reading(url, samples=budget) as source:
                problems = fill_store(source, START, NOW, store)
                assert source.cost.samples < budget + 24 * OF_AN_HOUR
            runs += 1
            assert runs < HOURS
        with reading(url) as source:
            whole = {row.key: row for row in read_window(source, START, NOW - HOUR).rows}
        assert {row.key: row for row in store.usage("c", START, NOW - HOUR)} == whole
    assert runs > 1
