"""A sampler that runs at fifty beats a second, and how to ask it."""

from contextlib import contextmanager

from gputailor_exporter import metrics as m
from gputailor_exporter.accounting import AccountingSettings
from gputailor_exporter.sampler import Sampler
from gputailor_exporter.sampling.discovery import DiscoverySettings
from gputailor_exporter.sampling.settings import SamplerSettings
from tests.exporter.machines import one

BEAT = 0.02


def settings(**more):
    quick = {
        "discovery": DiscoverySettings(interval=0.05, open_retry=0.02, replaced=0.1, failing=0.2),
        "allocations_seconds": 0.02,
        "keep_allocations_seconds": 0.3,
        "hang_seconds": 0.15,
        "watchdog_seconds": 0.02,
        "events_seconds": 0.02,
    }
    accounting = AccountingSettings(interval_seconds=BEAT, max_gap_seconds=5.0, linger_seconds=0.1)
    return SamplerSettings("node-1", accounting, **{**quick, **more})


@contextmanager
def running(
    backend, source=None, attribution=None, *, clock=None, renew=None, counters=dict, **more
):
    how = settings(**more)
    sampler = Sampler(backend, source, attribution, how, clock, renew=renew, counters=counters)
    sampler.start()
    try:
        yield sampler
    finally:
        sampler.close(timeout=1.0)


def value(sampler, family, **labels):
    return one(sampler.snapshot(), family, **labels)


def observed(sampler, **labels):
    return value(sampler, m.DEVICE_OBSERVED_SECONDS, signal="kernel", **labels) or 0.0


def errors(sampler, source, reason):
    return value(sampler, m.EXPORTER_ERRORS, source=source, reason=reason) or 0.0
