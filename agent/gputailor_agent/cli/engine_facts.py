"""What inference engines say of a workload, as facts that ``gputailor explain`` shows.

Everything that the profile has: what an engine does not tell is unknown, never 0.
"""

from collections.abc import Callable, Iterator

from gputailor_agent.dialects.engines import engines
from gputailor_agent.model.containers import EngineUse, Level
from gputailor_agent.model.profile import Profile
from gputailor_agent.reports import units
from gputailor_agent.reports.explain import Fact


def engine_facts(profile: Profile | None) -> tuple[Fact, ...]:
    """The engine's figures over the window; none where no engine was seen."""
    if profile is None or profile.engine is None:
        return ()
    return tuple(Fact(label=label, text=text) for label, text in _facts(profile.engine))


def _facts(use: EngineUse) -> Iterator[tuple[str, str]]:
    titles = {engine.name: engine.title for engine in engines()}
    names = ", ".join(titles.get(name, name) for name in use.engines)
    hours = units.duration(use.observed_seconds)
    yield "engine's own figures", f"{names}, over {hours} of all its servers together"
    yield "requests finished", _rate(use.requests, use)
    yield "tokens read", _rate(use.prompt_tokens, use)
    yield "tokens written", _rate(use.output_tokens, use)
    yield "latency of a request, mean", units.duration(use.latency_seconds)
    yield "requests running", _level(use.running, units.count)
    yield "requests waiting", _level(use.waiting, units.count)
    yield "KV cache in use", _level(use.cache, units.ratio)
    yield "device memory by the engine", units.size(use.memory_peak_bytes)
    last = units.utc(use.last_request)
    yield "last request", last if use.last_request is None else f"in the hour before {last}"


def _rate(total: float | None, use: EngineUse) -> str:
    """A total, and per second of a server."""
    if total is None or not use.observed_seconds:
        return units.count(total)
    return f"{units.count(total)} ({total / use.observed_seconds:,.3g} a second and server)"


def _level(level: Level | None, say: Callable[[float | None], str]) -> str:
    """Mean of a server, and the highest of any one."""
    if level is None:
        return units.UNKNOWN
    highest = "" if level.maximum is None else f", at most {say(level.maximum)}"
    return f"{say(level.mean)} on average of a server{highest}"
