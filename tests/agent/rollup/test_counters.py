import msgspec
import pytest

from gputailor_agent.model.usage import UsageRow
from gputailor_agent.rollup import CounterRollup, decode_state, encode_state
from tests.agent.rollup.exporter_model import Exporter, Job, run_pages

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


@pytest.mark.parametrize("every", [5, 15, 30, 60])
def test_a_job_one_second_on_one_second_off_reads_one_half_at_any_interval(every):
    exporter = Exporter([Job(lambda second: float(second % 2), T0 + 60)], T0)
    [row] = rows_of(run_pages(exporter, T0 + 3600, every))
    kernel = row.signals["kernel"]
    assert kernel.mean == pytest.approx(0.5, abs=0.02)
    assert kernel.histogram.zero_seconds == pytest.approx(kernel.observed_seconds / 2, abs=1)
    assert kernel.maximum == 1.0


def test_a_rise_across_an_hour_is_split_in_proportion_of_time():
    exporter = Exporter([Job(constant(1.0), T0)], T0)
    exporter.advance(T0 + 3540)
    first = exporter.page()
    exporter.advance(T0 + 3540 + 240)
    early, late = rows_of([Exporter([], T0).page(), first, exporter.page()])
    assert early.signals["kernel"].active_seconds == 3600
    assert late.signals["kernel"].active_seconds == 180


def test_a_page_exactly_at_the_hours_end_belongs_to_the_hour_it_ends():
    exporter = Exporter([Job(constant(1.0), T0)], T0)
    rows = rows_of(run_pages(exporter, T0 + 3600, 60))
    assert [row.key.hour for row in rows] == [T0]


def test_a_long_running_exporter_is_not_credited_its_history():
    exporter = Exporter([Job(constant(1.0), T0)], T0)
    exporter.advance(T0 + 1800)
    [row] = rows_of(run_pages(exporter, T0 + 1860, 60))
    assert row.allocated_seconds == 60
    assert row.signals["kernel"].observed_seconds == 60


def test_a_first_sample_alone_gives_no_row():
    exporter = Exporter([Job(constant(1.0), T0)], T0)
    exporter.advance(T0 + 1800)
    assert rows_of([exporter.page()]) == []


def test_a_container_that_came_between_two_pages_counts_from_zero():
    exporter = Exporter([Job(constant(1.0), T0 + 70)], T0)
    [row] = rows_of(run_pages(exporter, T0 + 120, 60))
    assert row.allocated_seconds == 50


def test_an_exporter_that_started_inside_the_watch_counts_from_zero():
    watch = Exporter([], T0, name="http://node-b:9400").page()
    exporter = Exporter([Job(constant(1.0), T0)], T0 + 30)
    exporter.advance(T0 + 90)
    [row] = rows_of([watch, exporter.page()])
    assert row.allocated_seconds == 60


def test_a_container_older_than_its_exporters_previous_page_is_not_credited_its_history():
    exporter = Exporter([Job(constant(1.0), T0)], T0)
    exporter.advance(T0 + 3000)
    page = exporter.page()
    hidden = msgspec.structs.replace(page, containers=())
    exporter.advance(T0 + 3060)
    assert rows_of([hidden, exporter.page()]) == []


def test_a_restarted_exporter_counts_anew_even_where_its_counters_are_higher():
    exporter = Exporter([Job(constant(1.0), T0 + 10)], T0)
    pages = [exporter.page()]
    exporter.advance(T0 + 30)
    pages.append(exporter.page())  # 20 s seen
    exporter.restart(T0 + 60)
    exporter.advance(T0 + 160)
    pages.append(exporter.page())  # counters now at 100
    [row] = rows_of(pages)
    assert row.allocated_seconds == 120


@pytest.mark.parametrize("skew", [-3600, 3600])
def test_an_exporters_wrong_clock_costs_no_second_after_its_restart(skew):
    exporter = Exporter([Job(constant(1.0), T0 + 10)], T0)
    pages = run_pages(exporter, T0 + 60, 30)
    exporter.restart(T0 + 70)
    pages += run_pages(exporter, T0 + 190, 30)[1:]
    skewed = [
        msgspec.structs.replace(page, process_started=page.process_started + skew) for page in pages
    ]
    [row] = rows_of(skewed)
    assert row.allocated_seconds == 50 + 120


def test_a_source_that_counts_no_allocated_time_gets_it_from_the_pages_clock():
    exporter = Exporter([Job(constant(1.0), T0 + 10, T0 + 300)], T0)
    pages = [
        msgspec.structs.replace(
            page,
            process_started=None,
            containers=tuple(
                msgspec.structs.replace(c, allocated_seconds=None) for c in page.containers
            ),
        )
        for page in run_pages(exporter, T0 + 600, 30)
    ]
    [row] = rows_of(pages)
    assert row.allocated_seconds == 270  # to the last page on which it was held
    assert row.signals["kernel"].observed_seconds == 290


def test_a_pod_of_the_same_name_that_began_anew_counts_from_zero():
    jobs = [Job(constant(1.0), T0 + 10, T0 + 50, pod_uid="")]
    exporter = Exporter(jobs, T0)
    pages = run_pages(exporter, T0 + 60, 20)
    exporter.jobs = [jobs[0], Job(constant(1.0), T0 + 65, pod_uid="")]
    exporter.advance(T0 + 80)
    page = exporter.page()
    pages.append(msgspec.structs.replace(page, containers=page.containers[1:]))
    [row] = rows_of(pages)
    assert row.allocated_seconds == 40 + 15


def test_a_counter_that_falls_without_a_restart_adds_nothing_and_is_counted():
    exporter = Exporter([Job(constant(1.0), T0 + 1)], T0)
    pages = run_pages(exporter, T0 + 120, 60)
    last = pages[-1]
    [container] = last.containers
    fallen = msgspec.structs.replace(container, active={"kernel": 5.0}, allocated_seconds=120.0)
    pages.append(msgspec.structs.replace(last, at=last.at + 1, containers=(fallen,)))
    rollup = rollup_of(pages)
    [row] = rollup.take_rows()
    assert row.signals["kernel"].active_seconds == 119
    assert rollup.problems["counter_decreased"] >= 1


def test_a_rise_faster_than_time_is_cut_back_and_counted():
    exporter = Exporter([Job(constant(1.0), T0 + 1)], T0)
    pages = run_pages(exporter, T0 + 60, 60)
    [container] = pages[-1].containers
    wild = msgspec.structs.replace(
        container,
        active={"kernel": 90000.0},
        observed={"kernel": 100000.0},
        allocated_seconds=container.allocated_seconds + 60,
    )
    pages.append(msgspec.structs.replace(pages[-1], at=T0 + 120.0, containers=(wild,)))
    rollup = rollup_of(pages)
    [row] = rollup.take_rows()
    assert row.signals["kernel"].observed_seconds == 59 + 60
    assert row.signals["kernel"].active_seconds <= row.signals["kernel"].observed_seconds
    assert rollup.problems["faster_than_time"] == 1


def test_a_device_whose_signal_stops_stops_being_observed():
    exporter = Exporter([Job(lambda t: 0.8 if t < T0 + 600 else None, T0 + 1)], T0)
    [row] = rows_of(run_pages(exporter, T0 + 3600, 60))
    assert row.allocated_seconds == 3599
    assert row.signals["kernel"].observed_seconds == 599
    assert row.signals["kernel"].mean == pytest.approx(0.8, abs=1e-3)


def test_an_hour_without_a_signal_does_not_name_it():
    exporter = Exporter([Job(lambda t: 0.8 if t < T0 + 600 else None, T0 + 1)], T0)
    _, late = rows_of(run_pages(exporter, T0 + 7200, 60))
    assert late.allocated_seconds == 3600
    assert "kernel" not in late.signals


def test_pages_twice_or_out_of_order_change_nothing_and_are_counted():
    exporter = Exporter([Job(constant(0.5), T0 + 1)], T0)
    pages = run_pages(exporter, T0 + 600, 60)
    rollup = rollup_of([*pages[:6], pages[5], pages[2], *pages[6:]])
    assert rollup.take_rows() == rows_of(pages)
    assert rollup.problems["page_out_of_order"] == 2


def test_rows_are_absolute_and_only_given_when_changed():
    exporter = Exporter([Job(constant(1.0), T0 + 1)], T0)
    rollup = rollup_of(run_pages(exporter, T0 + 600, 60))
    [first] = rollup.take_rows()
    assert rollup.take_rows() == []
    exporter.advance(T0 + 660)
    rollup.add(exporter.page())
    [second] = rollup.take_rows()
    assert (first.allocated_seconds, second.allocated_seconds) == (599, 659)


def test_only_hours_that_ended_are_given_before_a_time():
    exporter = Exporter([Job(constant(1.0), T0 + 1)], T0)
    rollup = rollup_of(run_pages(exporter, T0 + 5400, 60))
    assert [row.key.hour for row in rollup.take_rows(before=T0 + 5400)] == [T0]
    assert [row.key.hour for row in rollup.take_rows()] == [T0 + 3600]


def test_rows_given_back_are_given_again():
    exporter = Exporter([Job(constant(1.0), T0 + 1)], T0)
    rollup = rollup_of(run_pages(exporter, T0 + 5400, 60))
    rows = rollup.take_rows()
    rollup.give_back(rows)
    assert sorted(rollup.take_rows(), key=lambda r: r.key) == sorted(rows, key=lambda r: r.key)


def test_a_gap_is_spread_over_its_hours_and_marked():
    exporter = Exporter([Job(constant(1.0), T0 + 1)], T0)
    pages = run_pages(exporter, T0 + 1800, 60)
    exporter.advance(T0 + 9000)
    rows = rows_of([*pages, exporter.page()])
    assert [row.signals["kernel"].active_seconds for row in rows] == [3599, 3600, 1800]
    assert [row.spread_seconds for row in rows] == [1800, 3600, 1800]


def test_one_page_at_each_hours_end_places_everything_exactly():
    exporter = Exporter([Job(constant(1.0), T0 + 1)], T0)
    rows = rows_of(run_pages(exporter, T0 + 4 * 3600, 3600))
    assert [row.allocated_seconds for row in rows] == [3599, 3600, 3600, 3600]
    assert [row.spread_seconds for row in rows] == [0, 0, 0, 0]


def test_a_pod_that_ended_unseen_lacks_the_time():
    exporter = Exporter([Job(constant(1.0), T0 + 1, T0 + 3000)], T0)
    pages = run_pages(exporter, T0 + 1800, 60)
    exporter.advance(T0 + 9000)
    [row] = rows_of([*pages, exporter.page()])
    assert row.allocated_seconds == 1799


def test_a_pod_that_ended_is_counted_to_its_end_by_the_lingering_counters():
    exporter = Exporter([Job(constant(1.0), T0 + 1, T0 + 130)], T0)
    [row] = rows_of(run_pages(exporter, T0 + 600, 60))
    assert row.allocated_seconds == 129


def test_after_a_restart_the_stored_state_gives_the_same_rows():
    exporter = Exporter([Job(lambda t: (t % 7) / 7, T0 + 1)], T0)
    pages = run_pages(exporter, T0 + 9000, 45)
    rollup = CounterRollup("c1")
    for page in pages:
        rollup.add(page)
        rollup = CounterRollup("c1", state=decode_state(encode_state(rollup.state())))
    assert sorted(rollup.take_rows(), key=lambda row: row.key) == rows_of(pages)
    assert [device.gpu_uuid for device in rollup.devices()] == ["GPU-0"]


def test_an_address_that_changed_goes_on_with_the_same_counters():
    exporter = Exporter([Job(constant(1.0), T0 + 1)], T0)
    pages = run_pages(exporter, T0 + 600, 60)
    exporter.name = "http://10.0.0.9:9400"
    pages += run_pages(exporter, T0 + 1200, 60)[1:]
    [row] = rows_of(pages)
    assert row.allocated_seconds == 1199


def test_two_exporters_of_one_node_do_not_count_twice():
    one = Exporter([Job(constant(1.0), T0 + 1)], T0)
    other = Exporter([Job(constant(1.0), T0 + 1)], T0 - 7200, name="http://other:9400")
    other.advance(T0)
    first, second = run_pages(one, T0 + 1200, 60), run_pages(other, T0 + 1200, 60)
    mixed = [page for pair in zip(first, second, strict=True) for page in pair]
    [row] = rows_of(mixed)
    assert row.allocated_seconds == pytest.approx(1199, abs=1)


def test_the_warm_up_is_the_part_of_the_first_ten_minutes():
    exporter = Exporter([Job(lambda t: 0.0 if t < T0 + 300 else 1.0, T0)], T0)
    [row] = rows_of([Exporter([], T0 - 60).page(), *run_pages(exporter, T0 + 3600, 60)])
    assert row.warmup["kernel"].observed_seconds == 600
    assert row.warmup["kernel"].active_seconds == 300
