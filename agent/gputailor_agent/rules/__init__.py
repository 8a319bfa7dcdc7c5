"""One recommendation per module: a module with a ``RULE`` is a rule, and nothing else lists it.

A rule is a pure function of a profile and a context. It answers with a finding or with the reason
for its silence, and each carries the numbers that decided. Opt-outs are honoured here, before any
rule is asked.
"""

import pkgutil
from functools import cache
from importlib import import_module

from gputailor_agent.model.judgement import Finding, Silence
from gputailor_agent.model.profile import Profile
from gputailor_agent.rules.base import (
    Catalogue,
    Context,
    Rule,
    RuleSettings,
    SettingsError,
    Threshold,
)
from gputailor_agent.rules.gates import opted_out

__all__ = [
    "Catalogue",
    "Context",
    "Rule",
    "RuleSettings",
    "SettingsError",
    "Threshold",
    "check_settings",
    "evaluate_all",
    "registry",
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


def check_settings(settings: RuleSettings) -> None:
    """Raise ``SettingsError`` where a setting names no rule or no threshold of that rule."""
    rules = {rule.id: rule for rule in registry()}
    for rule_id, values in settings.thresholds.items():
        rule = rules.get(rule_id)
        if rule is None:
            raise SettingsError(
                f"thresholds.{rule_id}: no such rule; the rules are: {', '.join(rules)}"
            )
        names = [threshold.name for threshold in rule.thresholds]
        for name in values:
            if name not in names:
                raise SettingsError(
                    f"thresholds.{rule_id}.{name}: no such threshold; "
                    f"{rule_id} has: {', '.join(names)}"
                )
