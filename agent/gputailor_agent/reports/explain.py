"""Why a workload got its verdict: every finding and every silence, with nothing hidden.

For each rule: what it says, the numbers it saw with window, samples and coverage, the thresholds
it held them against, the formulas, the signals it missed. An ``Explanation`` is made of values
already written as text, so that the console, a page and Markdown show the same figures; the
``verdict`` stands beside them for machines.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from gputailor_agent.model.inventory import Workload
from gputailor_agent.model.judgement import Evidence, Finding, Plan, Silence, SilenceKind, Verdict
from gputailor_agent.model.nearest import nearest
from gputailor_agent.model.profile import Window
from gputailor_agent.reports import overview, units
from gputailor_agent.reports.catalogues import _
from gputailor_agent.reports.change_words import change_text
from gputailor_agent.reports.recorded import of_logs, retold
from gputailor_agent.reports.translating import translated
from gputailor_agent.reports.wording import say, sentence
from gputailor_agent.rules import Rule, RuleSettings, Threshold, cluster_registry, registry
from gputailor_agent.rules.base import Limits
from gputailor_agent.rules.cluster_rules import ClusterRule

DEFAULT_RULES: Final = RuleSettings()


def kind_word(kind: SilenceKind) -> str:
    """How a rule that says nothing stands to a workload."""
    return {
        SilenceKind.NOT_APPLICABLE: _("not about such a workload"),
        SilenceKind.FINE: _("looked, nothing to say"),
        SilenceKind.WATCHING: _("watching"),
        SilenceKind.UNKNOWN: _("unknown"),
        SilenceKind.OPTED_OUT: _("opted out"),
    }[kind]


class Fact(msgspec.Struct, frozen=True, kw_only=True):
    """A label and its text."""

    label: str
    text: str


class Number(msgspec.Struct, frozen=True, kw_only=True):
    """One number that was looked at, as text in each column."""

    name: str
    value: str
    held_against: str
    passed: str  # "yes", "no" or '' where it only informs
    samples: str
    coverage: str
    window: str
    formula: str


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """What one rule has to say about the workload."""

    rule: str
    title: str
    standing: str  # "recommended", "alternative, not added up", or the kind of silence
    text: str
    facts: tuple[Fact, ...]
    numbers: tuple[Number, ...]
    thresholds: tuple[Fact, ...]
    patch: str = ""
    command: str = ""
    code: str = ""


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """Everything about one workload over one window; without a ``verdict``: about the cluster."""

    cluster: str
    window: Window
    verdict: Verdict | None
    facts: tuple[Fact, ...]
    sections: tuple[Section, ...]

    @property
    def subject(self) -> str:
        """What is explained: the workload's id, or the cluster."""
        return (
            self.verdict.workload.id
            if self.verdict is not None
            else _("cluster {name}", name=self.cluster)
        )


class UnknownWorkloadError(LookupError):
    """No or several workloads answer to a name; ``suggestions`` are those that may be meant."""

    def __init__(self, name: str, suggestions: list[str], *, several: bool = False) -> None:
        self.name, self.suggestions, self.several = name, suggestions, several
        start = f"{name!r} fits several workloads" if several else f"no workload {name!r}"
        listed = "".join(f"\n  {suggestion}" for suggestion in suggestions)
        hint = "; did you mean:" if suggestions and not several else (":" if several else "")
        super().__init__(f"{start}{hint}{listed}")


def find_verdict(plan: Plan, name: str) -> Verdict:
    """The verdict of a workload by id, by NAMESPACE/NAME, or by a part that only one id has.

    Raises:
        UnknownWorkloadError: no or several ids fit; it carries suggestions.
    """
    by_id = {verdict.workload.id: verdict for verdict in plan.verdicts}
    if name in by_id:
        return by_id[name]
    wanted = name.casefold()
    for fits in (
        [key for key in by_id if key.casefold().startswith(wanted)],
        [key for key, one in by_id.items() if wanted in _names(one.workload)],
        [key for key in by_id if wanted in key.casefold()],
    ):
        if len(fits) == 1:
            return by_id[fits[0]]
        if fits:
            raise UnknownWorkloadError(name, sorted(fits)[:10], several=True)
    raise UnknownWorkloadError(name, _similar(wanted, list(by_id)))


def _names(workload: Workload) -> tuple[str, ...]:
    """What people call a workload: its name, and with its namespace or container."""
    name, container = workload.name, workload.container
    said = (name, f"{workload.namespace}/{name}", f"{workload.namespace}/{name}/{container}")
    return tuple(one.casefold() for one in said)


def _similar(wanted: str, ids: list[str]) -> list[str]:
    """Ids whose whole or any part looks like what was typed."""
    parts = {part.casefold(): key for key in ids for part in (key, *key.split("/"))}
    close = nearest(wanted, parts, most=5, alike=0.5)
    return list(dict.fromkeys(parts[part] for part in close))


def explain(plan: Plan, verdict: Verdict, rules: RuleSettings = DEFAULT_RULES) -> Explanation:
    """The explanation of one workload of a plan that was made with the settings ``rules``."""
    if of_logs(plan):
        verdict = retold(verdict)
    sections = []
    if verdict.primary is not None:
        sections.append(found_section(verdict.primary, _("recommended"), rules))
    sections += [
        found_section(finding, _("alternative, not added up"), rules)
        for finding in verdict.alternatives
    ]
    sections += [silent_section(silence, plan.window, rules) for silence in verdict.silences]
    return Explanation(
        cluster=plan.cluster,
        window=plan.window,
        verdict=verdict,
        facts=_facts(plan, verdict),
        sections=tuple(sections),
    )


def _facts(plan: Plan, verdict: Verdict) -> tuple[Fact, ...]:
    workload = verdict.workload
    cost = units.money(verdict.cost)
    if verdict.cost_why is not None:
        cost += f" ({say(verdict.cost_why)})"
    pairs = [
        (_("workload"), workload.id),
        (_("state"), overview.state_word(verdict.state)),
        (_("window"), overview.window_text(plan.window)),
        *_belonging(workload),
        (_("asks for"), _asks(workload)),
        (_("GPUs now"), units.count(verdict.gpus_now)),
        (_("devices"), ", ".join(verdict.device_models) or units.unknown()),
        (_("GPU-hours in the window"), units.count(verdict.gpu_hours)),
        (_("cost of the window"), cost),
        (_("coverage"), overview.measured_ratio(verdict, verdict.coverage)),
        (_("spread over gaps"), _spread(verdict)),
        (_("mean kernel activity"), overview.measured_ratio(verdict, verdict.mean_kernel)),
        (_("mean SM activity"), overview.measured_ratio(verdict, verdict.mean_sm)),
        (
            _("memory peak"),
            _(
                "{part} of {whole}",
                part=units.size(verdict.memory_peak_bytes),
                whole=units.size(verdict.memory_total_bytes),
            ),
        ),
        (_("task"), _with_evidence(_(workload.task_class.value), workload.task_evidence)),
        (_("framework"), _with_evidence(workload.framework, workload.framework_evidence)),
        (
            _("takes memory in advance"),
            _with_evidence(
                _("yes") if workload.preallocates else _("no"), workload.preallocates_evidence
            ),
        ),
        (_("sources"), _(", ").join(map(translated, plan.sources)) or units.unknown()),
        (_("measured by"), _measured_by(verdict)),
    ]
    return tuple(Fact(label=label, text=text) for label, text in pairs)


def _belonging(workload: Workload) -> Iterator[tuple[str, str]]:
    """Whose it is, as far as anybody says so."""
    for label, text in (
        (_("team"), workload.team),
        (_("queue"), workload.queue),
        (_("experiment"), overview.tracked_text(workload)),
    ):
        if text:
            yield label, text


def _spread(verdict: Verdict) -> str:
    """How much was seen only as a sum over a time in which nobody looked."""
    if verdict.spread_seconds <= 0:
        return _("nothing")
    return _(
        "{length} of GPU time, known as a sum, not by the hour",
        length=units.duration(verdict.spread_seconds),
    )


def _measured_by(verdict: Verdict) -> str:
    """Which exporters told of the devices, and which signals another one had to fill in."""
    by: dict[str, list[str]] = {}
    for name, told in verdict.filled.items():
        by.setdefault(", ".join(told), []).append(name)
    others = "".join(
        _("; {signals} by {who}", signals=_(", ").join(names), who=who) for who, names in by.items()
    )
    return (", ".join(verdict.dialects) or units.unknown()) + others


def _asks(workload: Workload) -> str:
    asked = [f"{units.count(ask.count)} x {ask.resource}" for ask in workload.gpu_requests]
    return ", ".join(asked) or units.unknown()


def _with_evidence(value: str, evidence: str) -> str:
    value = value or units.unknown()
    return f"{value} ({translated(evidence)})" if evidence else value


def found_section(finding: Finding, standing: str, rules: RuleSettings) -> Section:
    """What a finding says, with every number; ``standing`` as in ``Section``."""
    saving = finding.saving
    facts = [
        (_("saving"), overview.saving_text(finding)),
        (_("saving in GPU-hours per month"), units.count(saving.gpu_hours_per_month)),
        (_("saving by"), translated(saving.formula)),
        (_("not quantified because"), say(saving.why)),
        (_("slowdown"), overview.slowdown_text(finding)),
        (_("severity"), _(finding.severity.value)),
        (_("confidence"), _(finding.confidence.value)),
        (_("change"), change_text(finding.change)),
        (_("undo"), translated(finding.change.undo)),
        *((_("documentation"), link) for link in finding.change.links),
        *((_("risk"), say(risk)) for risk in finding.risks),
        *((_("not chosen"), say(other)) for other in finding.not_chosen),
    ]
    return Section(
        rule=finding.rule,
        title=rule_title(finding.rule),
        standing=standing,
        text=sentence(say(finding.message)),
        facts=tuple(Fact(label=label, text=text) for label, text in facts if text),
        numbers=_numbers(finding.evidence, finding.window),
        thresholds=thresholds(finding.rule, rules),
        patch=finding.change.patch,
        command=finding.change.command,
        code=finding.change.code,
    )


def silent_section(silence: Silence, window: Window, rules: RuleSettings) -> Section:
    """Why a rule says nothing, with every number it looked at."""
    facts = []
    if silence.ready_at is not None:
        facts.append(Fact(label=_("ready"), text=units.utc(silence.ready_at)))
    if silence.missing_signals:
        missing = map(translated, silence.missing_signals)
        facts.append(Fact(label=_("missing signals"), text=_(", ").join(missing)))
    facts += [Fact(label=_("not chosen"), text=say(other)) for other in silence.not_chosen]
    return Section(
        rule=silence.rule,
        title=rule_title(silence.rule),
        standing=kind_word(silence.kind),
        text=sentence(say(silence.message)),
        facts=tuple(facts),
        numbers=_numbers(silence.evidence, window),
        thresholds=thresholds(silence.rule, rules),
    )


def _rule(rule: str) -> Rule | ClusterRule | None:
    every: tuple[Rule | ClusterRule, ...] = (*registry(), *cluster_registry())
    return next((known for known in every if known.id == rule), None)


def rule_title(rule: str) -> str:
    """What people call a rule; its id where there is no such rule (any more)."""
    known = _rule(rule)
    return rule if known is None else _(known.title)


def thresholds(rule: str, rules: RuleSettings) -> tuple[Fact, ...]:
    """A rule's thresholds in force: name, value in its unit, the default where another is set."""
    known = _rule(rule)
    if known is None:
        return ()
    limits = Limits(known, rules)
    return tuple(
        Fact(label=one.name, text=f"{_in_force(one, limits[one.name])}: {_(one.meaning)}")
        for one in known.thresholds
    )


def _in_force(threshold: Threshold, value: float) -> str:
    text = units.quantity(value, threshold.unit)
    if value == threshold.default:
        return text
    default = units.quantity(threshold.default, threshold.unit)
    return _("{value} (set; default {default})", value=text, default=default)


def _numbers(evidence: tuple[Evidence, ...], window: Window) -> tuple[Number, ...]:
    return tuple(_number(item, window) for item in evidence)


def _number(item: Evidence, window: Window) -> Number:
    held = (
        f"{item.comparison} {units.quantity(item.threshold, item.unit)}" if item.comparison else ""
    )
    return Number(
        name=translated(item.name),
        value=_value(item),
        held_against=held,
        passed="" if item.passed is None else (_("yes") if item.passed else _("no")),
        samples="" if item.samples is None else units.count(item.samples),
        coverage="" if item.coverage is None else units.ratio(item.coverage),
        window=overview.window_text(item.window or window),
        formula=translated(item.formula),
    )


def _value(item: Evidence) -> str:
    text = units.quantity(item.value, item.unit)
    return translated(text) if isinstance(item.value, str) else text
