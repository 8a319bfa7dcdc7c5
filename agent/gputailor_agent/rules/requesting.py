"""What inference engines say of their requests, as evidence: a server that is asked is not idle."""

from gputailor_agent.model.judgement import Evidence
from gputailor_agent.model.profile import Profile
from gputailor_agent.model.usage import HOUR_SECONDS
from gputailor_agent.rules.base import noted


def request_evidence(profile: Profile) -> tuple[Evidence, ...]:
    """Return how many requests there were; nothing where no engine tells."""
    engine = profile.engine
    if engine is None:
        return ()
    names = ", ".join(engine.engines)
    return (
        noted(
            "requests in the window",
            engine.requests,
            unit="requests",
            profile=profile,
            formula=f"rise of the counters of finished requests ({names}), all pods",
        ),
    )


def asked_within(profile: Profile) -> float | None:
    """Return seconds before the window's end within which there was a request; None for none known.

    Requests are known by the hour, so this reaches back to the begin of the last hour with one.
    """
    engine = profile.engine
    if engine is None or engine.last_request is None:
        return None
    return max(0.0, profile.window.end - engine.last_request) + HOUR_SECONDS
