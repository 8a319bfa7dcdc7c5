"""A cluster that takes what is told, and an agent that tells it what plans say."""

import msgspec

from gputailor_agent.model.inventory import OwnerReference
from gputailor_agent.schedule.standing import ANNOTATION, EVENT
from gputailor_agent.schedule.telling import Telling
from tests.agent.reports.plans import (
    FEWER,
    FINE,
    IDLE,
    UNSEEN,
    WATCHED,
    finding,
    sample_plan,
    silence,
    verdict,
)
from tests.agent.schedule.test_delivering import Clock, Kill

HOUR, DAY = 3600.0, 86400.0
T0 = 1_800_000_000.0
NAMES = (FEWER, FINE, IDLE, UNSEEN, WATCHED)


def root(identity, uid=""):
    _, kind, name, _ = identity.split("/")
    return OwnerReference(api_version="x/v1", kind=kind, name=name, uid=uid or f"uid-{name}")


ROOTS = {identity: root(identity) for identity in NAMES}


class Cluster:
    """Takes what is written, in place of an API server; says no as it is told."""

    def __init__(self):
        self.posted, self.annotations, self.patches = [], {}, 0
        self.lacking, self.refuse, self.kill = {}, None, ""

    def missing(self, feature, target, now):
        return self.lacking.get(feature, "")

    def _may(self):
        if self.kill == "before":
            raise Kill
        if self.refuse is not None:
            raise self.refuse

    def put_event(self, made):
        self._may()
        name = made["metadata"]["name"]
        known = [one for one in self.posted if one["metadata"]["name"] == name]
        if not known:
            self.posted.append(made)
        elif "series" in made:
            known[0]["series"] = made["series"]
        if self.kill == "after":
            raise Kill

    def annotate(self, target, value):
        self._may()
        self.patches += 1
        if value is None:
            self.annotations.pop(target.uid, None)
        else:
            self.annotations[target.uid] = msgspec.json.decode(value)
        if self.kill == "after":
            raise Kill

    @property
    def told(self):
        return [(one["regarding"]["name"], one["reason"]) for one in self.posted]


class Agent:
    """An agent that sees plans; a new one on the same store is one that was started again."""

    def __init__(self, store, cluster, channels=(EVENT, ANNOTATION)):
        self.clock, self.counted = Clock(T0), []
        self.telling = Telling(
            channels,
            store,
            "test",
            cluster,
            clock=self.clock,
            count=lambda job, outcome: self.counted.append((job, outcome)),
            holder="me",
        )

    def see(self, at, *verdicts, roots=None):
        plan = sample_plan(made_at=at, verdicts=verdicts)
        self.clock.now, self.plan = at, plan
        known = ROOTS if roots is None else roots
        return self.telling.run(plan, lambda: known, "https://gpu.example.org", at)

    def again(self, at):
        """Another round, without another plan."""
        self.clock.now = at
        return self.telling.run(self.plan, dict, "", at)


def idle(money=500.0, identity=IDLE, rule="idle", state="finding", **more):
    return verdict(identity, state, primary=finding(identity, rule, money), **more)


def quiet(kind, state="ok", rule="idle"):
    return verdict(IDLE, state, silences=(silence(IDLE, rule, kind),))
