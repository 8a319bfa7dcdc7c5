"""Nothing is lost and nothing is doubled, whatever processes, pods, slices and drivers do.

A made-up node lives through random schedules: processes come and go, pods get and lose devices,
whole or in replicas, MIG is turned on and instances are taken apart, devices hang, fall off the
bus and come back, the driver is reloaded, the exporter starts anew. After each step what the device
rose by is what its containers and the unattributed rest rose by together.
"""

import math
from collections import defaultdict
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)
from prometheus_client.parser import text_string_to_metric_families

from gputailor_exporter import metrics as m
from gputailor_exporter.accounting import AccountingSettings, NodeAccounts
from gputailor_exporter.attribution.allocations import UNTOLD, Allocation, ContainerRef
from gputailor_exporter.devices.base import ProcessReading, Reason
from gputailor_exporter.metrics import CONTAINER_SIGNALS, Kind, Sharing, Signal
from gputailor_exporter.sampling.selfmetrics import SelfMetrics
from gputailor_exporter.serving.exposition import render
from tests.exporter.machines import GIB, GPU, OTHER, WALL, container, reading

#: What each family of containers has beside it on the device, so that all adds up.
PARTS = (
    (m.CONTAINER_ACTIVE_SECONDS, m.DEVICE_UNATTRIBUTED_ACTIVE_SECONDS, m.DEVICE_ACTIVE_SECONDS),
    (m.CONTAINER_ENERGY, m.DEVICE_UNATTRIBUTED_ENERGY, m.DEVICE_ENERGY),
)
CARRIED = {str(signal) for signal in CONTAINER_SIGNALS}
SLICES = tuple(
    replace(GPU, uuid=f"MIG-{place}", parent_uuid=GPU.uuid, mig_profile="1g.10gb")
    for place in range(3)
)
SERVER, GONE = 900, 800
#: Readings an exporter takes before it may be started anew.
LIVES = 6


def owner(pid):
    """Below 300 pods a, b, c; the MPS server; one that is gone; others of the host."""
    if pid == SERVER:
        return ContainerRef("", "", "", mps_server=True)
    if pid == GONE:
        return UNTOLD
    return container("abc"[pid // 100]) if pid < 300 else None


SHARE = st.floats(0.0, 1.0)
PIDS = (1, 2, 101, 201, GONE, SERVER, 950)
PROCESS = st.builds(
    ProcessReading,
    pid=st.sampled_from(PIDS),
    memory_used_bytes=st.none() | st.integers(0, 20 * GIB),
    kernel=st.none() | SHARE,
    encoder=st.none() | SHARE,
    decoder=SHARE,
)
SIGNALS = st.fixed_dictionaries(
    {Signal.KERNEL: st.sampled_from([0.0, 0.3, 1.0]) | SHARE},
    optional={
        Signal.SM: SHARE | st.just(math.nan),
        Signal.ENCODER: SHARE | st.just(1.5),
        Signal.OCCUPANCY: SHARE,
    },
)
CYCLE = st.fixed_dictionaries(
    {
        "signals": SIGNALS,
        "covers": st.none() | st.floats(0.0, 3.0),
        "used_bytes": st.none() | st.integers(0, 70 * GIB),
        "power_watts": st.none() | st.floats(0.0, 700.0),
        "processes": st.none() | st.lists(PROCESS, max_size=5).map(tuple),
        "process_utilization_known": st.booleans(),
    }
)


def unnamed(ref):
    return replace(ref, pod_uid="")


HOLDERS = st.lists(
    st.builds(
        lambda name, named, way, share, lasting: (
            container(name) if named else unnamed(container(name)),
            way,
            share,
            lasting,
        ),
        st.sampled_from("abc"),
        st.booleans(),
        st.sampled_from(list(Sharing)),
        st.sampled_from([0.25, 0.5, 1.0]),
        st.booleans(),
    ),
    max_size=3,
)


def values(snapshot):
    """Every sample but those of histograms."""
    return {
        (samples.family, row): value
        for samples in snapshot.families
        if samples.family.kind is not Kind.HISTOGRAM
        for row, value in zip(samples.rows, samples.values, strict=True)
    }


class Node(RuleBasedStateMachine):
    """One node and its exporter; time goes on with each step."""

    @initialize()
    def switch_on(self):
        self.now, self.starts, self.joules = 100.0, 0, defaultdict(float)
        self.present = {GPU.uuid: GPU, OTHER.uuid: OTHER}
        self.start_exporter()

    def start_exporter(self):
        self.starts, self.steps = self.starts + 1, 0
        self.accounts = NodeAccounts("node-1", AccountingSettings(linger_seconds=20.0))
        self.own = SelfMetrics(WALL + self.starts)
        self.accounts.set_devices(tuple(self.present.values()), 2)
        self.before = self.look()

    @precondition(lambda self: self.steps >= LIVES)
    @rule()
    def start_anew(self):
        self.start_exporter()

    def look(self):
        snapshot = self.accounts.snapshot(WALL + self.now)
        return values(snapshot.with_families(self.own.families()))

    @rule(
        step=st.sampled_from([0.1, 1.0, 2.0]) | st.floats(0.1, 9.0),
        held=st.none() | st.lists(HOLDERS, min_size=1, max_size=5),
        late=st.sampled_from([0.0, 0.0, 0.3, 1.5]),
        cycles=st.lists(CYCLE, min_size=1, max_size=3),
    )
    def go_on(self, step, held, late, cycles):
        """Time passes, kubelet may answer, and every device's reading arrives.

        A reading that took long carries the time at which it began, before kubelet's answer.
        """
        self.now, self.steps = self.now + step, self.steps + 1
        if held is not None:
            self.hand_out(held)
        for place, identity in enumerate(self.present.values()):
            self.joules[identity.uuid] += 100.0 * step
            self.read(identity, self.now - late, cycles[place % len(cycles)])

    def read(self, identity, at, cycle):
        given = dict(cycle)
        signals, covers = given.pop("signals"), given.pop("covers")
        energy = self.joules[identity.uuid] if given["power_watts"] is None else None
        one = reading(at, signals, covers=covers, energy_joules=energy, **given)
        self.accounts.advance(identity, one, owner, WALL + self.now)

    def hand_out(self, held):
        """Who holds each of five devices, of which some may not be here."""
        allocations = [
            Allocation(ref, identity.uuid, way, share, lasting)
            for place, identity in enumerate((GPU, OTHER, *SLICES))
            for ref, way, share, lasting in held[place % len(held)]
        ]
        self.accounts.set_allocations(allocations, self.now)

    @rule(uuid=st.sampled_from([GPU.uuid, OTHER.uuid]))
    def reload_driver(self, uuid):
        self.joules[uuid] = 0.0

    @rule(step=st.floats(0.0, 25.0), held=st.lists(HOLDERS, min_size=1, max_size=5))
    def hang_while_kubelet_answers(self, step, held):
        self.now += step
        self.hand_out(held)

    @rule(slices=st.sets(st.integers(0, 2)))
    def divide(self, slices):
        """MIG is turned on with these instances, or off without any."""
        self.present = {
            GPU.uuid: replace(GPU, mig_enabled=bool(slices)),
            **{SLICES[place].uuid: SLICES[place] for place in sorted(slices)},
            OTHER.uuid: OTHER,
        }
        self.accounts.set_devices(tuple(self.present.values()), 2)

    @rule(gone=st.sampled_from([GPU.uuid, OTHER.uuid]))
    def fall_off_the_bus(self, gone):
        left = [
            one for one in self.present.values() if gone not in {one.uuid, one.parent_uuid}
        ] or [OTHER]
        self.present = {one.uuid: one for one in left}
        self.accounts.set_devices(tuple(left), 2)

    @rule(device=st.integers(0, 4), reason=st.sampled_from(list(Reason)))
    def hang(self, device, reason):
        uuid = list(self.present)[device % len(self.present)]
        self.accounts.fail(uuid, reason, self.now)

    @invariant()
    def nothing_is_lost_or_doubled(self):
        if not hasattr(self, "before"):
            return
        before, after = self.before, self.look()
        self.before = after
        assert all(value >= 0.0 for value in after.values())
        alive = {row[2] for family, row in after if family is m.DEVICE_INFO}
        alive &= {row[2] for family, row in before if family is m.DEVICE_INFO}
        self.check_counters(before, after, alive)
        for families in PARTS:
            for key, rises in self.rises(families, before, after).items():
                if key[0] in alive and (len(key) == 1 or key[1] in CARRIED):
                    parts, rest, whole = rises
                    assert parts + rest == pytest.approx(whole, rel=1e-9, abs=1e-6), key
        check_memory(after)

    def check_counters(self, before, after, alive):
        """No counter of a living device falls; containers' do only where a new pod began."""
        for (family, row), value in after.items():
            old = before.get((family, row), 0.0)
            if family.kind is not Kind.COUNTER or value >= old:
                continue
            device = row[2] if family.labels[:1] == m.DEVICE_LABELS[:1] else ""
            began_anew = family.labels[: len(m.CONTAINER_LABELS)] == m.CONTAINER_LABELS and (
                not row[3] or row[5] not in alive
            )
            assert began_anew or device not in alive, (family.name, row, old, value)

    @staticmethod
    def rises(families, before, after):
        """By device (and signal): what containers, the rest and the device rose by."""
        found = defaultdict(lambda: [0.0, 0.0, 0.0])
        for (family, row), value in after.items():
            if family not in families:
                continue
            old = before.get((family, row), 0.0)
            rise = value - old if value >= old else value
            place = families.index(family)
            device = row[5] if place == 0 else row[2]
            signal = row[-1:] if "signal" in family.labels else ()
            found[device, *signal][place] += rise
        return found


def check_memory(after):
    parts = defaultdict(float)
    for (family, row), value in after.items():
        if family is m.CONTAINER_MEMORY_USED:
            parts[row[5]] += value
    for (family, row), rest in after.items():
        if family is m.DEVICE_UNATTRIBUTED_MEMORY:
            whole = after.get((m.DEVICE_MEMORY_USED, row))
            if whole is not None:  # the parent of MIG instances shows none
                assert parts[row[2]] + rest == pytest.approx(whole)


Node.TestCase.settings = settings(max_examples=80, stateful_step_count=30, deadline=None)
TestEveryScheduleConserves = Node.TestCase


def test_a_restart_is_seen_by_its_start_time_and_begins_at_0():
    node = Node()
    node.switch_on()
    busy = {"signals": {Signal.KERNEL: 1.0}, "covers": None}
    quiet = {"used_bytes": GIB, "power_watts": None, "processes": None}
    for _ in range(3):
        node.go_on(1.0, None, 0.0, [{**busy, **quiet, "process_utilization_known": False}])
    first = node.look()
    node.start_exporter()
    second = node.look()
    assert second[m.PROCESS_START_TIME, ()] > first[m.PROCESS_START_TIME, ()]
    counters = [value for (family, _), value in second.items() if family.kind is Kind.COUNTER]
    assert not any(counters)
    assert any(value for (family, _), value in first.items() if family.kind is Kind.COUNTER)


STEP = st.tuples(st.floats(0.2, 2.0), CYCLE, st.none() | HOLDERS)


@settings(max_examples=40)
@given(steps=st.lists(STEP, min_size=1, max_size=12))
def test_the_page_itself_adds_up(steps):
    made = NodeAccounts("node-1", AccountingSettings(linger_seconds=1e9))
    made.set_devices((GPU,), 1)
    at = 0.0
    for step, cycle, holders in steps:
        at += step
        if holders is not None:
            held = [
                Allocation(container(ref.pod), GPU.uuid, way, share)
                for ref, way, share, _ in holders
            ]
            made.set_allocations(held, at - step / 2)
        given_ = dict(cycle)
        signals, covers = given_.pop("signals"), given_.pop("covers")
        one = reading(at, signals, covers=covers, energy_joules=at * 50, **given_)
        made.advance(GPU, one, owner, WALL + at)
    page = render(made.snapshot(WALL + at)).decode()
    sums = defaultdict(float)
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            assert sample.value >= 0.0
            sums[sample.name, sample.labels.get("signal", "")] += sample.value
    for parts, rest, whole in PARTS:
        for signal in CARRIED | {""}:
            total = sums[parts.name, signal] + sums[rest.name, signal]
            assert total == pytest.approx(sums[whole.name, signal], rel=1e-9, abs=1e-6), signal
