"""Changes that show beside the GPUs: requests, time limits, pods that stop, nodes taken out."""

import msgspec
import pytest

from gputailor_agent.inventory.hints import DEADLINE_HINT
from gputailor_agent.ledger import NOTHING_ASKED, Asked, asked_of, follow, records
from gputailor_agent.ledger.asking import Request
from gputailor_agent.ledger.changes import can_be_seen
from gputailor_agent.model.inventory import Outcome
from gputailor_agent.model.ledger import Result, State
from gputailor_agent.rules import changes as made_changes
from gputailor_agent.rules import idle_notebook
from gputailor_agent.rules.scaling import to_zero
from gputailor_agent.schedule.jobs import ledger as job
from gputailor_agent.store import Store
from tests.agent import factories
from tests.agent.ledger.worlds import DAY, HOUR, MONTH, T0, WEB, Seen, finding, plan, run
from tests.agent.rollup.exporter_model import Exporter, Job
from tests.agent.schedule import fakes

GIB = 2**30
RULE = "a_rule"
KEY = (WEB, RULE)
OPEN = frozenset({"node-a", "node-b", "node-c"})


class Book:
    """Entries moved on by plans, each with what was asked for at its time."""

    def __init__(self, change, **params):
        self.known = {}
        self.told = finding(change, rule=RULE, hours=None, **params)

    def see(self, now, *seen, asked=NOTHING_ASKED):
        made, profiles = plan(now, *seen)
        for entry in follow(self.known, made, profiles, (), asked):
            self.known[entry.key] = entry
        return self.known[KEY]

    def after(self, before, now, **seen):
        """The entry one plan after it was found; ``before`` and ``now``: what was asked for."""
        self.see(T0, Seen(self.told, **seen), asked=before)
        return self.see(T0 + HOUR, Seen(**seen), asked=now)


def asks(cpus=None, gib=None, deadline=None):
    memory = None if gib is None else int(gib * GIB)
    return Asked({WEB: Request(cpus, memory, deadline)})


@pytest.mark.parametrize(
    ("wanted", "now", "state", "in_full"),
    [
        ({"cpus": 12, "memory_gib": None}, asks(12, 64), State.APPLIED, True),
        ({"cpus": 12, "memory_gib": None}, asks(8, 64), State.APPLIED, True),
        ({"cpus": 12, "memory_gib": None}, asks(24, 64), State.APPLIED, False),
        ({"cpus": 12, "memory_gib": None}, asks(48, 32), State.NEW, True),
        ({"cpus": 12, "memory_gib": 32}, asks(12, 32), State.APPLIED, True),
        ({"cpus": 12, "memory_gib": 32}, asks(12, 64), State.APPLIED, False),
        ({"cpus": None, "memory_gib": 32}, asks(48, 32), State.APPLIED, True),
        ({"cpus": 12, "memory_gib": 32}, asks(96, 128), State.NEW, True),
        ({"cpus": 12, "memory_gib": 32}, NOTHING_ASKED, State.NEW, True),
    ],
)
def test_smaller_requests_are_seen_in_the_newest_runs_container(wanted, now, state, in_full):
    entry = Book("set_requests", **wanted).after(asks(48, 64), now)
    assert (entry.state, entry.in_full) == (state, in_full)


@pytest.mark.parametrize(
    ("wanted", "now", "state", "in_full"),
    [
        (7200, 7200.0, State.APPLIED, True),
        (7200, 3600.0, State.APPLIED, True),
        (7200, 50_000.0, State.APPLIED, False),
        (7200, 86_400.0, State.NEW, True),
        (7200, 90_000.0, State.NEW, True),
        (7200, None, State.NEW, True),
        (172_800, 172_800.0, State.APPLIED, True),
        (172_800, 200_000.0, State.APPLIED, True),
        (172_800, 100_000.0, State.APPLIED, False),
        (172_800, 7200.0, State.NEW, True),
        (172_800, None, State.NEW, True),
    ],
)
def test_a_time_limit_is_seen_to_go_down_or_up_as_it_should(wanted, now, state, in_full):
    book = Book("set_time_limit", seconds=wanted, seconds_now=86_400.0)
    entry = book.after(asks(deadline=86_400.0), asks(deadline=now))
    assert (entry.state, entry.in_full) == (state, in_full)


@pytest.mark.parametrize("change", ["scale_to_zero", "cull_notebook"])
def test_a_service_or_notebook_that_is_seen_without_pods_was_stopped_while_idle(change):
    book = Book(change)
    entry = book.after(NOTHING_ASKED, NOTHING_ASKED, pods=1)
    assert entry.state == State.NEW
    entry = book.see(T0 + 2 * HOUR, Seen(pods=0))
    assert (entry.state, entry.in_full, entry.applied_at) == (State.APPLIED, True, T0 + 2 * HOUR)


def test_what_scaling_to_zero_saves_is_what_was_not_held_since():
    """Back for half of each day: half of the GPU-hours are saved."""
    book = Book("scale_to_zero")
    book.told = msgspec.structs.replace(
        book.told, saving=msgspec.structs.replace(book.told.saving, gpu_hours_per_month=MONTH / 2)
    )
    book.see(T0, Seen(book.told, pods=1))
    for hour in range(1, 9 * 24):
        entry = book.see(T0 + hour * HOUR, Seen(pods=int(hour % 24 >= 12)))
    assert entry.result == Result.REAL
    assert entry.realised_gpu_hours_per_month == pytest.approx(MONTH / 2, rel=0.1)


def test_a_notebook_whose_run_came_to_its_own_end_was_not_culled():
    ended = run("run-1", T0 - DAY, seconds=DAY + HOUR, outcome=Outcome.SUCCEEDED)
    book = Book("cull_notebook")
    book.see(T0, Seen(book.told, pods=1))
    assert book.see(T0 + 2 * HOUR, Seen(pods=0, runs=(ended,))).state == State.NEW


@pytest.mark.parametrize(
    ("still_open", "state", "in_full"),
    [
        (OPEN, State.NEW, True),
        (OPEN - {"node-b"}, State.APPLIED, False),
        (OPEN - {"node-b", "node-c"}, State.APPLIED, True),
        (None, State.NEW, True),
    ],
)
def test_nodes_that_are_cordoned_or_gone_were_taken_out(still_open, state, in_full):
    book = Book("repair_node", nodes="node-b, node-c")
    entry = book.after(Asked(open_nodes=OPEN), Asked(open_nodes=still_open))
    assert (entry.state, entry.in_full) == (state, in_full)
    if state == State.APPLIED:
        assert entry.applied_at == T0 + HOUR


def test_a_node_that_was_out_before_was_not_taken_out_for_the_finding():
    book = Book("repair_node", nodes="node-b")
    out = Asked(open_nodes=OPEN - {"node-b"})
    assert book.after(out, out).state == State.NEW


@pytest.mark.parametrize(
    ("change", "params", "before", "now"),
    [
        ("set_requests", {"cpus": 12, "memory_gib": None}, asks(48), asks(12)),
        ("set_time_limit", {"seconds": 7200}, asks(deadline=86_400.0), asks(deadline=7200.0)),
        ("repair_node", {"nodes": "node-b"}, Asked(open_nodes=OPEN), Asked(open_nodes=OPEN - {"node-b"})),
    ],
)  # fmt: skip
def test_a_change_that_frees_no_gpu_by_itself_is_not_judged_by_gpus(change, params, before, now):
    """It was made, and neither counts for a rule's precision nor against it."""
    book = Book(change, **params)
    book.after(before, now)
    for hour in range(2, 9 * 24):
        entry = book.see(T0 + hour * HOUR, Seen(), asked=now)
    assert (entry.state, entry.result) == (State.APPLIED, Result.UNKNOWN)
    (record,) = records([entry])
    assert (record.judged, record.precision) == (0, None)


def test_where_a_change_cannot_be_seen_its_end_says_so():
    book = Book("edit_code")
    book.see(T0, Seen(book.told))
    book.see(T0 + DAY, Seen())
    entry = book.see(T0 + 9 * DAY, Seen())
    assert entry.state == State.EXPIRED
    assert entry.reason.endswith("a change of this kind cannot be seen from outside")


def test_the_kinds_that_rules_make_and_the_ledger_sees_are_called_the_same(repository):
    made, world = factories.profile([], [factories.pod()])
    around = factories.context(world)
    told = [
        made_changes.release(made, around),
        made_changes.set_replicas(made, 1),
        made_changes.set_gpus(made, 1),
        made_changes.set_gpu_type(made, "L4", "", "NVIDIA", ""),
        made_changes.set_requests(made, 1.0, 1, ()),
        made_changes.set_time_limit(made, 3600, 7200.0, ()),
        made_changes.cordon(("node-a",), "", ()),
        to_zero(made, 1800.0),
    ]
    told.append(idle_notebook._change(made, 3600.0))
    kinds = {change.kind for change in told}
    assert all(map(can_be_seen, kinds))
    page = (repository / "docs" / "agent.md").read_text("utf-8")
    assert all(f"`{kind}`" in page for kind in kinds)
    assert not can_be_seen("edit_code")


def pod_asking(name, cpus, *, start, gib=64, deadline=None):
    one = factories.pod(name, start=start)
    container = msgspec.structs.replace(
        one.containers[0], cpu_request=cpus, memory_request_bytes=gib * GIB
    )
    return msgspec.structs.replace(one, containers=(container,), deadline_seconds=deadline)


def built(pods, work=None):
    usage = [
        one for member in pods for one in factories.rows(member.started, member.started + HOUR,
                                                         pod=member.name, kernel=0.5)
    ]  # fmt: skip
    return factories.profile(usage, pods, work, runs={pod.name: [pod] for pod in pods})


def test_what_is_asked_for_is_that_of_the_newest_runs_pod():
    old = pod_asking("a", 48.0, start=factories.NOW - 2 * DAY)
    new = pod_asking("b", 12.0, start=factories.NOW - DAY, gib=32, deadline=7200.0)
    made, world = built([old, new])
    asked = asked_of([made], world)
    assert asked.of(made.workload.id) == Request(12.0, 32 * GIB, 7200.0)
    assert asked.of("another") == Request()


def test_a_deadline_of_the_owner_counts_as_that_of_its_pods():
    work = factories.workload(annotations={DEADLINE_HINT: "3600"})
    made, world = built([pod_asking("a", None, start=factories.NOW - DAY, deadline=7200.0)], work)
    assert asked_of([made], world).of(work.id).deadline_seconds == 3600.0


def test_a_pod_that_the_inventory_does_not_know_asks_for_nothing_that_is_known():
    made, _ = built([pod_asking("a", 48.0, start=factories.NOW - DAY)])
    assert asked_of([made], factories.inventory()).requests == {}


def test_nodes_are_known_only_where_all_of_them_were_listed():
    nodes = [factories.node("node-a"), factories.node("node-b", schedulable=False)]
    whole = factories.inventory((), nodes)
    assert asked_of([], whole).out(["node-a", "node-b", "node-z"]) == ("node-b", "node-z")
    partly = msgspec.structs.replace(whole, problems=("nodes: forbidden",))
    assert asked_of([], partly).out(["node-b"]) == ()
    assert asked_of([], factories.inventory((), ())).out(["node-b"]) == ()


def test_the_agent_follows_findings_by_what_its_plan_saw_asked_for(tmp_path, monkeypatch):
    handed = []
    monkeypatch.setattr(job, "follow", lambda *given: handed.append(given[4]) or [])
    exporter = Exporter([Job(lambda _: 0.5, fakes.T0 + 5)], fakes.T0)
    with Store.open(tmp_path / "g.db") as store:
        service = fakes.service_of(store, exporter, fakes.T0)
        service.run_due(fakes.T0 + 600)
        newest = service.parts.judging.newest
    assert newest is not None
    assert handed == [newest.asked]
    assert newest.asked is not NOTHING_ASKED
