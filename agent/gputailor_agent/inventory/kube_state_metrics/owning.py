"""Owners out of their series, which name kinds and names but no uids.

An owner's uid is made of namespace, kind and name, in the form that owners told by labels have, so
that nobody takes it for a real one; a Job's real uid stands in its pods' labels, where they are
shown, and tells runs apart that were given the same name again.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from gputailor_agent.dialects.kube_state_metrics import OWNERS, OwnerSeries, StateSample
from gputailor_agent.inventory.hints import deadline_hint
from gputailor_agent.inventory.kinds import kind_table
from gputailor_agent.inventory.kube_state_metrics.rows import Rows, by_label
from gputailor_agent.inventory.redaction import mask_annotations
from gputailor_agent.model.inventory import Owner, OwnerReference

_JOB_UIDS: Final = ("batch.kubernetes.io/controller-uid", "controller-uid")
#: The signs that Kubernetes makes random suffixes and hashes of (apimachinery, ``rand``).
_HASH: Final = re.compile(r".+-([bcdfghjklmnpqrstvwxz2456789]{5,10})")


class Named(NamedTuple):
    """An owner as a series names it."""

    namespace: str
    kind: str
    name: str


def references(rows: Rows, series: str) -> list[tuple[Named, bool]]:
    """Owners that an object's series name, and whether each controls it; the controller first."""
    found: dict[Named, bool] = {}
    for sample in rows.of(series):
        labels = sample.labels
        kind, name = labels.get("owner_kind", ""), labels.get("owner_name", "")
        if kind not in {"", "<none>"} and name not in {"", "<none>"}:
            named = Named(labels.get("namespace", ""), kind, name)
            controls = labels.get("owner_is_controller", "true") == "true"
            found[named] = controls or found.get(named, False)
    return sorted(found.items(), key=lambda item: (not item[1], item[0]))


class Ownership:
    """Who owns whom; ``refer`` is called for each pod, ``owners`` gives what was referred to."""

    def __init__(self, samples: Iterable[StateSample], cluster: str) -> None:
        self._cluster = cluster
        self._known: dict[Named, tuple[OwnerSeries, Rows]] = {}
        told = list(samples)
        for kind, series in OWNERS.items():
            wanted = {*series.facts, *series.values}
            rows = by_label((s for s in told if s.name in wanted), "namespace", series.label)
            for (namespace, name), found in rows.items():
                self._known[Named(namespace, kind, name)] = (series, found)
        self._referred: dict[Named, set[str]] = defaultdict(set)
        self._labels: dict[Named, set[str]] = defaultdict(set)  # keys that pods below carry

    def refer(self, named: Named, labels: dict[str, str]) -> OwnerReference:
        """A pod's reference to its owner."""
        uid = ""
        if named.kind == "Job":
            uid = next((labels[key] for key in _JOB_UIDS if labels.get(key)), "")
        self._labels[named].update(labels)
        return self._reference(named, uid)

    def hash_of(self, named: Named) -> tuple[str, str] | None:
        """The label that tells a ReplicaSet's pods' revision, and its value, out of its name."""
        if named.kind != "ReplicaSet":
            return None
        table = {row.kind: row.label for row in kind_table().hashed if row.below == named.kind}
        for maker, _ in self._above(named):
            if maker.kind in table and named.name.startswith(f"{maker.name}-"):
                return table[maker.kind], named.name.removeprefix(f"{maker.name}-")
        guessed = _HASH.fullmatch(named.name) if not self._told(named) else None
        return (table["Deployment"], guessed[1]) if guessed else None

    def owners(self) -> Iterator[Owner]:
        """Everything above the pods that series tell of, by uid."""
        found: dict[str, Owner] = {}
        todo, climbed = list(self._referred), set[Named]()
        while todo:  # first all that there is, with the labels of the pods below
            named = todo.pop()
            climbed.add(named)
            for maker, _ in self._above(named):
                self._reference(maker, "")
                if maker not in climbed or not self._labels[named] <= self._labels[maker]:
                    self._labels[maker] |= self._labels[named]
                    todo.append(maker)
        for named, uids in list(self._referred.items()):
            for uid in uids:
                if (owner := self._owner(named, uid)) is not None:
                    found[uid] = owner
        yield from (found[uid] for uid in sorted(found))

    def unknown(self, kind: str) -> list[Named]:
        """Owners of this kind that pods name and no series tells the owner of."""
        return sorted(one for one in self._referred if one.kind == kind and not self._told(one))

    def _reference(self, named: Named, uid: str) -> OwnerReference:
        uid = uid or f"label:{named.namespace}/{named.kind}/{named.name}"
        self._referred[named].add(uid)
        return OwnerReference(
            api_version=self._api_version(named), kind=named.kind, name=named.name, uid=uid
        )

    def _api_version(self, named: Named) -> str:
        """The API of a kind that has series of its own; the name of a kind alone proves nothing."""
        return self._known[named][0].api_version if named in self._known else ""

    def _told(self, named: Named) -> bool:
        """Whether it is told who owns it, be it nobody."""
        return named in self._known and OWNERS[named.kind].owner in self._known[named][1]

    def _above(self, named: Named) -> list[tuple[Named, bool]]:
        if named not in self._known:
            return []
        series, rows = self._known[named]
        return references(rows, series.owner)

    def _owner(self, named: Named, uid: str) -> Owner | None:
        """The object; None where less is known of it than pods' labels may tell."""
        if named not in self._known:
            return None
        if not self._told(named) and self._promoted(named):
            return None
        series, rows = self._known[named]
        number = max((one.value for one in rows.of(*series.numbers)), default=None)
        suspends = named.kind == "CronJob"
        return Owner(
            cluster=self._cluster,
            api_version=series.api_version,
            kind=named.kind,
            namespace=named.namespace,
            name=named.name,
            uid=uid,
            labels=rows.keyed(series.labels, "label_"),
            annotations=mask_annotations(rows.keyed(series.annotations, "annotation_"))
            | deadline_hint(rows.value(series.deadline)),
            owners=tuple(self._reference(maker, "") for maker, _ in self._above(named)),
            replicas=None if number is None or suspends else int(number),
            suspended=suspends and number == 1,
        )

    def _promoted(self, named: Named) -> bool:
        """Whether the labels of its pods name what stands above it."""
        rows = (row for row in kind_table().promotions if named.kind in row.below)
        return any(row.label in self._labels[named] for row in rows)
