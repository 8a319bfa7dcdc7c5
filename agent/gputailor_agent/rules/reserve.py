"""Reserve: a service is at work round the clock for weeks, so a commitment would cost less.

k* = max k with P(q >= k) >= 1 - discount over 30 days and over the hours of the week, q the GPUs at
work in an hour (``commitments``). Asked are a service, nodes that are known to be on demand, a
price of a commitment for their very instance type, and k* of at least one whole instance, since
parts of one are not sold. A commitment keeps what it is made for, waste too: where any rule has
something to say about how many GPUs are needed, of which kind, or what they should cost, that comes
first, and the planner says so in place of this rule (``planner.interplay``).
"""

import math
from dataclasses import dataclass
from typing import Final

from gputailor_agent.model.inventory import Node, TaskClass
from gputailor_agent.model.judgement import (
    Change,
    Confidence,
    Evidence,
    Finding,
    Interval,
    Message,
    Money,
    Saving,
    Severity,
    Silence,
    SilenceKind,
)
from gputailor_agent.model.profile import GpuUse, Profile
from gputailor_agent.rules import changes
from gputailor_agent.rules.advising import Advice, Case, opened
from gputailor_agent.rules.base import (
    Context,
    Rule,
    Threshold,
    held_against,
    message,
    noted,
)
from gputailor_agent.rules.commitments import Commitment, Steadiness, commitments, steadiness
from gputailor_agent.rules.gates import GATE_MESSAGES, SIZING_THRESHOLDS
from gputailor_agent.rules.pricing import equivalent, is_service, node_of

_ID: Final = "reserve"
_FORMULA: Final = "(mean GPUs at work, up to k, x present price - k x committed price) x 730 h"
_LINKS: Final = {
    "aws": "https://aws.amazon.com/ec2/pricing/reserved-instances/",
    "gcp": "https://cloud.google.com/compute/docs/instances/committed-use-discounts-overview",
    "azure": "https://learn.microsoft.com/azure/cost-management-billing/reservations/"
    "save-compute-costs-reservations",
}

_THRESHOLDS: Final = (
    *(one for one in SIZING_THRESHOLDS if one.name != "service_days"),
    Threshold("service_days", 30, "count", "full UTC days observed before a commitment is named"),
    Threshold("least_saving", 0.1, "ratio", "saving of what the committed GPUs cost now; own"),
)

_MESSAGES: Final = {
    **GATE_MESSAGES,
    "reserve.pays": "{gpus:count} of its GPUs work for {share:ratio} of all hours: committed for "
    "{years:count} year(s) ({instances:count} x {instance}) they cost {ratio:ratio} of the present "
    "price",
    "reserve.not_service": "runs that end are no ground for a commitment",
    "reserve.notebook": "a person's notebook is no ground for a commitment",
    "reserve.not_on_demand": "its nodes are paid for in another way already ({capacity})",
    "reserve.unknown_capacity": "unknown: whether its nodes are on demand is not told by their "
    "labels",
    "reserve.no_price": "unknown: no price of a commitment is known for {instance}; give one in a "
    "file of own prices (capacity_type reserved-1y)",
    "reserve.several": "its pods are on several kinds of instances ({instances}): commit by kind, "
    "once it is settled which stays",
    "reserve.not_steady": "no GPU of it works for {least:ratio} of all hours, by which a "
    "commitment for {instance} would pay; one works for {share:ratio}",
    "reserve.part": "{gpus:count} of its GPUs work round the clock, but {instance} is committed "
    "with {whole:count}: only together with others",
    "reserve.little": "a commitment for {instance} would save {saved:ratio} of what they cost now",
    "reserve.after_others": "not yet: {rules} may change how many GPUs are needed, which or at "
    "what price; a commitment would keep what is wasted now",
    "reserve.risk_bound": "it is paid for {years:count} year(s) whether it is used or not; below "
    "{ratio:ratio} of the time it costs more than on demand",
    "reserve.risk_price": "cards get cheaper, and better ones come, before the term ends",
    "reserve.risk_pool": "whose pods run on a committed instance is the scheduler's choice: what "
    "counts is that somebody's do",
    "reserve.longer": "{years:count} year(s), at {ratio:ratio} of the present price: for longer "
    "than is known",
    "reserve.not_spot": "spot: a service would be interrupted",
    "reserve.not_all": "all {now:count} GPUs: the others do not work round the clock",
}


@dataclass(frozen=True, slots=True)
class _Case:
    """A steady service, the offers for its kind of instance, and how steady it is."""

    case: Case
    node: Node
    offers: tuple[Commitment, ...]
    steady: Steadiness
    now: int

    @property
    def instance(self) -> str:
        return self.node.instance_type or "its GPUs"


def evaluate(profile: Profile, context: Context) -> Finding | Silence:
    """Say whether a commitment would pay for the workload."""
    case = opened(RULE, profile, context)
    if isinstance(case, Silence):
        return case
    key = "" if is_service(profile) else "not_service"
    if profile.workload.task_class == TaskClass.NOTEBOOK:
        key = "notebook"
    if key:
        return case.silent(SilenceKind.NOT_APPLICABLE, message(f"{_ID}.{key}"))
    live = context.holdings.live_uses(profile.gpus, profile.window)
    node = _node(case, live)
    if isinstance(node, Silence):
        return node
    offers = commitments(context, node)
    if not offers:
        why = message("reserve.no_price", instance=node.instance_type or "its GPUs")
        return case.silent(SilenceKind.UNKNOWN, why)
    steady = steadiness(profile, context, profile.gpus)
    now = math.floor(sum(equivalent(context, use) for use in live) + 1e-9)
    return _judged(_Case(case, node, offers, steady, now))


def _node(case: Case, live: tuple[GpuUse, ...]) -> Node | Silence:
    """Any one of its nodes, all of which are of one kind and on demand, or why not."""
    nodes = [node_of(case.context, use) for use in live]
    known = [node for node in nodes if node is not None]
    others = {node.capacity_type for node in known} - {"", "on-demand"}
    if others:
        why = message("reserve.not_on_demand", capacity=", ".join(sorted(others)))
        return case.silent(SilenceKind.NOT_APPLICABLE, why)
    if not known or len(known) < len(nodes) or not all(node.capacity_type for node in known):
        return case.silent(SilenceKind.UNKNOWN, message("reserve.unknown_capacity"))
    kinds = {(node.instance_type, node.region, node.gpu_product): node for node in known}
    if len(kinds) > 1:
        names = ", ".join(sorted({name or product for name, _, product in kinds}))
        return case.silent(SilenceKind.FINE, message("reserve.several", instances=names))
    return next(iter(kinds.values()))


def _judged(one: _Case) -> Finding | Silence:
    offer = one.offers[0]
    gpus = one.steady.round_the_clock(offer.ratio, one.now)
    whole = max(1, math.ceil(offer.reserved.gpu_count))
    committed = gpus // whole * whole
    numbers = _numbers(one, offer, gpus, whole)
    case = one.case
    if gpus == 0:
        share = one.steady.share_at_least(1)
        why = message("reserve.not_steady", least=offer.ratio, share=share, instance=one.instance)
        return case.silent(SilenceKind.FINE, why, numbers)
    if committed == 0:
        why = message("reserve.part", gpus=gpus, instance=one.instance, whole=whole)
        return case.silent(SilenceKind.FINE, why, numbers)
    costs_now = one.steady.mean_of(committed) * offer.present.amount_per_gpu_hour
    saved = costs_now - committed * offer.reserved.amount_per_gpu_hour
    enough = held_against(
        "saved of their cost", saved / costs_now if costs_now > 0 else 0.0, ">=",
        case.limits["least_saving"], unit="ratio", profile=case.profile,
        formula="1 - k x committed price / (mean GPUs at work, up to k, x present price)",
    )  # fmt: skip
    if not enough.passed:
        why = message("reserve.little", instance=one.instance, saved=enough.value)
        return case.silent(SilenceKind.FINE, why, (*numbers, enough))
    return _finding(one, committed, whole, saved, (*numbers, enough))


def _numbers(one: _Case, offer: Commitment, gpus: int, whole: int) -> tuple[Evidence, ...]:
    profile = one.case.profile
    at = max(1, gpus)
    return (
        held_against(f"hours with {at} GPU(s) at work", one.steady.share_at_least(at), ">=",
                     offer.ratio, unit="ratio", profile=profile, signal=one.case.basis.busy,
                     formula="share of hours with q >= k, of the window and of the week the lower; "
                     "held against committed / present price"),
        noted("GPUs round the clock", gpus, unit="gpus", profile=profile,
              formula="k* = max k with P(q >= k) >= 1 - discount"),
        noted("GPUs now", one.now, unit="gpus", profile=profile,
              formula="whole GPUs held at the window's end"),
        noted("quietest hour of the week", min(one.steady.week, default=0.0), unit="gpus",
              profile=profile, formula="least mean of GPUs at work of 168 hours"),
        noted("GPUs of one committed instance", whole, unit="gpus", profile=profile,
              formula="as the price list sells it"),
        noted("present price", offer.present.amount_per_gpu_hour,
              unit=f"{offer.present.currency.lower()}_per_gpu_hour", profile=profile,
              formula=_source(offer.present.source, offer.present.as_of)),
        noted("committed price", offer.reserved.amount_per_gpu_hour,
              unit=f"{offer.reserved.currency.lower()}_per_gpu_hour", profile=profile,
              formula=_source(offer.reserved.source, offer.reserved.as_of)),
    )  # fmt: skip


def _source(source: str, as_of: str) -> str:
    return f"{source}, as of {as_of}" if as_of else source


def _finding(
    one: _Case, gpus: int, whole: int, saved: float, numbers: tuple[Evidence, ...]
) -> Finding:
    offer, case = one.offers[0], one.case
    why = message(
        "reserve.pays",
        gpus=gpus,
        share=one.steady.share_at_least(gpus),
        years=offer.years,
        instances=gpus // whole,
        instance=one.instance,
        ratio=offer.ratio,
    )
    amount = saved * case.context.hours_per_month
    advice = Advice(
        severity=Severity.MEDIUM,
        confidence=Confidence.MEDIUM,
        reason="use and both prices are known; whether it stays for the term is not",
        change=_change(one, offer, gpus, whole),
        saving=Saving(
            gpu_hours_per_month=0.0,
            money_per_month=Money(amount=amount, currency=offer.reserved.currency),
            formula=_FORMULA,
        ),
        slowdown=Interval(low=1.0, high=1.0),
        risks=(
            message("reserve.risk_bound", years=offer.years, ratio=offer.ratio),
            message("reserve.risk_price"),
            message("reserve.risk_pool"),
        ),
        not_chosen=_not_chosen(one, gpus),
    )
    return case.found(why, advice, numbers)


def _not_chosen(one: _Case, gpus: int) -> tuple[Message, ...]:
    longer = (
        message("reserve.longer", years=offer.years, ratio=offer.ratio) for offer in one.offers[1:]
    )
    rest = (message("reserve.not_all", now=one.now),) if one.now > gpus else ()
    return (*longer, message("reserve.not_spot"), *rest)


def _change(one: _Case, offer: Commitment, gpus: int, whole: int) -> Change:
    page = _LINKS.get(offer.reserved.provider.lower(), "")
    return Change(
        kind="reserve",
        target=changes.target_of(one.case.profile.workload),
        params={
            "gpus": gpus,
            "instances": gpus // whole,
            "instance_type": one.node.instance_type,
            "region": one.node.region,
            "years": offer.years,
        },
        links=(page,) if page else tuple(_LINKS.values()),
        undo="a commitment cannot be taken back: it ends with its term",
    )


RULE: Final = Rule(
    id=_ID,
    title="Reserved capacity",
    summary="A service works round the clock for weeks: a commitment would cost less.",
    signals=("kernel", "sm"),
    thresholds=_THRESHOLDS,
    messages=_MESSAGES,
    evaluate=evaluate,
    order=80,
)
