"""What a workload's containers used of their nodes, as facts that ``gputailor explain`` shows.

They stand there whether or not anybody measured the devices; what is not told is unknown, never 0.
"""

from collections.abc import Iterator

from gputailor_agent.model.containers import HostUse
from gputailor_agent.model.profile import Profile
from gputailor_agent.reports import units
from gputailor_agent.reports.explain import Fact


def host_facts(profile: Profile | None) -> tuple[Fact, ...]:
    """The containers' figures over the window; none where nobody told of any."""
    if profile is None or profile.host is None:
        return ()
    return tuple(Fact(label=label, text=text) for label, text in _facts(profile.host))


def _facts(use: HostUse) -> Iterator[tuple[str, str]]:
    if use.observed_seconds is not None:
        hours = units.duration(use.observed_seconds)
        yield "beside its GPUs", f"seen over {hours} of all its containers together"
    limit = "" if use.cpu_of_limit is None else f", {units.ratio(use.cpu_of_limit)} of the limit"
    yield "CPUs used by a container, mean", f"{units.count(use.cpus_used)}{limit}"
    yield "time throttled, of the CPU quota's", units.ratio(use.throttled_ratio)
    of = "" if use.memory_limit_bytes is None else f" of {units.size(use.memory_limit_bytes)}"
    yield "memory of a container, highest", f"{units.size(use.memory_peak_bytes)}{of}"
    yield "waiting for input and output", units.ratio(use.pressure.get("io/some"))
    yield "restarts", units.count(use.restarts)
    yield "killed for memory", units.count(use.oom_kills)
