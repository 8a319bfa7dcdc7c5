"""Use of some pods alone, out of hours and days, on SQLite and on PostgreSQL."""

import pytest

from gputailor_agent.store.compacting import compact
from tests.agent.factories import CLUSTER, DAY, HOUR, NOW, row, rows

END = NOW + 2 * DAY
NAMELESS = {"pod": "", "namespace": "", "container": "", "uid": ""}
ODD = 'o\'dd "pod" ü'  # whatever a source calls it


@pytest.fixture(params=["hours", "days", "days with later hours"])
def filled(request, store):
    """Two days of three pods and of two devices without one."""
    usage = [one for pod in ("a", "b", ODD) for one in rows(NOW, END, pod=pod, gpu=f"G-{pod}")]
    usage += [one for gpu in ("N1", "N2") for one in rows(NOW, END, gpu=gpu, **NAMELESS)]
    with store.transaction() as tx:
        tx.put_usage(usage)
    if request.param != "hours":
        compact(store, CLUSTER, END + DAY)
    if request.param == "days with later hours":
        with store.transaction() as tx:
            tx.put_usage([row(NOW + 3 * HOUR, pod="a", gpu="G-a", kernel=1.0)])
    return store


def whole(parts):
    """Seconds by pod and device, whatever they come in."""
    found = {}
    for one in parts:
        if isinstance(one, tuple):
            place, part = one
            key, seconds = (place[1], place[4]), part.allocated_seconds
        else:
            key, seconds = (one.key.pod, one.key.gpu_uuid), one.allocated_seconds
        found[key] = found.get(key, 0.0) + seconds
    return found


def test_the_use_of_some_pods_is_read_and_no_others(filled):
    with filled.reading_usage(CLUSTER) as usage:
        some = whole(usage.parts(NOW, END, [("team-a", "a"), ("team-a", ODD), ("other", "b")]))
        assert some == {("a", "G-a"): 2.0 * DAY, (ODD, f"G-{ODD}"): 2.0 * DAY}


def test_use_without_a_pod_is_read_by_its_device(filled):
    with filled.reading_usage(CLUSTER) as usage:
        some = whole(usage.parts(NOW, END, [("team-a", "b")], ["N2", "N9"]))
        assert some == {("b", "G-b"): 2.0 * DAY, ("", "N2"): 2.0 * DAY}
        assert whole(usage.parts(NOW, END, [], [])) == {}


def test_all_shards_together_are_everything_in_any_window(filled):
    names, devices = [("team-a", pod) for pod in ("a", "b", ODD)], ["N1", "N2"]
    with filled.reading_usage(CLUSTER) as usage:
        for start, end in ((NOW, END), (NOW + 5 * HOUR, END - HOUR), (NOW + DAY, END)):
            everything = whole(usage.parts(start, end))
            assert len(everything) == 5
            shards = [usage.parts(start, end, [name]) for name in names]
            shards += [usage.parts(start, end, [], [device]) for device in devices]
            assert {k: v for shard in shards for k, v in whole(shard).items()} == everything


def test_the_pods_with_use_are_named_and_use_without_one_is_two_empty_names(filled):
    with filled.reading_usage(CLUSTER) as usage:
        found = usage.pods(NOW + HOUR, END)
        assert found == {("team-a", "a"), ("team-a", "b"), ("team-a", ODD), ("", "")}
        assert usage.pods(NOW - DAY, NOW) == set()


def test_a_later_hour_counts_in_place_of_the_days_own(store):
    with store.transaction() as tx:
        tx.put_usage(rows(NOW, NOW + DAY, pod="a", kernel=0.5))
    compact(store, CLUSTER, NOW + 2 * DAY)
    with store.transaction() as tx:
        tx.put_usage([row(NOW + HOUR, pod="a", kernel=1.0)])
    with store.reading_usage(CLUSTER) as usage:
        parts = [part for _, part in usage.parts(NOW, NOW + DAY, [("team-a", "a")])]
    active = sum(part.detail.signals["kernel"].active for part in parts)
    assert active == 23 * 1800 + 3600
