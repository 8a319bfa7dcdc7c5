"""How the figures came about: what is counted, how money is reckoned, which settings hold."""

from gputailor_agent.model.judgement import Plan
from gputailor_agent.reports import overview, units
from gputailor_agent.reports.beside import Beside
from gputailor_agent.reports.catalogues import _
from gputailor_agent.reports.document import Block, Bullets, Facts, Heading
from gputailor_agent.reports.translating import translated
from gputailor_agent.rules import registry


def methods_blocks(plan: Plan, beside: Beside) -> tuple[Block, ...]:
    """The last part of a report."""
    return (
        Heading(text=_("Methods and settings")),
        Facts(pairs=tuple(_settings(plan, beside))),
        Bullets(lines=_methods(), tone="muted"),
    )


def _settings(plan: Plan, beside: Beside) -> list[tuple[str, str]]:
    pairs = [
        (_("cluster"), plan.cluster),
        (_("window"), overview.window_text(plan.window)),
        (_("made at"), units.utc(plan.made_at)),
        (_("measured by"), _(", ").join(map(translated, plan.sources)) or units.unknown()),
    ]
    if beside.scope:
        pairs.append((_("of"), beside.scope))
    pairs.append((_("thresholds that were set"), _thresholds(beside.thresholds)))
    return pairs


def _thresholds(own: dict[str, float]) -> str:
    known = {f"{rule.id}.{one.name}": one.unit for rule in registry() for one in rule.thresholds}
    told = [f"{name} = {units.quantity(own[name], known.get(name, ''))}" for name in sorted(own)]
    return _(", ").join(told) or _("none")


def _methods() -> tuple[str, ...]:
    return (
        _(
            "Kernel activity is the share of the observed time in which some kernel ran; it does "
            "not tell how full a GPU was. What was not observed is left out of every mean."
        ),
        _(
            "A month has 730 hours. Savings are those of the first recommendation of each "
            "workload; alternatives and findings of low confidence are never added up."
        ),
        _(
            "Prices are those of the node's own labels, else your price list, else published list "
            "prices; a node's price goes to its GPUs."
        ),
        _(
            "Zero was measured. Unknown means that nobody told, and why is said above; not "
            "measured yet means that the first hour is not over."
        ),
        _(
            "gputailor explain WORKLOAD shows every number of a verdict with its window, samples, "
            "coverage, threshold and formula."
        ),
    )
