import time

import msgspec
import pytest

from gputailor_agent.model.usage import ContainerCounters, Page, UsageRow
from gputailor_agent.rollup import CounterRollup
from gputailor_exporter.metrics import HISTOGRAM_BOUNDS
from tests.agent.rollup.exporter_model import GIB, Exporter, Job, run_pages

T0 = 1_800_000_000 // 3600 * 3600  # a full hour


def constant(value):
    return lambda second: value


def rollup_of(pages, **options):
    rollup = CounterRollup("c1", **options)
    for page in pages:
        rollup.add(page)
    return rollup


def rows_of(pages, **options) -> list[UsageRow]:
    return sorted(rollup_of(pages, **options).take_rows(), key=lambda row: row.key)


def test_a_shared_device_keeps_its_mean_share():
    exporter = Exporter([Job(constant(0.2), T0 + 1, share=0.25)], T0)
    [row] = rows_of(run_pages(exporter, T0 + 600, 60))
    assert row.share == 0.25


def test_a_share_outlives_its_gauge_until_the_last_seconds_are_counted():
    exporter = Exporter([Job(constant(0.2), T0 + 1, end=T0 + 570, share=0.25)], T0)
    [row] = rows_of(run_pages(exporter, T0 + 600, 60))
    assert row.allocated_seconds == 569
    assert row.share == 0.25


def test_memory_energy_links_and_last_active_come_along():
    exporter = Exporter(
        [Job(constant(0.5), T0 + 1, memory=lambda t: 30 * GIB if t == T0 + 77 else GIB)], T0
    )
    [row] = rows_of(run_pages(exporter, T0 + 600, 60))
    assert row.memory_peak_bytes == 30 * GIB
    assert row.memory_peak_kind == "peak"
    assert row.memory_total_bytes == 80 * GIB
    assert row.energy_joules == 59900
    assert row.link_bytes["pcie/rx"] == pytest.approx(599 * 0.5e9, rel=1e-6)
    assert row.last_active == T0 + 600
    assert row.samples == 10


def test_a_coarse_bucket_counts_at_its_upper_edge_with_its_resolution():
    exporter = Exporter([Job(constant(0.3), T0 + 1)], T0)
    [row] = rows_of(run_pages(exporter, T0 + 600, 60))
    kernel = row.signals["kernel"]
    assert kernel.histogram.resolution == 0.25
    assert kernel.histogram.quantile(0.5).high == 0.5
    assert kernel.histogram.quantile(0.5).low <= 0.3
    assert kernel.maximum == 0.5


def test_a_signal_that_becomes_readable_later_counts_from_then():
    exporter = Exporter([Job(constant(1.0), T0 + 1)], T0)
    pages = run_pages(exporter, T0 + 180, 60)
    blind = [
        msgspec.structs.replace(
            page,
            containers=tuple(
                msgspec.structs.replace(c, active={}, observed={}, histogram={})
                for c in page.containers
            ),
        )
        for page in pages[:2]
    ]
    [row] = rows_of([*blind, *pages[2:]])
    assert row.allocated_seconds == 179
    assert row.signals["kernel"].observed_seconds == 60  # 119 cannot have risen in 60 s


def test_a_histogram_that_does_not_match_its_bounds_is_left_out_and_counted():
    exporter = Exporter([Job(constant(1.0), T0 + 1)], T0)
    pages = [
        msgspec.structs.replace(page, histogram_bounds=(0.0, 0.5))
        for page in run_pages(exporter, T0 + 120, 60)
    ]
    rollup = rollup_of(pages)
    [row] = rollup.take_rows()
    assert row.signals["kernel"].observed_seconds == 119
    assert row.signals["kernel"].histogram is None
    assert rollup.problems["malformed_histogram"] > 0


def test_a_gap_of_years_is_cut_to_a_month_and_counted():
    exporter = Exporter([Job(constant(1.0), T0 + 1)], T0)
    pages = run_pages(exporter, T0 + 60, 60)
    [container] = pages[-1].containers
    years = 3 * 365 * 86400
    later = msgspec.structs.replace(
        container, allocated_seconds=59.0 + years, observed={"kernel": 59.0 + years}
    )
    pages.append(msgspec.structs.replace(pages[-1], at=T0 + 60.0 + years, containers=(later,)))
    rollup = rollup_of(pages)
    assert len(rollup.take_rows()) < 800
    assert rollup.problems["gap_too_long"] == 1


def test_an_ended_container_is_forgotten_but_its_row_is_not_lost():
    exporter = Exporter([Job(constant(1.0), T0 + 1, T0 + 100), Job(constant(1.0), T0, pod="b")], T0)
    rollup = rollup_of(run_pages(exporter, T0 + 2 * 3600, 60))
    state = rollup.state()
    assert [one.key[1] for one in state.series] == ["b"]
    kept = CounterRollup("c1", state=state).take_rows()
    assert {(row.key.pod, row.allocated_seconds) for row in kept} == {
        ("train-0", 99.0),
        ("b", 3600.0),
    }


def test_ten_thousand_containers_fold_in_a_page_quickly():
    signals = ("kernel", "sm", "tensor", "fp64", "fp32", "fp16", "dram", "encoder", "decoder")
    histograms = ("kernel", "sm", "tensor", "dram", "width")

    def page(at: float, value: float) -> Page:
        containers = tuple(
            ContainerCounters(
                namespace="n",
                pod=f"p{place}",
                pod_uid=f"u{place}",
                container="main",
                gpu_uuid=f"GPU-{place}",
                allocated=True,
                allocated_seconds=value,
                active=dict.fromkeys(signals, value / 2),
                observed=dict.fromkeys(signals, value),
                histogram={name: tuple([value] * 8) for name in histograms},
                conditions={"amp_candidate": 0.0, "zero_inside_active_minute": value},
                link_bytes={"pcie/rx": value, "pcie/tx": value},
                energy_joules=value,
            )
            for place in range(10_000)
        )
        return Page(
            at=at,
            exporter="e",
            process_started=0.0,
            containers=containers,
            histogram_bounds=HISTOGRAM_BOUNDS,
        )

    rollup = CounterRollup("c1")
    rollup.add(page(T0, 100.0))
    second = page(T0 + 30, 130.0)
    began = time.process_time()
    rollup.add(second)
    took = time.process_time() - began
    assert rollup.state().series[0].at == T0 + 30
    assert took < 1.5
