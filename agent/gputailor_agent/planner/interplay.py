"""The order in which changes of one workload should be made: how one changes what another is worth.

First what is not used at all is given back, then fewer GPUs, then smaller ones or parts, then a
better price for the time they are used (spot), and last a commitment. Each is worth less once those
before it are made, and a commitment would keep what they would take away: so of findings whose
saving is counted the first in this order is primary, whatever a later one promises of the present
size, and a commitment is named only where every rule about size, kind, price or the program itself
is quiet. Findings without a counted saving stay in the order of the rules.
"""

from collections.abc import Iterable
from typing import Final

from gputailor_agent.model.judgement import Finding, Silence, SilenceKind
from gputailor_agent.rules.base import message

#: Rules by the order of their changes; a rule that is not here comes between fewer and price.
_STAGES: Final = (
    ("idle", "idle_notebook"),
    ("standby", "too_many_gpus", "too_many_replicas"),
    ("smaller_gpu", "mig_slice", "share"),
    ("spot",),
    ("reserve",),
)
_STAGE_OF: Final = {rule: place for place, rules in enumerate(_STAGES) for rule in rules}
_BETWEEN: Final = 2
#: After every step of the order.
LAST: Final = len(_STAGES)
#: The rule about commitments.
COMMITMENT: Final = "reserve"
#: Rules whose findings leave alone how many GPUs are needed, of which kind, and their price.
_ASIDE: Final = frozenset(
    {COMMITMENT, "health", "environment_drift", "excess_cpu_memory", "time_limit", "other_vendor"}
)


def stage(rule: str) -> int:
    """Place of a rule's change in the order, from 0 on."""
    return _STAGE_OF.get(rule, _BETWEEN)


def without_early_commitments(
    findings: Iterable[Finding],
) -> tuple[list[Finding], list[Silence]]:
    """Return the findings, and silences in place of commitments that would come too early."""
    found = list(findings)
    first = sorted({one.rule for one in found} - _ASIDE)
    if not first:
        return found, []
    early = [one for one in found if one.rule == COMMITMENT]
    kept = [one for one in found if one.rule != COMMITMENT]
    return kept, [_held_back(one, first) for one in early]


def _held_back(finding: Finding, first: list[str]) -> Silence:
    return Silence(
        rule=finding.rule,
        workload_id=finding.workload_id,
        kind=SilenceKind.FINE,
        message=message("reserve.after_others", rules=", ".join(first)),
        evidence=finding.evidence,
        not_chosen=(finding.message,),
    )
