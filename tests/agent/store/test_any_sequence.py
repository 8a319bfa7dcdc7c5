"""Any sequence of writing, compacting, crashing and opening again agrees with a plain dictionary."""

import itertools
from contextlib import suppress

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from gputailor_agent.model.inventory import Resolution
from gputailor_agent.model.profile import Window
from gputailor_agent.profiles import build_profiles
from gputailor_agent.store import Store, compacting
from gputailor_agent.store.compacting import compact
from tests.agent.factories import DAY, HOUR, NOW, inventory, row

FIRST = NOW
DAYS = 2
#: Few hours, so that they are written again and again: the edges of days and some inside.
hours = st.sampled_from((0, 1, 22, 23, 24, 47))
clusters = itertools.count()


class CrashError(Exception):
    """The process ended here."""


class StoreMachine(RuleBasedStateMachine):
    """``address`` is set by each test; a cluster's name of its own makes the store empty."""

    address = ""

    @initialize()
    def begin(self):
        self.cluster = f"c{next(clusters)}"
        self.store = Store.open(self.address)
        self.known = {}
        self.now = float(FIRST + DAYS * DAY)  # only the last day may still be open

    def teardown(self):
        if hasattr(self, "store"):
            self.store.close()

    def made(self, pod, place, level):
        one = row(FIRST + place * HOUR, pod=pod, kernel=level, dram=level / 2, memory_gib=level * 9)
        key = msgspec.structs.replace(one.key, cluster=self.cluster)
        return msgspec.structs.replace(one, key=key)

    @rule(
        pods=st.sets(st.sampled_from("ab"), min_size=1),
        place=hours,
        length=st.sampled_from((1, 2, 3)),
        level=st.sampled_from((0.0, 0.25, 1.0)),
        before=st.sampled_from((None, None, 0.5)),
        crash=st.sampled_from((False, False, True)),
    )
    def write(self, *, pods, place, length, level, before, crash):
        """Write hours, or write them again with other figures; a crash leaves nothing of it.

        One call may hold a row twice: the last one counts (``before``: the level of the first).
        """
        end = min(DAYS * 24, place + length)
        levels = (level,) if before is None else (before, level)
        usage = [
            self.made(pod, at, one) for one in levels for pod in pods for at in range(place, end)
        ]
        with suppress(CrashError), self.store.transaction() as tx:
            tx.put_usage(usage)
            if crash:
                raise CrashError
        if not crash:
            self.known.update({one.key: one for one in usage})

    @precondition(lambda self: self.known)
    @rule(data=st.data(), level=st.sampled_from((0.125, 0.75)))
    def rewrite(self, data, level):
        """Write one hour that is there already with figures that it never had."""
        key = data.draw(st.sampled_from(sorted(self.known)))
        place = (key.hour - FIRST) // HOUR
        self.write(pods={key.pod}, place=place, length=1, level=level, before=None, crash=False)

    @rule(
        ahead=st.sampled_from((0, 1, 6)),
        keep_days=st.sampled_from((400.0, 400.0, 400.0, 2.0)),
        batch=st.integers(1, 3),
        crash_after=st.sampled_from((None, None, None, 0, 1, 2)),
    )
    def compact(self, ahead, keep_days, batch, crash_after):
        """Sum up what is over, in small steps; a crash may come between any two of them."""
        self.now += ahead * HOUR
        left = itertools.count() if crash_after is None else iter(range(crash_after))
        summed = compacting._sum_up_places

        def step(*given):
            if next(left, None) is None:
                raise CrashError
            return summed(*given)

        with pytest.MonkeyPatch.context() as patch, suppress(CrashError):
            patch.setattr(compacting, "_BATCH", batch)
            patch.setattr(compacting, "_sum_up_places", step)
            compact(self.store, self.cluster, self.now, keep_days=keep_days)
        oldest = (self.now - keep_days * DAY) // DAY * DAY
        self.known = {key: one for key, one in self.known.items() if key.hour >= oldest}

    @rule()
    def restart(self):
        self.store.close()
        self.store = Store.open(self.address)

    @rule(start=hours, length=st.sampled_from((1, 2, 24, DAYS * 24)))
    def query(self, start, length):
        self.agrees(FIRST + start * HOUR, FIRST + (start + length) * HOUR)

    @invariant()
    def all_of_it_agrees(self):
        self.agrees(FIRST, FIRST + DAYS * DAY)

    def agrees(self, begin, end):
        """Check hours and profiles of [begin, end)."""
        wanted = [one for key, one in sorted(self.known.items()) if begin <= key.hour < end]
        read = sorted(self.store.usage(self.cluster, begin, end), key=lambda one: one.key)
        assert read == wanted
        window = Window(start=float(begin), end=float(end))
        parts = self.store.usage_parts(self.cluster, begin, end)
        assert self.profiles(parts, window) == self.profiles(wanted, window)

    @staticmethod
    def profiles(usage, window):
        return build_profiles(usage, [], inventory(at=window.end), Resolution(), window)


def test_any_sequence_of_events_agrees_with_a_dictionary(address):
    machine = type("OnThisStore", (StoreMachine,), {"address": address})
    many = 6 if "postgresql" in address else 20
    some = settings(max_examples=many, stateful_step_count=20)
    run_state_machine_as_test(machine, settings=some)
