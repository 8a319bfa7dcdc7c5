"""MIG slice: a slice that this cluster has already cut would hold the work.

Judged as ``smaller_gpu`` judges cards, with the slice's part of SMs, memory and bandwidth: the peak
with headroom must fit what can be used of the slice, and it must cost at most 0.85 of the present
price after its slowdown's upper end. Slices and whole cards are compared with each other and one of
the two rules speaks. One-second values tell how full the card's kernels would make the slice (p98
of their width and of DRAM against 0.8 of its share); without them nothing is said: a mean hides the
bursts that a slice cannot hold. Where bursts fill it the finding is less sure and says how long the
work may take. Where a card would have to be cut first, ``share`` speaks. Pods of
several GPUs stay whole: slices have no links between them.
"""

from typing import Final

from gputailor_agent.model.judgement import Finding, Silence
from gputailor_agent.model.profile import Profile
from gputailor_agent.rules.base import Context, Rule, Threshold
from gputailor_agent.rules.card_findings import card_messages
from gputailor_agent.rules.cards import CARD_THRESHOLDS, judged

_ID: Final = "mig_slice"

_MESSAGES: Final = card_messages(
    _ID,
    {
        "mig_slice.none_here": "none of {count:count} kinds of MIG slices in this cluster holds it "
        "for enough less",
        "mig_slice.no_joint": "unknown: how much of the card its kernels fill is not known second "
        "by second, so a slice that would pay is not advised; the GPU Tailor exporter tells on "
        "Hopper and later cards",
        "mig_slice.no_other": "this cluster has no MIG slices (whether a card is worth cutting: "
        "see share)",
        "mig_slice.see_other": "the whole card {candidate} does better: see smaller_gpu",
    },
)


def evaluate(profile: Profile, context: Context) -> Finding | Silence:
    """Say whether a MIG slice of this cluster would hold the workload."""
    return judged(_ID, profile, context, RULE.limits(context))


RULE: Final = Rule(
    id=_ID,
    title="MIG slice",
    summary="A MIG slice that this cluster has would hold the work.",
    signals=("kernel", "sm", "tensor", "dram", "fp64"),
    thresholds=(
        *CARD_THRESHOLDS,
        Threshold("fill", 0.8, "ratio", "most p98 load of a slice's SMs and of its bandwidth"),
    ),
    messages=_MESSAGES,
    evaluate=evaluate,
    order=32,
)
