"""Our exporter beside nvitop's on the same fake driver, in one run: CPU and memory.

CI asserts ratios, counts and memory, not times; the whole table is ``make bench-exporter``.
"""

import pytest

from tests.benchmarks.exporters import measure, measure_faults, quantile
from tests.benchmarks.loaded_node import Load
from tests.fakes.fixtures import fake_nvml_library

__all__ = ["fake_nvml_library"]

pytestmark = [pytest.mark.bench, pytest.mark.system, pytest.mark.timeout(180)]

#: 40 MB, the kubelet client included.
MOST_RESIDENT_MIB = 40e6 / 2**20


@pytest.fixture(scope="module")
def beside(fake_nvml_library):
    pytest.importorskip("nvitop_exporter", reason="nvitop-exporter is not installed")
    load = Load(gpus=8, processes=8)
    return load, measure(load, seconds=15.0, scrapes=50)


@pytest.fixture(scope="module")
def ours(beside, record_testsuite_property):
    load, found = beside
    for name, figures in found.items():
        record_testsuite_property(f"{name} CPU ms", figures.cpu_ms_per_gpu_second(load.gpus))
        record_testsuite_property(f"{name} resident MiB", figures.resident_mib)
        record_testsuite_property(f"{name} scrape p99 ms", figures.scrape_ms(0.99))
    return found["gputailor-exporter"]


@pytest.fixture(scope="module")
def theirs(beside):
    return beside[1]["nvitop-exporter"]


def test_eight_gpus_with_eight_pods_cost_at_most_half_of_nvitop_exporters_cpu(ours, theirs):
    assert theirs.driver_calls > 0
    assert ours.cpu_seconds <= 0.5 * theirs.cpu_seconds


def test_it_is_at_most_forty_megabytes_resident(ours):
    assert ours.resident_mib <= MOST_RESIDENT_MIB


def test_a_second_of_a_gpu_takes_no_more_driver_calls_and_less_time_in_them_than_nvitops(
    ours, theirs
):
    assert ours.driver_calls <= theirs.driver_calls
    assert ours.driver_seconds <= 0.5 * theirs.driver_seconds


def test_a_page_with_twice_as_many_series_comes_as_soon_as_nvitops(ours, theirs):
    assert ours.series >= 2 * theirs.series
    assert ours.scrape_ms(0.5) <= theirs.scrape_ms(0.5)


def test_a_gpu_that_hangs_and_one_that_is_lost_make_no_scrape_slower(fake_nvml_library):
    well, bad, page = measure_faults(scrapes=40)
    assert quantile(bad, 0.5) <= 2 * quantile(well, 0.5)
    assert page.count(b"\ngputailor_device_up{") == 8
    down = [line for line in page.splitlines() if line.startswith(b"gputailor_device_up{")]
    assert sorted(line.rpartition(b" ")[2] for line in down) == [b"0.0"] * 2 + [b"1.0"] * 6
