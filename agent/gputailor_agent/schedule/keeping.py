"""What an agent finds in its store of the one that ran before it."""

import logging
from typing import Final

from gputailor_agent.rollup import CounterRollup, StateError, decode_state
from gputailor_agent.schedule.settings import ServiceSettings
from gputailor_agent.schedule.telemetry import Telemetry
from gputailor_agent.store import Store

log = logging.getLogger(__name__)

_STARTED: Final = ("start", "first")  # job and period that tell when this store's agent began


def job_name(settings: ServiceSettings, job: str) -> str:
    """Name of a job's periods and checkpoints: several clusters may share one store."""
    return f"{settings.cluster}/{job}"


def restored(store: Store, settings: ServiceSettings, telemetry: Telemetry) -> CounterRollup:
    """Return the rollup as it was left, or a new one where that cannot be read."""
    cluster, spread = settings.cluster, settings.spread_after_seconds
    body = store.checkpoint(job_name(settings, "rollup"))
    if body is None:
        return CounterRollup(cluster, spread_after_seconds=spread)
    try:
        state = decode_state(body)
        return CounterRollup(cluster, state=state, spread_after_seconds=spread)
    except StateError:
        log.exception("starting without what the rollup knew")
        telemetry.ran("restore", "failed")
        return CounterRollup(cluster, spread_after_seconds=spread)


def first_start(store: Store, settings: ServiceSettings, now: float) -> float:
    """When an agent first ran on this store: reports of earlier times are not owed."""
    job, period = job_name(settings, _STARTED[0]), _STARTED[1]
    known = store.period(job, period)
    if known is None:
        with store.transaction() as tx:
            tx.mark_period(job, period, at=now)
        return now
    return known.changed_at
