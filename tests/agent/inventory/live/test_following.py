import time

import pytest

from gputailor_agent.inventory.identity import resolve
from gputailor_agent.inventory.live import ClusterError, LiveInventory, LiveSettings
from gputailor_agent.inventory.live.remembering import MemoryBounds
from gputailor_agent.inventory.live.watching import WatchSettings
from tests.agent.inventory.live.api_server import Fault, status
from tests.agent.inventory.live.objects import AT, deployment_of_two, node
from tests.agent.inventory.objects import controller, owner, pod


class Clock:
    """A clock that stands until it is set."""

    def __init__(self) -> None:
        self.now = AT

    def __call__(self) -> float:
        return self.now


def until(check, seconds=10.0):
    """What ``check`` returns as soon as it is true; fails when that takes too long."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = check()
        if found:
            return found
        time.sleep(0.02)
    return pytest.fail("it did not come true in time")


def names(live):
    return sorted(one.name for one in live.snapshot(AT).pods)


def watched(api, plural="pods", number=1):
    until(lambda: len([one for one in api.watches() if plural in one.path]) >= number)


def phase(live, name):
    return next((one for one in live.snapshot(AT).pods if one.name == name), None)


def test_a_snapshot_waits_for_the_first_lists(api, follow):
    api.put(node(), *deployment_of_two())
    found = follow().snapshot(AT)
    assert len(found.pods) == 2
    assert len(found.nodes) == 1
    assert {one.kind for one in found.owners} == {"Deployment", "ReplicaSet"}
    assert found.problems == ()


def test_what_comes_changes_and_goes_is_seen_without_listing_again(api, follow):
    api.put(pod("a"), node())
    live = follow()
    assert names(live) == ["a"]
    watched(api)
    api.put(pod("b"), node("node-2"))
    until(lambda: names(live) == ["a", "b"])
    until(lambda: len(live.snapshot(AT).nodes) == 2)
    api.put(pod("b", phase="Failed"))
    until(lambda: phase(live, "b").phase == "Failed")
    api.delete(node("node-2"))
    until(lambda: len(live.snapshot(AT).nodes) == 1)
    assert len([one for one in api.asked("/api/v1/pods") if not one.query.get("watch")]) == 1


def test_a_deleted_pod_stays_known_and_ended_when_it_was_seen_last(api, follow):
    clock = Clock()
    api.put(pod("a"))
    live = follow(clock=clock)
    assert phase(live, "a").finished is None
    watched(api)
    clock.now = AT + 77
    api.delete(pod("a"))
    gone = until(lambda: (one := phase(live, "a")).finished and one)
    assert gone.finished == AT + 77
    assert gone.phase == "Unknown"
    assert gone.reason == "Deleted"


def test_a_pod_that_completed_before_it_was_deleted_keeps_its_own_end(api, follow):
    state = {"terminated": {"finishedAt": "2026-03-02T11:59:00Z", "exitCode": 0}}
    done = pod(
        "a", phase="Succeeded", status={"containerStatuses": [{"name": "main", "state": state}]}
    )
    api.put(done)
    live = follow()
    names(live)
    watched(api)
    api.delete(done)
    until(lambda: live._pods.entries()[0].ended)
    found = phase(live, "a")
    assert (found.phase, found.finished) == ("Succeeded", AT - 60)


def test_ended_pods_are_forgotten_after_their_time(api, follow):
    clock = Clock()
    api.put(pod("a"), pod("b"))
    live = follow(clock=clock, memory=MemoryBounds(keep_ended_seconds=60))
    names(live)
    watched(api)
    api.delete(pod("a"))
    until(lambda: phase(live, "a").finished)
    clock.now += 61
    assert names(live) == ["b"]


def test_the_owner_of_a_short_job_is_known_after_both_are_gone(api, follow):
    job = controller("Job", "quick", uid="j", owners=[owner("CronJob", "hourly", "c")])
    cron = controller("CronJob", "hourly", uid="c")
    short = pod("quick-x", owners=[owner("Job", "quick", "j")])
    live = follow()
    live.snapshot(AT)
    watched(api)
    api.put(cron, job, short)
    until(lambda: api.asked("*/cronjobs/hourly"))
    api.delete(short)
    api.delete(job)
    until(lambda: (one := phase(live, "quick-x")) and one.finished)
    (workload,) = resolve(live.snapshot(AT)).workloads
    assert (workload.kind, workload.name) == ("CronJob", "hourly")


def test_an_owner_that_can_no_longer_be_read_stays_known(api, follow):
    api.put(*deployment_of_two())
    clock = Clock()
    live = follow(clock=clock, owners_fresh_seconds=100)
    assert len(live.snapshot(AT).owners) == 2
    api.forbidden.add("deployments")
    clock.now += 200
    found = live.snapshot(AT)
    assert len(found.owners) == 2
    assert "deployments.apps may not be read" in found.problems[0]


def test_an_annotation_on_an_owner_is_seen_at_the_next_fresh_reading(api, follow):
    made, *rest = deployment_of_two()
    api.put(made, *rest)
    clock = Clock()
    live = follow(clock=clock, owners_fresh_seconds=100)
    live.snapshot(AT)
    made["metadata"]["annotations"] = {"gputailor.io/ignore": "all"}
    api.put(made)
    clock.now += 200
    found = live.snapshot(AT)
    assert {"gputailor.io/ignore": "all"} in [one.annotations for one in found.owners]


def test_a_cut_connection_resumes_from_the_last_version(api, follow):
    api.put(pod("a"))
    live = follow()
    names(live)
    watched(api)
    api.put(pod("b"))
    until(lambda: names(live) == ["a", "b"])
    api.cut()
    api.put(pod("c"))
    until(lambda: names(live) == ["a", "b", "c"])
    lists = [one for one in api.asked("/api/v1/pods") if not one.query.get("watch")]
    assert len(lists) == 1


def test_bookmarks_move_the_version_from_which_a_watch_resumes(api, follow):
    live = follow()
    live.snapshot(AT)
    watched(api)
    version = api.bookmark()
    until(lambda: live._pod_watches[0]._version == str(version))
    api.cut()
    watched(api, number=2)
    again = [one for one in api.watches() if "pods" in one.path][-1]
    assert again.query["resourceVersion"] == str(version)
    assert again.query["allowWatchBookmarks"] == "true"


def test_a_version_too_old_is_met_with_a_new_list_and_what_vanished_ended(api, follow):
    clock = Clock()
    api.put(pod("a"), pod("b"))
    live = follow(clock=clock)
    names(live)
    watched(api)
    clock.now = AT + 50
    api.vanish(pod("a"))
    api.compact()
    api.cut()
    gone = until(lambda: (one := phase(live, "a")).finished and one)
    assert gone.finished <= AT + 50
    assert phase(live, "b").finished is None


def test_gone_told_inside_a_watch_is_met_with_a_new_list(api, follow):
    live = follow()
    live.snapshot(AT)
    watched(api)
    api.tell({"type": "ERROR", "object": {"kind": "Status", "code": 410, "message": "too old"}})
    until(
        lambda: len([one for one in api.asked("/api/v1/pods") if not one.query.get("watch")]) == 2
    )
    assert live.snapshot(AT).problems == ()


@pytest.mark.parametrize(
    "line", [b"<html>", b'{"type":"ADDED"', b"\xff\xff", {"type": "ADDED", "object": 3}]
)
def test_junk_in_a_watch_is_met_with_a_new_list(api, follow, line):
    api.put(pod("a"))
    live = follow()
    names(live)
    watched(api)
    api.tell(line)
    until(
        lambda: len([one for one in api.asked("/api/v1/pods") if not one.query.get("watch")]) >= 2
    )
    api.put(pod("b"))
    until(lambda: names(live) == ["a", "b"])


def test_a_server_whose_watches_are_always_too_old_is_not_hammered(api, follow):
    old = [Fault(410, status(410, "too old")) for _ in range(2000)]
    api.fail("/api/v1/pods?*watch=true*", *old)
    api.put(pod("a"))
    live = follow()
    assert names(live) == ["a"]
    time.sleep(1)
    lists = [one for one in api.asked("/api/v1/pods") if not one.query.get("watch")]
    assert 2 <= len(lists) < 30


def test_who_may_list_but_not_watch_is_served_by_lists(api, follow):
    api.fail("*watch=true*", *(Fault(403, status(403, "no watch")) for _ in range(2000)))
    api.put(pod("a"), node())
    live = follow(watch=WatchSettings(refused_seconds=0.05))
    assert names(live) == ["a"]
    api.put(pod("b"))
    until(lambda: names(live) == ["a", "b"])
    assert live.snapshot(AT).problems == ()


def test_nodes_not_heard_of_for_long_are_a_stated_problem(api, follow):
    clock = Clock()
    api.put(pod("a"), node())
    live = follow(clock=clock, stale_seconds=60)
    names(live)
    watched(api, "nodes")
    api.fail("/api/v1/nodes*", *(Fault(500, status(500, "etcd is away")) for _ in range(5000)))
    watched(api)
    api.cut()
    until(lambda: not live._node_watch.connected)
    until(lambda: live._pod_watches[0].connected)
    clock.now += 61
    (problem,) = until(lambda: live.snapshot(AT).problems)
    assert problem.startswith("nodes were last heard of 61 s ago")


def test_a_fault_of_ours_does_not_end_the_following(api, follow, monkeypatch):
    live = follow()
    names(live)
    watched(api)
    real, faults = live._pods.put, [RuntimeError("a fault of ours")]

    def put(content):
        if faults:
            raise faults.pop()
        return real(content)

    monkeypatch.setattr(live._pods, "put", put)
    api.put(pod("a"))
    until(lambda: names(live) == ["a"])


def test_owners_that_a_busy_server_did_not_give_are_asked_for_again(api, follow):
    api.put(*deployment_of_two())
    api.fail("/apis/apps/v1/*/replicasets/*", *(Fault(500, status(500, "etcd")) for _ in range(5)))
    live = follow()
    until(lambda: len(live.snapshot(AT).owners) == 2)


def test_a_new_pod_asks_for_no_owners_but_its_own(api, follow):
    api.put(*deployment_of_two(), node())
    live = follow(owners_fresh_seconds=0.0)
    live.snapshot(AT)
    until(lambda: len(api.asked("*/deployments/chat")) == 2)  # the snapshot, and the first list
    watched(api)
    api.put(controller("Job", "j", uid="j1"), pod("j-0", owners=[owner("Job", "j", "j1")]))
    until(lambda: api.asked("*/jobs/j"))
    assert len(api.asked("*/deployments/chat")) == 2


def test_owners_that_failed_in_the_background_are_asked_for_with_the_next_pod(api, follow):
    api.put(node(), pod("a"))
    live = follow()
    live.snapshot(AT)
    watched(api)
    api.fail("*/jobs/j*", *[Fault(500, status(500))] * 5)  # as many as are tried
    api.put(controller("Job", "j", uid="j1"), pod("j-0", owners=[owner("Job", "j", "j1")]))
    until(lambda: len(api.asked("*/jobs/j")) == 5)
    api.put(pod("b"))
    until(lambda: len(api.asked("*/jobs/j")) == 6)


def test_an_error_inside_a_watch_is_told_and_followed_by_another_try(api, follow):
    live = follow()
    live.snapshot(AT)
    watched(api)
    api.tell({"type": "ERROR", "object": {"kind": "Status", "code": 500, "message": "etcd"}})
    watched(api, number=2)
    api.put(pod("a"))
    until(lambda: names(live) == ["a"])


def test_a_busy_server_at_the_start_only_delays(api, follow):
    busy = Fault(429, status(429), {"Retry-After": "0.05"})
    api.fail("/api/v1/pods*", busy, Fault(500, status(500)), Fault(raw=b""))
    api.put(pod("a"))
    assert names(follow()) == ["a"]


def test_pods_never_read_are_an_error_with_the_reason(api, follow):
    api.forbidden.add("pods")
    with pytest.raises(ClusterError, match=r"pods cannot be read.*403"):
        follow(ready_seconds=0.3).snapshot(AT)


def test_pods_not_heard_of_for_long_are_an_error_rather_than_old_news(api, follow):
    clock = Clock()
    api.put(pod("a"))
    live = follow(clock=clock, stale_seconds=60)
    names(live)
    watched(api)
    api.stop()
    until(lambda: not live._pod_watches[0].connected)
    clock.now += 61
    with pytest.raises(ClusterError, match=r"last heard of 61 s ago"):
        live.snapshot(AT)


def test_nodes_that_may_not_be_read_are_a_stated_problem(api, follow):
    api.forbidden.add("nodes")
    api.put(pod("a"))
    found = follow().snapshot(AT)
    assert len(found.pods) == 1
    assert "nodes may not be read" in found.problems[0]


def test_named_namespaces_are_followed_one_by_one(api, follow):
    api.forbidden |= {"pods/", "nodes"}
    api.put(pod("a", namespace="red"), pod("b", namespace="blue"), pod("c", namespace="green"))
    live = follow(namespaces=("red", "blue"))
    assert names(live) == ["a", "b"]
    watched(api, "red")
    api.delete(pod("a", namespace="red"))
    until(lambda: phase(live, "a").finished)
    assert phase(live, "b").finished is None


def test_watches_end_by_themselves_and_are_renewed(api, follow):
    api.put(pod("a"))
    live = follow(watch=WatchSettings(watch_seconds=1))
    names(live)
    watched(api, number=2)
    assert live.snapshot(AT).problems == ()


def test_a_reader_that_was_not_started_says_so(api, kubeconfig):
    with pytest.raises(ClusterError, match="start comes first"):
        LiveInventory("lab", LiveSettings(kubeconfig=kubeconfig)).snapshot(AT)


def test_stopping_ends_every_watch_at_once(api, follow):
    live = follow()
    live.snapshot(AT)
    watched(api)
    began = time.monotonic()
    live.stop()
    assert time.monotonic() - began < 2
    assert not [thread for thread in live._threads if thread.is_alive()]


def test_it_serves_as_the_services_reader(api, follow):
    api.put(pod("a"))
    live = follow()
    reader = live
    assert [one.name for one in reader(AT).pods] == ["a"]
