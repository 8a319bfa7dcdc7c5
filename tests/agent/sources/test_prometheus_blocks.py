"""Histograms by blocks of hours: however they came to be read, the rows are those of one reading."""

import math
from functools import cache

import msgspec
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from gputailor_agent.rollup.history import fill_store, read_window
from gputailor_agent.sources.prometheus import BLOCK_SECONDS, HourReading, PrometheusError
from gputailor_agent.store import Store
from tests.agent.sources.test_prometheus_history import DAY_START, HOUR, SAID, FakeSource, page

BORN = DAY_START - 2 * HOUR
#: Of each hour in turn: seconds at zero, and at 0.6; the rest cannot be read.
LOADS = ((0, 3600), (3600, 0), (1700, 1900), (1, 3000), (900, 900))
HOURS = 12


def counted(at):
    """Seconds since the container was born: at zero, at 0.6."""
    zero = busy = 0.0
    for hour in range(BORN, int(at), HOUR):
        part = min(HOUR, at - hour) / HOUR
        told = LOADS[hour // HOUR % len(LOADS)]
        zero, busy = zero + part * told[0], busy + part * told[1]
    return zero, busy


def shown(at, *, histograms):
    """The exporter's page at one time."""
    zero, busy = counted(at)
    whole = page(at, born=BORN)
    told = msgspec.structs.replace(
        whole.containers[0],
        active={"kernel": busy * 0.6},
        observed={"kernel": zero + busy},
        histogram={"kernel": (zero, zero, zero + busy, zero + busy)} if histograms else {},
    )
    return msgspec.structs.replace(
        whole,
        containers=(told,),
        histogram_bounds=(0.0, 0.5, 0.75) if histograms else (),
        histograms_later=not histograms,
    )


class Blocks(FakeSource):
    """Reads histograms as the source does: where a block ends, and where all shall be complete."""

    def hours(self, start, end, *, known=None, complete=True):
        for place, hour in enumerate(range(start, int(end), HOUR)):
            if place >= self.most and not hour % BLOCK_SECONDS:
                return
            if hour == self.fails_at:
                raise PrometheusError("http://prom:9090 did not answer within 60 s")
            self.asked.append((hour, known is not None and place == 0))
            stop = min(hour + HOUR, math.floor(end))
            histograms = not stop % BLOCK_SECONDS or (complete and stop == math.floor(end))
            first = [shown(hour, histograms=True)] if place == 0 and known is None else []
            told = self.partial.get(hour, ())
            last = [] if told else [shown(stop, histograms=histograms)]
            yield HourReading(hour=hour, end=stop, pages=(*first, *last), partial=told)


def rows_of(store):
    return {row.key: row for row in store.usage("test", DAY_START, DAY_START + HOURS * HOUR)}


@cache
def at_once():
    with Store.open() as store:
        assert fill_store(Blocks(), DAY_START, DAY_START + HOURS * HOUR + 300, store) == []
        return rows_of(store)


_hours = st.integers(0, HOURS - 1)
_goes = st.lists(
    st.tuples(
        _hours,  # from which hour on
        st.integers(1, HOURS),  # how many had ended
        st.one_of(st.none(), _hours),  # in which the server fails
        st.one_of(st.none(), st.integers(1, 4)),  # so long ago one was told in part
        st.integers(1, 8),  # hours in a budget
    ),
    max_size=6,
)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(_goes)
@example([(11, 12, None, 4, 8), (9, 10, None, 4, 8)])
@example([(4, 6, None, 3, 8), (4, 10, 5, None, 8)])
@example([(0, 4, 8, 4, 8), (1, 5, None, 3, 8)])
@example([(0, 6, None, 1, 1), (0, 6, None, 3, 1)])
@example([(9, 10, None, None, 6), (0, 4, None, 4, 8), (6, 11, 0, 3, 7), (1, 6, 9, 1, 8)])
@example([(10, 12, None, 4, 4), (6, 12, None, 2, 6), (1, 9, 5, 2, 7)])
@example([(1, 2, None, 2, 3), (2, 10, 11, None, 2), (0, 6, None, 1, 5)])
@example([(0, 1, None, None, 1), (0, 6, None, 1, 1), (6, 7, None, None, 1)])
def test_any_order_of_goes_failures_and_late_hours_gives_the_rows_of_one_reading(goes):
    with Store.open() as store:
        for first, ended, fails, partly, most in goes:
            source = Blocks(most=most, fails_at=None if fails is None else DAY_START + fails * HOUR)
            if partly is not None:
                source.partial = {DAY_START + (ended - partly) * HOUR: SAID}
            try:
                fill_store(source, DAY_START + first * HOUR, DAY_START + ended * HOUR + 300, store)
            except PrometheusError:
                continue
        fill_store(Blocks(), DAY_START, DAY_START + HOURS * HOUR + 300, store)
        assert rows_of(store) == at_once()


def test_an_hour_waits_for_its_histogram_until_the_block_ends_in_the_store():
    with Store.open() as store:
        for ended in (1, 2, 5):
            fill_store(Blocks(), DAY_START, DAY_START + ended * HOUR + 300, store)
            uses = [row.signals["kernel"] for row in rows_of(store).values()]
            assert [use.histogram for use in uses] == [None] * ended
            assert all(use.awaited_seconds == use.observed_seconds for use in uses)
        fill_store(Blocks(), DAY_START, DAY_START + 6 * HOUR + 300, store)
        uses = [row.signals["kernel"] for row in rows_of(store).values()]
        assert all(use.histogram is not None and not use.awaited_seconds for use in uses)


def test_a_report_has_the_histograms_of_the_newest_hours_with_a_store_or_without():
    now = DAY_START + 3 * HOUR + 900
    alone = read_window(Blocks(), DAY_START + HOUR, now).rows
    with Store.open() as store:
        beside = read_window(Blocks(), DAY_START + HOUR, now, store).rows
        assert [row.signals["kernel"].histogram for row in rows_of(store).values()] == [None] * 3
    for rows in (alone, beside):
        assert {row.key.hour for row in rows} == {DAY_START + n * HOUR for n in (1, 2, 3)}
        assert all(row.signals["kernel"].histogram is not None for row in rows)
    assert {row.key: row for row in alone} == {row.key: row for row in beside}


def test_a_window_that_begins_inside_a_block_neither_loses_nor_gains_at_its_edge():
    whole = {row.key: row for row in read_window(Blocks(), DAY_START, DAY_START + 6 * HOUR).rows}
    part = read_window(Blocks(), DAY_START + 4 * HOUR, DAY_START + 6 * HOUR).rows
    assert {row.key: row for row in part} == {
        key: row for key, row in whole.items() if key.hour >= DAY_START + 4 * HOUR
    }
    for row in part:
        use = row.signals["kernel"]
        assert abs(use.histogram.total_seconds - use.observed_seconds) < 1
