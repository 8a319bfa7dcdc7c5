"""What an object of the cluster is told of its recommendation: an Event, and an annotation.

Both are made of one ``Recommendation``, which is kept as it was told: only what differs from it is
told again. Numbers move a little with every plan, and an object that changes each hour is a burden
for whoever watches it (controllers, GitOps), so a saving counts as another one from a tenth on.

Limits are those of the API server: a note of 1,024 bytes, a name of 253 characters, and of an
Event neither note nor reason can change once it is there.
"""

import hashlib
import re
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import quote

import msgspec

from gputailor_agent.inventory.redaction import RECOMMENDATION
from gputailor_agent.model.inventory import OwnerReference
from gputailor_agent.model.judgement import Finding, Money, Severity, Verdict
from gputailor_agent.reports import units
from gputailor_agent.reports.catalogues import _
from gputailor_agent.reports.change_words import change_text
from gputailor_agent.reports.overview import saving_text
from gputailor_agent.reports.safe_text import shown
from gputailor_agent.reports.wording import joined, say, sentence

__all__ = [
    "RECOMMENDATION",
    "REPORTER",
    "Recommendation",
    "Series",
    "Target",
    "annotation",
    "differs",
    "event",
    "reason_of",
    "recommended",
]

#: Who wrote an Event (``reportingController``), and who owns the annotation (field manager).
REPORTER: Final = "gputailor.io/agent"

_LONGEST_NOTE: Final = 1024  # bytes: NoteLengthLimit of Kubernetes' pkg/apis/core/validation
_LONGEST_NAME: Final = 253
_LONGEST_INSTANCE: Final = 128
_LONGEST_WORDS: Final = 400  # characters of a sentence in an annotation
_DIGEST: Final = 16
#: A saving counts as another one when it moved by this share.
_MOVED: Final = 0.1


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """An object of the cluster. ``namespace`` is that of the pods below it."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str

    @classmethod
    def of(cls, root: OwnerReference, namespace: str) -> "Target":
        """The object above a workload's pods."""
        return cls(
            api_version=root.api_version,
            kind=root.kind,
            namespace=namespace,
            name=root.name,
            uid=root.uid,
        )

    @property
    def named(self) -> str:
        """As people write it."""
        return f"{self.kind} {self.namespace}/{self.name}"


class Recommendation(msgspec.Struct, frozen=True, kw_only=True):
    """A finding as an object is told of it, at ``at`` (Unix seconds).

    ``words`` say what was found and ``todo`` what to do; ``change`` is what it asks for, without
    the numbers that move with every plan.
    """

    workload_id: str
    container: str
    rule: str
    words: str
    todo: str
    change: str
    command: str
    confidence: str
    urgent: bool
    saving: str
    gpu_hours_per_month: float | None
    money_per_month: Money | None
    at: float


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """An Event's place among those of the same recommendation: the ``count``-th since ``began``."""

    began: float
    count: int = 1


def recommended(verdict: Verdict, at: float) -> Recommendation | None:
    """What a workload is to be told, in the language spoken; None where there is nothing."""
    finding = verdict.primary
    if finding is None or verdict.state != "finding":
        return None
    return Recommendation(
        workload_id=verdict.workload.id,
        container=verdict.workload.container,
        rule=finding.rule,
        words=_line(sentence(say(finding.message))),
        todo=_line(change_text(finding.change)),
        change=_asked(finding),
        command=finding.change.command,
        confidence=finding.confidence.value,
        urgent=finding.severity is Severity.HIGH,
        saving=saving_text(finding),
        gpu_hours_per_month=finding.saving.gpu_hours_per_month,
        money_per_month=finding.saving.money_per_month,
        at=at,
    )


def _line(text: str) -> str:
    """Text that others had a hand in, as one harmless line."""
    return shown(text).replace("\n", " ")


def _asked(finding: Finding) -> str:
    params = sorted((name, str(value)) for name, value in finding.change.params.items())
    return msgspec.json.encode([finding.change.kind, finding.change.target, params]).decode()


def differs(old: Recommendation, new: Recommendation) -> bool:
    """Whether who was told ``old`` has to be told ``new``."""
    same = ("workload_id", "container", "rule", "change", "confidence", "urgent")
    if any(getattr(old, name) != getattr(new, name) for name in same):
        return True
    money = old.money_per_month, new.money_per_month
    if money[0] is not None and money[1] is not None and money[0].currency == money[1].currency:
        return _moved(money[0].amount, money[1].amount)
    return money[0] != money[1] or _moved(old.gpu_hours_per_month, new.gpu_hours_per_month)


def _moved(old: float | None, new: float | None) -> bool:
    if old is None or new is None:
        return old is not new
    return abs(new - old) > _MOVED * max(abs(old), abs(new))


def reason_of(rule: str) -> str:
    """An Event's reason: ``too_many_gpus`` -> ``GpuTooManyGpus``."""
    return "Gpu" + "".join(part.capitalize() for part in rule.split("_"))


def event_name(target: Target, said: Recommendation, series: Series) -> str:
    """A name that is the same whenever this is told: the server refuses a second one."""
    told = (target.uid, said.workload_id, said.rule, said.change, f"{series.began:.6f}")
    digest = hashlib.sha256("\0".join(told).encode()).hexdigest()[:_DIGEST]
    stem = re.sub(r"[^a-z0-9.-]", "-", target.name.lower())[: _LONGEST_NAME - _DIGEST - 1]
    return f"{stem.strip('.-') or 'gputailor'}.{digest}"


def event(target: Target, said: Recommendation, series: Series, *, cluster: str) -> dict[str, Any]:
    """An Event of ``events.k8s.io/v1`` about the object."""
    made: dict[str, Any] = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {
            "name": event_name(target, said, series),
            "namespace": target.namespace,
            "labels": {"app.kubernetes.io/managed-by": "gputailor"},
        },
        "eventTime": _micro(series.began),
        "reportingController": REPORTER,
        "reportingInstance": f"gputailor-{cluster}"[:_LONGEST_INSTANCE],
        "action": "Recommend",
        "reason": reason_of(said.rule),
        "type": "Warning" if said.urgent else "Normal",
        "regarding": {
            "apiVersion": target.api_version,
            "kind": target.kind,
            "namespace": target.namespace,
            "name": target.name,
            "uid": target.uid,
        },
        "note": _note(said),
    }
    if series.count > 1:
        made["series"] = {"count": series.count, "lastObservedTime": _micro(said.at)}
    return made


def _note(said: Recommendation) -> str:
    """What ``kubectl describe`` shows: the finding whole, cut where it is too long."""
    facts = f"{_('saving')}: {said.saving}; {_('confidence')}: {_(said.confidence)}"
    more = joined(sentence(facts), f"gputailor explain {shown(said.workload_id)}")
    room = _LONGEST_NOTE - len(more.encode()) - 1
    return joined(_cut(said.words, room), more)


def _cut(text: str, room: int) -> str:
    """So much of a text as has room (bytes of UTF-8)."""
    packed = text.encode()
    if len(packed) <= room:
        return text
    return packed[: max(0, room - len("…".encode()))].decode("utf-8", "ignore") + "…"


def annotation(said: Recommendation, public_url: str = "") -> str:
    """The annotation's value, JSON: unknown is null; the link leads to the agent's page."""
    money = said.money_per_month
    told: dict[str, Any] = {
        "rule": said.rule,
        "change": _short(said.todo),
        "why": _short(said.words),
        "command": said.command,
        "container": said.container,
        "saving": {
            "gpuHoursPerMonth": _rounded(said.gpu_hours_per_month),
            "moneyPerMonth": None if money is None else _rounded(money.amount),
            "currency": None if money is None else money.currency,
        },
        "confidence": said.confidence,
        "date": units.iso(said.at),
    }
    if public_url:
        told["link"] = f"{public_url.rstrip('/')}/workloads/{quote(said.workload_id)}"
    return msgspec.json.encode(told).decode()


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST_WORDS else f"{text[: _LONGEST_WORDS - 1]}…"


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 2)


def _micro(at: float) -> str:
    """A time as MicroTime has it."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
