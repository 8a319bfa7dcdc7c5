"""A cluster that changes while everything that can go wrong does."""

import random
import time

import pytest

from tests.agent.inventory.live.api_server import Fault, status
from tests.agent.inventory.live.objects import AT
from tests.agent.inventory.objects import controller, owner, pod

TROUBLES = (
    lambda api: api.cut(),
    lambda api: api.compact(),
    lambda api: api.bookmark(),
    lambda api: api.tell(b"<html>gateway</html>"),
    lambda api: api.tell({"type": "ERROR", "object": {"kind": "Status", "code": 410}}),
    lambda api: api.tell({"type": "ERROR", "object": {"kind": "Status", "code": 503}}),
    lambda api: api.fail("/api/v1/pods*", Fault(429, status(429), {"Retry-After": "0.02"})),
    lambda api: api.fail("/api/v1/pods*", Fault(500, status(500)), Fault(raw=b"HTTP/1.1 2")),
    lambda api: api.fail("/api/v1/pods*", Fault(200, b"{", promised=50)),
    lambda api: api.fail("/apis/batch/v1*", Fault(503, status(503))),
)


@pytest.mark.parametrize("seed", range(3))
def test_no_pod_is_missed_and_none_outlives_its_end(api, follow, seed):
    dice = random.Random(seed)
    api.put(controller("Job", "j", uid="j1", owners=[owner("CronJob", "c", "c1")]))
    api.put(controller("CronJob", "c", uid="c1"))
    live = follow()
    live.snapshot(AT)
    there = {}
    for number in range(60):
        if there and dice.random() < 0.4:
            api.delete(there.pop(dice.choice(sorted(there))))
        else:
            one = pod(f"p{number:02}", owners=[owner("Job", "j", "j1")])
            there[one["metadata"]["name"]] = one
            api.put(one)
        if dice.random() < 0.3:
            dice.choice(TROUBLES)(api)
        time.sleep(dice.random() * 0.02)
    deadline = time.monotonic() + 15
    running = None
    while running != set(there) and time.monotonic() < deadline:
        time.sleep(0.05)
        found = live.snapshot(AT)
        running = {one.name for one in found.pods if one.finished is None}
    assert running == set(there)
    assert {one.kind for one in found.owners} == {"Job", "CronJob"}
