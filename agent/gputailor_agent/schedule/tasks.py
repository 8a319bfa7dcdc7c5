"""How jobs went, in memory: what `gputailor tasks` and `/api/v1/tasks` show.

The heartbeat keeps it in the store. What is due is decided by periods, never by this.
"""

import threading
from collections.abc import Iterable

import msgspec

from gputailor_agent.store.tasks import Task

DONE, FAILED = "done", "failed"


class Tasks:
    """The last run of each job. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tasks: dict[str, Task] = {}
        self._changed: set[str] = set()

    def know(self, tasks: Iterable[Task]) -> None:
        """Begin with what is in the store, and with jobs that never ran."""
        with self._lock:
            self._tasks = {task.job: task for task in tasks} | self._tasks

    def knows(self, job: str) -> bool:
        """Whether it is a job, not work inside of jobs."""
        with self._lock:
            return job in self._tasks

    def began(self, job: str, at: float) -> None:
        """Note that a run began at ``at`` (Unix seconds)."""
        self._put(job, started_at=at)

    def ended(self, job: str, at: float, seconds: float, reason: str = "") -> None:
        """Note that a run that began at ``at`` ended after ``seconds``; ``reason``: it failed."""
        known = self._known(job)
        self._put(
            job,
            seconds=seconds,
            outcome=FAILED if reason else DONE,
            reason=reason,
            done_at=known.done_at if reason else at,
            failures=known.failures + 1 if reason else 0,
            runs=known.runs + 1,
        )

    def missed(self, job: str, outcome: str) -> None:
        """Note a run that did not begin in time, or not at all."""
        known = self._known(job)
        self._put(job, missed=known.missed + 1, reason=known.reason or outcome)

    def next(self, job: str, at: float | None) -> None:
        """Note when a job wakes next."""
        if self._known(job).next_at != at:
            self._put(job, next_at=at)

    def all(self) -> list[Task]:
        """Every job, by name."""
        with self._lock:
            return sorted(self._tasks.values(), key=lambda task: task.job)

    def changed(self) -> list[Task]:
        """Those that are not in the store as they are."""
        with self._lock:
            return [self._tasks[name] for name in sorted(self._changed)]

    def kept(self, tasks: Iterable[Task]) -> None:
        """Note that these are in the store."""
        with self._lock:
            for task in tasks:
                if self._tasks[task.job] == task:
                    self._changed.discard(task.job)

    def _known(self, job: str) -> Task:
        with self._lock:
            return self._tasks.get(job, Task(job=job))

    def _put(self, job: str, **values: object) -> None:
        with self._lock:
            known = self._tasks.get(job)
            if known is not None:  # else it is work inside of jobs, no job
                self._tasks[job] = msgspec.structs.replace(known, **values)
                self._changed.add(job)
