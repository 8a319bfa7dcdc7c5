"""The agent's jobs, one a file: a module here that has a ``JOB`` is found by itself.

``jobs()`` gives them in the order they build on each other; the name of a job is its id for the
scheduler, the label of its metrics, its key in the store and its row in docs/agent.md.
"""

import pkgutil
from functools import cache
from graphlib import TopologicalSorter
from importlib import import_module

from gputailor_agent.schedule.jobs.base import Job

__all__ = ["Job", "before", "jobs", "whens"]


@cache
def jobs() -> tuple[Job, ...]:
    """Every job, each after those that it builds on."""
    modules = sorted(module.name for module in pkgutil.iter_modules(__path__))
    found = [getattr(import_module(f"{__name__}.{name}"), "JOB", None) for name in modules]
    named = {job.name: job for job in found if job is not None}
    order = TopologicalSorter({name: sorted(job.after) for name, job in named.items()})
    return tuple(named[name] for name in order.static_order())


@cache
def before(name: str) -> frozenset[str]:
    """The job of that name and all that it builds on."""
    by_name = {job.name: job for job in jobs()}
    found: set[str] = set()
    waiting = [name]
    while waiting:
        one = waiting.pop()
        if one not in found:
            found.add(one)
            waiting += by_name[one].after
    return frozenset(found)


@cache
def whens() -> dict[str, str]:
    """In words when each job runs, by its name."""
    return {job.name: job.when for job in jobs()}
