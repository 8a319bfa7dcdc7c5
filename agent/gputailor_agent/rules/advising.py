"""What rules that advise a change of the program or of its surroundings have in common.

A ``Case`` is one workload that has passed its gate; its answers carry the gate's numbers. Each
finding's confidence stands among its numbers with the reason for it, since what cannot be measured
beforehand (how much faster a change of code is) is never counted as a saving.
"""

from dataclasses import dataclass

from gputailor_agent.model.inventory import ContainerSpec, Pod
from gputailor_agent.model.judgement import (
    Change,
    Confidence,
    Evidence,
    Finding,
    Interval,
    Message,
    Saving,
    Severity,
    Silence,
    SilenceKind,
)
from gputailor_agent.model.profile import Profile
from gputailor_agent.profiles.describing import container_spec
from gputailor_agent.rules.base import Context, Limits, Rule, finding_id, noted, silence
from gputailor_agent.rules.changes import target_of
from gputailor_agent.rules.gates import Basis, sizing
from gputailor_agent.rules.snippets import Snippet


@dataclass(frozen=True, slots=True)
class Case:
    """One workload that may be judged by a rule."""

    rule: str
    profile: Profile
    context: Context
    basis: Basis
    limits: Limits

    def covered(self, signal: str) -> bool:
        """Whether the signal was observed for the rule's least share of the time held."""
        return self.coverage(signal) >= self.limits["coverage"]

    def coverage(self, signal: str) -> float:
        """Observed seconds of the signal / seconds held, 0..1."""
        held = self.basis.total.allocated_seconds
        return min(1.0, self.basis.use(signal).observed_seconds / held) if held > 0 else 0.0

    def missing(self, *signals: str) -> tuple[str, ...]:
        """Those of ``signals`` that were not observed for long enough."""
        return tuple(signal for signal in signals if not self.covered(signal))

    def silent(
        self,
        kind: SilenceKind,
        why: Message,
        evidence: tuple[Evidence, ...] = (),
        *,
        missing: tuple[str, ...] = (),
        not_chosen: tuple[Message, ...] = (),
    ) -> Silence:
        """Return the rule's silence with the gate's numbers first."""
        return silence(
            self.rule,
            self.profile,
            kind,
            why,
            (*self.basis.evidence, *evidence),
            missing_signals=missing,
            not_chosen=not_chosen,
        )

    def found(self, why: Message, advice: "Advice", evidence: tuple[Evidence, ...]) -> Finding:
        """Return the rule's finding with the gate's numbers first."""
        return found(self.rule, self.profile, why, advice, (*self.basis.evidence, *evidence))


def opened(rule: Rule, profile: Profile, context: Context) -> Case | Silence:
    """Return the rule's case, or why the workload may not be judged by it (``gates.sizing``)."""
    limits = rule.limits(context)
    basis = sizing(rule.id, profile, context, limits)
    if isinstance(basis, Silence):
        return basis
    return Case(rule.id, profile, context, basis, limits)


@dataclass(frozen=True, slots=True)
class Advice:
    """What a finding says beside its message and numbers. ``reason``: of the confidence."""

    severity: Severity
    confidence: Confidence
    reason: str
    change: Change
    saving: Saving
    slowdown: Interval | None = None
    risks: tuple[Message, ...] = ()
    not_chosen: tuple[Message, ...] = ()


def found(
    rule: str, profile: Profile, why: Message, advice: Advice, evidence: tuple[Evidence, ...]
) -> Finding:
    """Return a finding; the confidence and its reason are the last of its numbers."""
    sure = noted("confidence", advice.confidence.value, profile=profile, formula=advice.reason)
    return Finding(
        id=finding_id(profile, rule),
        cluster=profile.workload.cluster,
        workload_id=profile.workload.id,
        rule=rule,
        severity=advice.severity,
        message=why,
        confidence=advice.confidence,
        evidence=(*evidence, sure),
        change=advice.change,
        saving=advice.saving,
        slowdown=advice.slowdown,
        risks=advice.risks,
        not_chosen=advice.not_chosen,
        window=profile.window,
    )


def edit_code(profile: Profile, snippet: Snippet) -> Change:
    """Return a change of the program: nothing that Kubernetes could apply."""
    return Change(
        kind="edit_code",
        target=target_of(profile.workload),
        params={"framework": snippet.framework},
        code=snippet.code,
        links=snippet.links,
        undo="take the lines out again",
    )


def containers_of(profile: Profile, context: Context) -> list[tuple[Pod, ContainerSpec]]:
    """Return the workload's pods that the inventory still knows, each with its container."""
    known = context.about(profile)
    if "containers" not in known:
        known["containers"] = _containers_of(profile, context)
    containers: list[tuple[Pod, ContainerSpec]] = known["containers"]
    return containers


def _containers_of(profile: Profile, context: Context) -> list[tuple[Pod, ContainerSpec]]:
    found: dict[tuple[str, str, str], tuple[Pod, ContainerSpec]] = {}
    for use in profile.gpus:
        pod = context.holdings.find(use.namespace, use.pod, use.pod_uid)
        spec = container_spec(pod, use.container)
        if pod is not None and spec is not None:
            found[pod.namespace, pod.name, pod.uid] = (pod, spec)
    return list(found.values())


def running_seconds(basis: Basis) -> float | None:
    """Most GPU-seconds in which anything ran; None where no such signal was observed.

    By the histogram of kernels (of SMs, where there are no kernels); seconds it does not cover
    count as running, so that a share of this time is never overstated.
    """
    use = next(
        (u for name in ("kernel", "sm") if (u := basis.use(name)).observed_seconds > 0), None
    )
    if use is None:
        return None
    if use.histogram is None:
        return use.observed_seconds
    return max(use.active_seconds, use.observed_seconds - use.histogram.zero_seconds)
