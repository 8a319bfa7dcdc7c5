"""One recommendation per module: a module with a ``RULE`` is a rule, and nothing else lists it.

A rule is a pure function of a profile and a context. It answers with a finding or with the reason
for its silence, and each carries the numbers that decided. Opt-outs are honoured here, before any
rule is asked.
"""

import pkgutil
from functools import cache
from importlib import import_module

from gputailor_agent.model.judgement import Finding, Silence
from gputailor_agent.model.nearest import meant_or_known
from gputailor_agent.model.profile import Profile
from gputailor_agent.rules.base import (
    Catalogue,
    Context,
    Limited,
    Rule,
    RuleSettings,
    SettingsError,
    Threshold,
)
from gputailor_agent.rules.cluster_rules import cluster_registry, evaluate_cluster
from gputailor_agent.rules.opting_out import opted_out

__all__ = [
    "Catalogue",
    "Context",
    "Rule",
    "RuleSettings",
    "SettingsError",
    "Threshold",
    "check_settings",
    "cluster_registry",
    "evaluate_all",
    "evaluate_cluster",
    "registry",
    "with_thresholds",
]


@cache
def registry() -> tuple[Rule, ...]:
    """Every rule, in the order in which ties are broken (``Rule.order``, then id)."""
    found = []
    for module in pkgutil.iter_modules(__path__):
        rule = getattr(import_module(f"{__name__}.{module.name}"), "RULE", None)
        if isinstance(rule, Rule):
            found.append(rule)
    return tuple(sorted(found, key=lambda rule: (rule.order, rule.id)))


def evaluate_all(profile: Profile, context: Context) -> list[Finding | Silence]:
    """Return what every rule says about the profile, in the registry's order."""
    return [
        opted_out(profile, context, rule.id) or rule.evaluate(profile, context)
        for rule in registry()
    ]


def with_thresholds() -> tuple[Limited, ...]:
    """Every rule that has thresholds: about workloads, and about the cluster."""
    return (*registry(), *cluster_registry())


def check_settings(settings: RuleSettings) -> None:
    """Raise ``SettingsError`` for a setting of no rule or threshold, or a value it cannot have."""
    rules = {rule.id: rule for rule in with_thresholds()}
    for rule_id, values in settings.thresholds.items():
        rule = rules.get(rule_id)
        if rule is None:
            raise SettingsError(
                f"thresholds.{rule_id}: no such rule{meant_or_known(rule_id, rules)}"
            )
        known = {threshold.name: threshold for threshold in rule.thresholds}
        for name, value in values.items():
            if name not in known:
                raise SettingsError(
                    f"thresholds.{rule_id}.{name}: no such threshold{meant_or_known(name, known)}"
                )
            _check_value(f"thresholds.{rule_id}.{name}", value, known[name].unit)


def _check_value(where: str, value: float, unit: str) -> None:
    """A share lies in 0..1, everything else is not negative."""
    if unit == "ratio" and not 0 <= value <= 1:
        hint = f"; did you mean {value / 100:g}?" if 1 < value <= 100 else ""  # noqa: PLR2004 - a percentage
        raise SettingsError(f"{where}: expected a share from 0 to 1, found {value:g}{hint}")
    if not value >= 0:
        raise SettingsError(f"{where}: expected 0 or more, found {value:g}")
