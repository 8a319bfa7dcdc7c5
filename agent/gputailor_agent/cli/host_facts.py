"""What a workload's containers used of their nodes, as facts that ``gputailor explain`` shows.

They stand there whether or not anybody measured the devices; what is not told is unknown, never 0.
"""

from collections.abc import Iterator

from gputailor_agent.model.containers import HostUse
from gputailor_agent.model.profile import Profile
from gputailor_agent.reports import units
from gputailor_agent.reports.catalogues import _
from gputailor_agent.reports.explain import Fact


def host_facts(profile: Profile | None) -> tuple[Fact, ...]:
    """The containers' figures over the window; none where nobody told of any."""
    if profile is None or profile.host is None:
        return ()
    return tuple(Fact(label=label, text=text) for label, text in _facts(profile.host))


def _facts(use: HostUse) -> Iterator[tuple[str, str]]:
    if use.observed_seconds is not None:
        hours = units.duration(use.observed_seconds)
        seen = _("seen over {hours} of all its containers together", hours=hours)
        yield _("beside its GPUs"), seen
    used = units.count(use.cpus_used)
    if use.cpu_of_limit is not None:
        share = units.ratio(use.cpu_of_limit)
        used = _("{used}, {share} of the limit", used=used, share=share)
    yield _("CPUs used by a container, mean"), used
    yield _("time throttled, of the CPU quota's"), units.ratio(use.throttled_ratio)
    peak = units.size(use.memory_peak_bytes)
    if use.memory_limit_bytes is not None:
        peak = _("{part} of {whole}", part=peak, whole=units.size(use.memory_limit_bytes))
    yield _("memory of a container, highest"), peak
    yield _("waiting for input and output"), units.ratio(use.pressure.get("io/some"))
    yield _("restarts"), units.count(use.restarts)
    yield _("killed for memory"), units.count(use.oom_kills)
