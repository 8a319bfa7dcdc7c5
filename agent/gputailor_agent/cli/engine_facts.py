"""What inference engines say of a workload, as facts that ``gputailor explain`` shows.

Everything that the profile has: what an engine does not tell is unknown, never 0.
"""

from collections.abc import Callable, Iterator

from gputailor_agent.dialects.engines import engines
from gputailor_agent.model.containers import EngineUse, Level
from gputailor_agent.model.profile import Profile
from gputailor_agent.reports import units
from gputailor_agent.reports.catalogues import _
from gputailor_agent.reports.explain import Fact


def engine_facts(profile: Profile | None) -> tuple[Fact, ...]:
    """The engine's figures over the window; none where no engine was seen."""
    if profile is None or profile.engine is None:
        return ()
    return tuple(Fact(label=label, text=text) for label, text in _facts(profile.engine))


def _facts(use: EngineUse) -> Iterator[tuple[str, str]]:
    titles = {engine.name: engine.title for engine in engines()}
    names = _(", ").join(titles.get(name, name) for name in use.engines)
    hours = units.duration(use.observed_seconds)
    told = _("{engines}, over {hours} of all its servers together", engines=names, hours=hours)
    yield _("engine's own figures"), told
    yield _("requests finished"), _rate(use.requests, use)
    yield _("tokens read"), _rate(use.prompt_tokens, use)
    yield _("tokens written"), _rate(use.output_tokens, use)
    yield _("latency of a request, mean"), units.duration(use.latency_seconds)
    yield _("requests running"), _level(use.running, units.count)
    yield _("requests waiting"), _level(use.waiting, units.count)
    yield _("KV cache in use"), _level(use.cache, units.ratio)
    yield _("device memory by the engine"), units.size(use.memory_peak_bytes)
    last = units.utc(use.last_request)
    if use.last_request is not None:
        last = _("in the hour before {time}", time=last)
    yield _("last request"), last


def _rate(total: float | None, use: EngineUse) -> str:
    """A total, and per second of a server."""
    if total is None or not use.observed_seconds:
        return units.count(total)
    rate = f"{total / use.observed_seconds:,.3g}"
    return _("{total} ({rate} a second and server)", total=units.count(total), rate=rate)


def _level(level: Level | None, say: Callable[[float | None], str]) -> str:
    """Mean of a server, and the highest of any one."""
    if level is None:
        return units.unknown()
    mean = say(level.mean)
    if level.maximum is None:
        return _("{mean} on average of a server", mean=mean)
    return _("{mean} on average of a server, at most {most}", mean=mean, most=say(level.maximum))
