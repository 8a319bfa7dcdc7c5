"""Whatever fails and whenever: every second that can be known is counted once."""

from contextlib import contextmanager
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import event

from gputailor_agent.schedule import ServiceSettings
from gputailor_agent.store import Store
from tests.agent.rollup.exporter_model import Exporter, Job
from tests.agent.schedule.fakes import T0, ExporterSource, service_of

HOURLY = ServiceSettings(cluster="c1", recommend_seconds=3600)
GRID = 1 / 1024


class Kill(BaseException):
    """SIGKILL: nothing gets to clean up, and the database never hears of a commit."""


@contextmanager
def killed_at_statement(store, number):
    """Within: the process dies when it sends its ``number``-th statement (a commit is one)."""
    left = number

    def count(*_):
        nonlocal left
        left -= 1
        if left < 0:
            raise Kill

    names = ("before_cursor_execute", "commit")
    for name in names:
        event.listen(store._engine, name, count)
    try:
        yield
    finally:
        for name in names:
            event.remove(store._engine, name, count)


@contextmanager
def refused(store):
    """Within: the database takes no write, as when the disk is full."""

    def refuse(_connection, _cursor, statement, *_):
        if statement.startswith("INSERT"):
            raise OSError("disk full")

    event.listen(store._engine, "before_cursor_execute", refuse)
    try:
        yield
    finally:
        event.remove(store._engine, "before_cursor_execute", refuse)


class World:
    """An exporter, a store, and agents that come and go; keeps what an agent can know."""

    def __init__(self, store, ends):
        self.store, self.now = store, T0
        self.exporter = Exporter(
            [Job(lambda t: (t % 4) / 4, T0 + 5), Job(lambda _: 1.0, T0 + 5, ends, "short", "u2")],
            T0,
        )
        self.source = ExporterSource(self.exporter)
        self.seen = {}  # exporter start -> pod -> counter on the last page that was not lost
        self.unsaved = []
        self.begin()

    def begin(self):
        self.service = service_of(
            self.store, self.exporter, self.now, settings=HOURLY, source=self.source
        )

    def look(self, *, after, killed_at=None, full=False, silent=False):
        self.now += after
        self.source.down = {self.exporter.name} if silent else set()
        try:
            if killed_at is not None:
                with killed_at_statement(self.store, killed_at):
                    self.tick()
            elif full:
                with refused(self.store):
                    self.tick()
            else:
                self.tick()
        except Kill:
            self.unsaved = []
            self.begin()

    def tick(self):
        went_well = self.service.tick_scrape(self.now)
        if not self.source.down:
            page = self.exporter.page()
            counters = {c.pod: (c.allocated_seconds, c.active["kernel"]) for c in page.containers}
            self.unsaved.append((page.process_started, counters))
        if went_well:
            self.save()
        self.service.run_due(self.now)

    def save(self):
        for started, counters in self.unsaved:
            self.seen.setdefault(started, {}).update(counters)
        self.unsaved = []

    def restart_exporter(self, down):
        self.exporter.advance(self.now)
        self.exporter.restart(self.now + down)

    def stored(self, pod):
        rows = [row for row in self.store.usage("c1", 0, 1e11) if row.key.pod == pod]
        assert all(row.allocated_seconds <= 3600 + GRID for row in rows)
        return (
            sum(row.allocated_seconds for row in rows),
            sum(row.signals["kernel"].active_seconds for row in rows if row.signals),
        )

    def known(self, pod):
        found = [counters[pod] for counters in self.seen.values() if pod in counters]
        return tuple(map(sum, zip(*found, strict=True))) if found else (0.0, 0.0)


always = st.sampled_from([True])
steps = st.one_of(
    st.fixed_dictionaries({"after": st.sampled_from([15, 30, 60])}),
    st.fixed_dictionaries({"after": st.integers(1, 5000)}),
    st.fixed_dictionaries({"after": st.integers(10, 90), "killed_at": st.integers(0, 12)}),
    st.fixed_dictionaries({"after": st.integers(10, 4000), "full": always}),
    st.fixed_dictionaries({"after": st.integers(10, 900), "silent": always}),
    st.integers(1, 200),  # the exporter restarts and is down for so long
)


@settings(max_examples=25, deadline=None)
@given(st.lists(steps, min_size=1, max_size=14), st.integers(60, 9000))
def test_kills_full_disks_and_restarts_double_nothing_and_lose_nothing(course, short_lives):
    with TemporaryDirectory() as folder, Store.open(f"{folder}/g.db") as store:
        world = World(store, T0 + short_lives)
        world.look(after=0)
        for step in course:
            if isinstance(step, int):
                world.restart_exporter(step)
                world.now += step
            else:
                world.look(**step)
        world.look(after=30)
        assert world.service.flush(world.now)
        for pod in ("train-0", "short"):
            assert world.stored(pod) == pytest.approx(world.known(pod), abs=2 * GRID)
