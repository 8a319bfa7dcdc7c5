"""Whether the change that a finding asked for was really made, seen in the requests themselves.

Nobody has to report anything: what a workload asks for before and after is compared. Changes inside
a container (mixed precision, a data loader) cannot be seen so; they end as expired when the finding
is not made any more.
"""

from enum import StrEnum
from typing import Final

from gputailor_agent.model.ledger import Prediction, Setup

RELEASE: Final = "release"


class Made(StrEnum):
    """How much of a change was made."""

    NO = "no"
    PART = "part"
    FULL = "full"


def made(prediction: Prediction, before: Setup, now: Setup) -> Made:
    """How much of the foretold change lies between two set-ups of a workload."""
    params = prediction.params
    if prediction.change == RELEASE:
        return Made.FULL if before.pods > 0 and now.pods == 0 else Made.NO
    if prediction.change == "set_replicas":
        if now.pods == 0:  # nobody asked for that: it stopped, which is another thing
            return Made.NO
        return _fewer(before.pods, now.pods, params.get("replicas"))
    if prediction.change == "set_gpus":
        return _fewer(before.gpus_per_pod, now.gpus_per_pod, params.get("gpus"))
    if prediction.change == "set_gpu_type":
        return _other_type(prediction, before, now)
    return Made.NO


def _fewer(before: float, now: float, wanted: object) -> Made:
    if now <= 0 or now >= before:
        return Made.NO
    if isinstance(wanted, int | float) and now > wanted:
        return Made.PART
    return Made.FULL


def _other_type(prediction: Prediction, before: Setup, now: Setup) -> Made:
    profile = prediction.params.get("mig_profile")
    if profile:
        wanted = f"mig-{profile}"
        return Made.FULL if wanted in now.shape and wanted not in before.shape else Made.NO
    model = str(prediction.params.get("model") or "")
    if not model or not now.models or set(now.models) == set(before.models):
        return Made.NO
    named = all(model.lower() in one.lower() or one.lower() in model.lower() for one in now.models)
    return Made.FULL if named else Made.PART
