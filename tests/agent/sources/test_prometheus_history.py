"""Hours of a server into rows and a store: asked once, kept, gone on with."""

import pytest

from gputailor_agent.model.usage import ContainerCounters, Device, Page
from gputailor_agent.rollup.history import fill_store, read_window
from gputailor_agent.rollup.hours import HourRollup
from gputailor_agent.sources.prometheus import Budget, Cost, HourReading, PrometheusError
from gputailor_agent.store import Store, StoreError

HOUR = 3600
DAY_START = 1_768_003_200  # a whole hour


def page(at, *, node="node-a", born=DAY_START - 7200):
    """A container that is busy half of the time, since long ago."""
    held = float(at - born)
    counters = ContainerCounters(
        namespace="team", pod="p", pod_uid="u", container="main", gpu_uuid="GPU-0", allocated=True,
        allocated_seconds=held, active={"kernel": held / 2}, observed={"kernel": held},
    )  # fmt: skip
    device = Device(cluster="test", gpu_uuid="GPU-0", node=node, model="NVIDIA L4")
    return Page(
        at=float(at), exporter=node, process_started=float(born), devices=(device,),
        containers=(counters,),
    )  # fmt: skip


class FakeSource:
    """A server that has every hour; ``fails_at`` breaks the reading of that hour."""

    cluster = "test"
    labels = {}  # noqa: RUF012 - as the source has it
    address = "http://prom:9090"

    def __init__(self, fails_at=None, most=1000, present=("gputailor",)):
        self.asked = []
        self.fails_at, self.most, self.present = fails_at, most, present
        self.budget, self.cost = Budget(), Cost()
        self.ahead = 0.0
        self.partial = {}  # by hour, what the server says of its answers
        self.halves = False  # whether partial answers have half of the hour, or nothing

    def ahead_seconds(self):
        return self.ahead

    def dialects(self, start, end):
        return self.present

    def hours(self, start, end, *, known=None, complete=True):
        for place, hour in enumerate(range(start, int(end), HOUR)):
            if place >= self.most:
                return
            if hour == self.fails_at:
                raise PrometheusError("http://prom:9090 did not answer within 60 s")
            self.asked.append((hour, known is not None and place == 0))
            stop = min(hour + HOUR, int(end))
            first = [page(hour)] if place == 0 and known is None else []
            told = self.partial.get(hour, ())
            last = [page(stop - HOUR // 2)] if self.halves else []
            pages = (*first, *(last if told else [page(stop)]))
            yield HourReading(hour=hour, end=stop, pages=pages, partial=told)


def ends(count):
    """A ``now`` at which so many hours have ended and settled."""
    return DAY_START + count * HOUR + 300


def hours_of(rows):
    return {(row.key.hour - DAY_START) // HOUR: row.allocated_seconds for row in rows}


@pytest.fixture
def store(tmp_path):
    with Store.open(tmp_path / "cache.db") as opened:
        yield opened


def test_every_hour_is_asked_for_once(store):
    source = FakeSource()
    assert fill_store(source, DAY_START, ends(3), store) == []
    assert fill_store(source, DAY_START, ends(3), store) == []
    assert fill_store(source, DAY_START, ends(5), store) == []
    assert [hour for hour, _ in source.asked] == [DAY_START + n * HOUR for n in range(5)]
    kept = hours_of(store.usage("test", DAY_START, ends(9)))
    assert kept == dict.fromkeys(range(5), 3600.0)


def test_the_next_hour_goes_on_from_the_counters_that_are_kept(store):
    source = FakeSource()
    fill_store(source, DAY_START, ends(2), store)
    fill_store(source, DAY_START, ends(3), store)
    assert source.asked[-1] == (DAY_START + 2 * HOUR, True)


def test_an_hour_is_not_kept_before_late_scrapes_have_come(store):
    source = FakeSource()
    fill_store(source, DAY_START, DAY_START + 2 * HOUR + 60, store)
    assert hours_of(store.usage("test", DAY_START, ends(3))) == {0: 3600.0}


def test_older_hours_are_added_without_losing_the_newest_counters(store):
    source = FakeSource()
    fill_store(source, DAY_START + 6 * HOUR, ends(8), store)
    fill_store(source, DAY_START, ends(9), store)
    assert [(hour - DAY_START) // HOUR for hour, _ in source.asked] == [6, 7, *range(6), 8]
    assert source.asked[-1][1]
    assert hours_of(store.usage("test", DAY_START, ends(9))) == dict.fromkeys(range(9), 3600.0)


def test_blocks_of_histograms_are_read_whole(store):
    source = FakeSource()
    fill_store(source, DAY_START + 8 * HOUR, ends(10), store)
    assert [(hour - DAY_START) // HOUR for hour, _ in source.asked] == [6, 7, 8, 9]


def test_a_server_that_fails_half_way_leaves_what_was_read(store):
    broken = FakeSource(fails_at=DAY_START + 2 * HOUR)
    (problem,) = fill_store(broken, DAY_START, ends(4), store)
    assert "read up to 2026-01-10 02:00 UTC and then stopped" in problem
    assert "did not answer" in problem
    healed = FakeSource()
    assert fill_store(healed, DAY_START, ends(4), store) == []
    assert [(hour - DAY_START) // HOUR for hour, _ in healed.asked] == [2, 3]
    assert hours_of(store.usage("test", DAY_START, ends(9))) == dict.fromkeys(range(4), 3600.0)


def test_a_server_that_fails_at_once_is_an_error(store):
    with pytest.raises(PrometheusError, match="did not answer"):
        fill_store(FakeSource(fails_at=DAY_START), DAY_START, ends(2), store)
    with pytest.raises(PrometheusError, match="did not answer"):
        read_window(FakeSource(fails_at=DAY_START), DAY_START, ends(2))


def test_a_write_that_fails_forgets_the_hour(store, monkeypatch):
    source = FakeSource()
    fill_store(source, DAY_START, ends(1), store)

    def full(*_):
        raise StoreError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr("gputailor_agent.store.writing.Transaction.put_checkpoint", full)
        with pytest.raises(StoreError):
            fill_store(source, DAY_START, ends(2), store)
    assert hours_of(store.usage("test", DAY_START, ends(3))) == {0: 3600.0}
    fill_store(source, DAY_START, ends(2), store)
    assert hours_of(store.usage("test", DAY_START, ends(3))) == {0: 3600.0, 1: 3600.0}


def test_a_used_up_budget_is_told_and_gone_on_with(store):
    (problem,) = fill_store(FakeSource(most=2), DAY_START, ends(3), store)
    assert "the budget of samples is used up; run again to go on" in problem
    assert fill_store(FakeSource(most=2), DAY_START, ends(3), store) == []


def test_other_servers_and_labels_are_kept_apart(store):
    fill_store(FakeSource(), DAY_START, ends(1), store)
    other = FakeSource()
    other.labels = {"cluster": "lab"}
    fill_store(other, DAY_START, ends(1), store)
    assert len(other.asked) == 1


def test_a_window_has_the_running_hour_which_is_never_kept(store):
    now = ends(2) + 900
    found = read_window(FakeSource(), DAY_START, now, store)
    assert hours_of(found.rows) == {0: 3600.0, 1: 3600.0, 2: 1200.0}
    assert hours_of(store.usage("test", DAY_START, now)) == {0: 3600.0, 1: 3600.0}
    again = FakeSource()
    found = read_window(again, DAY_START, now, store)
    assert hours_of(found.rows) == {0: 3600.0, 1: 3600.0, 2: 1200.0}
    assert again.asked == [(DAY_START + 2 * HOUR, True)]
    assert [device.model for device in found.devices] == ["NVIDIA L4"]


def test_a_window_needs_no_store():
    told = []
    found = read_window(
        FakeSource(), DAY_START + 17, ends(2), progress=lambda *done: told.append(done)
    )
    assert hours_of(found.rows) == {0: 3600.0, 1: 3600.0, 2: 300.0}
    assert told == [(1, 3), (2, 3), (3, 3)]


def test_a_server_without_metrics_of_gpus_is_told():
    with pytest.raises(PrometheusError, match="has no GPU metrics of this time"):
        read_window(FakeSource(present=()), DAY_START, ends(1))


def test_damaged_memory_of_what_was_read_costs_only_a_second_reading(store):
    fill_store(FakeSource(), DAY_START, ends(2), store)
    with store.transaction() as tx:
        for name in _checkpoints(store):
            tx.put_checkpoint(name, b"\xff damaged")
    again = FakeSource()
    assert fill_store(again, DAY_START, ends(2), store) == []
    assert len(again.asked) == 2
    assert hours_of(store.usage("test", DAY_START, ends(3))) == {0: 3600.0, 1: 3600.0}


def _checkpoints(store):
    with store._reading() as connection:
        return [row[0] for row in connection.exec_driver_sql("SELECT name FROM checkpoints")]


def test_what_went_wrong_is_told_in_words():
    rollup = HourRollup("test")
    rollup.add(HourReading(hour=DAY_START, end=DAY_START + HOUR, pages=(page(DAY_START),)))
    rollup.add(HourReading(hour=DAY_START, end=DAY_START + HOUR, pages=(page(DAY_START),)))
    assert rollup.told() == ["page out of order (1x)"]


SAID = ("store 10.0.0.3 unavailable",)


def test_an_hour_that_was_told_in_part_is_asked_for_again_with_its_block(store):
    source = FakeSource()
    source.partial = {DAY_START + HOUR: SAID}
    (told,) = fill_store(source, DAY_START, ends(4), store)
    assert SAID[0] in told
    assert "asked for again" in told
    healed = FakeSource()
    assert fill_store(healed, DAY_START, ends(4), store) == []
    assert [(hour - DAY_START) // HOUR for hour, _ in healed.asked] == [0, 1, 2, 3]
    kept = hours_of(store.usage("test", DAY_START, ends(9)))
    assert kept == dict.fromkeys(range(4), 3600.0)


def test_what_was_told_in_full_is_not_replaced_by_a_part(store):
    source = FakeSource()
    source.partial = {DAY_START + HOUR: SAID}
    fill_store(source, DAY_START, ends(4), store)
    worse = FakeSource(fails_at=DAY_START + HOUR)
    worse.partial, worse.halves = {DAY_START: SAID}, True
    fill_store(worse, DAY_START, ends(4), store)
    assert worse.asked == [(DAY_START, False)]
    assert hours_of(store.usage("test", DAY_START, DAY_START + HOUR)) == {0: 3600.0}


def test_an_old_hour_that_stays_partial_is_taken_as_it_is(store):
    source = FakeSource()
    source.partial = {DAY_START: SAID}
    fill_store(source, DAY_START, ends(8), store)
    again = FakeSource()
    fill_store(again, DAY_START, ends(8), store)
    assert again.asked == []


def test_hours_end_by_the_servers_clock(store):
    source = FakeSource()
    source.ahead = 2.0 * HOUR
    (told,) = fill_store(source, DAY_START, ends(5), store)
    assert "clock is 7200 s ahead of the server's" in told
    assert len(source.asked) == 3
