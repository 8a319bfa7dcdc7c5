"""Smaller GPU: a cheaper card that is present here would hold the work.

need = peak memory x 1.15, or x 1.25 where an out-of-memory kill was seen: the larger, never
multiplied. A candidate must hold the need, have the features, and cost at most 0.85 of the present
price after its slowdown's upper end; where only the lower end passes it is "try one run" and no
saving is counted. So it is where the work may take longer than ``slowdown_most``, or the candidate
lacks bfloat16 or fast links between cards that may be in use. Services that answer requests must
also stay at p99(u) P_now / P_c <= 0.8. Peaks include the warm-up; a true peak counts since the
device was handed out, even where that was before the window. Programs that take memory in advance
are not judged by memory. Where SM, tensor and DRAM activity are all unknown, another card is worth
one run and no saving counts, however cheap it is: measured slowdowns lay outside such an interval
too often, even widened by what they had strayed (``margins``; docs/accuracy.md). Where the
arguments name a known model, what it needs by arithmetic stands beside the peak. Where a slice of a
card is the better one, ``mig_slice`` offers it.
"""

from typing import Final

from gputailor_agent.model.judgement import Finding, Silence
from gputailor_agent.model.profile import Profile
from gputailor_agent.rules.base import Context, Rule
from gputailor_agent.rules.card_findings import card_messages
from gputailor_agent.rules.cards import CARD_THRESHOLDS, judged

_ID: Final = "smaller_gpu"

_MESSAGES: Final = card_messages(
    _ID,
    {
        "smaller_gpu.none_here": "none of {count:count} other kinds of GPU in this cluster holds "
        "it for enough less",
        "smaller_gpu.no_other": "this cluster has no other kind of GPU to compare with",
        "smaller_gpu.see_other": "the slice {candidate} does better: see mig_slice",
    },
)


def evaluate(profile: Profile, context: Context) -> Finding | Silence:
    """Say whether a cheaper card would hold the workload."""
    return judged(_ID, profile, context, RULE.limits(context))


RULE: Final = Rule(
    id=_ID,
    title="Smaller GPU",
    summary="A cheaper card that this cluster has would hold the work.",
    signals=("kernel", "sm", "tensor", "dram", "fp64"),
    thresholds=CARD_THRESHOLDS,
    messages=_MESSAGES,
    evaluate=evaluate,
    order=30,
)
