"""Words for a plan that was made of recorded logs alone: nobody there runs an exporter.

Rules speak of exporters and of runs that are still to come. A log is one run, over, and what it
lacks is a column: the messages below stand in for theirs, with the same parameters.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from gputailor_agent.model.judgement import Finding, Message, Plan, Silence, Verdict

#: How a source is called that is a recorded log, followed by its name.
LOG_SOURCE: Final = "log "
_PREFIX: Final = "recorded."

MESSAGES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "recorded.gate.coverage": "unknown: the log tells {signal} for {coverage:ratio} of the "
        "time the GPUs were held; {threshold:ratio} are needed. Record the whole run without "
        "gaps, with the column for it (utilization.gpu)",
        "recorded.gate.batch_runs": "too short a record: it is of one run, of {longest:seconds}; "
        "{long_enough:seconds} of a run are needed, or records of {needed:count} whole runs",
        "recorded.gate.too_short": "too short to judge: a record of {longest:seconds}; at least "
        "{needed:seconds} are needed",
        "recorded.gate.service_days": "too short a record: it holds {days:count} full UTC days, "
        "{needed:count} are needed before a service is judged",
        "recorded.gate.window_too_short": "too short a record: it holds {days:count} full UTC "
        "days, {needed:count} are needed before a service is judged",
        "recorded.idle.unknown_never_measured": "unknown: the log does not tell the use of "
        "{unknown:count} of {gpus:count} GPU(s); record utilization.gpu",
        **{
            f"recorded.{rule}.risk_start": "the record may begin after the run did: a higher peak "
            "while it started may be missing"
            for rule in ("mig_slice", "share", "smaller_gpu")
        },
    }
)


def of_logs(plan: Plan) -> bool:
    """Whether all that the plan knows of usage comes from recorded logs."""
    return bool(plan.sources) and all(one.startswith(LOG_SOURCE) for one in plan.sources)


def retold(verdict: Verdict) -> Verdict:
    """The verdict in the words of a log."""
    return msgspec.structs.replace(
        verdict,
        primary=None if verdict.primary is None else _finding(verdict.primary),
        alternatives=tuple(map(_finding, verdict.alternatives)),
        silences=tuple(map(_silence, verdict.silences)),
    )


def _finding(finding: Finding) -> Finding:
    return msgspec.structs.replace(
        finding,
        message=_message(finding.message),
        risks=tuple(map(_message, finding.risks)),
        not_chosen=tuple(map(_message, finding.not_chosen)),
    )


def _silence(silence: Silence) -> Silence:
    return msgspec.structs.replace(
        silence,
        message=_message(silence.message),
        not_chosen=tuple(map(_message, silence.not_chosen)),
        ready_at=None,  # a record does not grow
    )


def _message(message: Message) -> Message:
    key = _PREFIX + message.key
    return msgspec.structs.replace(message, key=key) if key in MESSAGES else message
