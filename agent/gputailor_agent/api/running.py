"""How the agent runs, and what became of its findings, as JSON: for the API and the command line.

Times are ISO 8601 in UTC, durations in seconds; null is unknown.
"""

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from gputailor_agent.model.ledger import Entry, RuleRecord
from gputailor_agent.reports import units
from gputailor_agent.store.tasks import Task

SCHEMA_VERSION: Final = "1.0"
_TIMES: Final = ("started_at", "done_at", "next_at")
_ENTRY_TIMES: Final = (
    "opened_at",
    "changed_at",
    "seen_at",
    "updated_at",
    "until",
    "missing_since",
    "applied_at",
)


def tasks_document(tasks: Iterable[Task]) -> str:
    """How the agent's jobs went."""
    return _encode({"tasks": [_task(task) for task in tasks]})


def _task(task: Task) -> dict[str, Any]:
    told = msgspec.structs.asdict(task)
    return told | _iso(told, _TIMES)


def ledger_document(entries: Iterable[Entry], records: Iterable[RuleRecord]) -> str:
    """What became of findings, and how each rule fared."""
    return _encode(
        {
            "rules": [msgspec.to_builtins(record) for record in records],
            "findings": [_entry(entry) for entry in entries],
        }
    )


def _entry(entry: Entry) -> dict[str, Any]:
    told: dict[str, Any] = msgspec.to_builtins(entry)
    told |= _iso(told, _ENTRY_TIMES)
    told["prediction"] |= _iso(told["prediction"], ("made_at",))
    return told


def _iso(told: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    return {name: units.iso(told[name]) for name in names}


def _encode(document: dict[str, Any]) -> str:
    body = msgspec.json.encode(document | {"schema_version": SCHEMA_VERSION})
    return msgspec.json.format(body, indent=2).decode() + "\n"
