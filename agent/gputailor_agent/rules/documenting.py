"""``docs/rules.md`` from the registry.

``python -m gputailor_agent.rules.documenting > docs/rules.md`` writes it. A test compares the file
with what this module writes, so that no rule, threshold or message is undocumented.
"""

import re
import sys
from collections.abc import Iterable, Iterator
from typing import Final

from gputailor_agent.rules import Rule, cluster_registry, registry
from gputailor_agent.rules.cluster_rules import ClusterRule
from gputailor_agent.rules.fitting import FITTING_MESSAGES
from gputailor_agent.rules.gates import GATE_MESSAGES
from gputailor_agent.rules.opting_out import IGNORE, IGNORE_UNTIL, REASON
from gputailor_agent.rules.pricing import MONEY_MESSAGES

_SHARED: Final = {**GATE_MESSAGES, **MONEY_MESSAGES, **FITTING_MESSAGES}
_INTRODUCTION: Final = f"""\
<!-- Written by python -m gputailor_agent.rules.documenting; do not edit. -->
# Rules

Each rule looks at one workload over one window and answers with a finding or with the reason for
its silence; `gputailor explain WORKLOAD` shows both with every number. A silence is one of: not
about such a workload, fine, watching (with the date when it will be ready), unknown, opted out.
Unknown is never taken for zero. Of several findings for a workload one is primary; the others are
alternatives, and their savings are never added up.

A workload is left alone with annotations:

| annotation | value |
|---|---|
| `{IGNORE}` | a rule's id, several separated by commas, or `all` |
| `{IGNORE_UNTIL}` | a date or time (UTC) until which it counts; without it, for good |
| `{REASON}` | why, for those who read the report |

Any threshold can be set per rule: `thresholds: {{idle: {{act_minutes: 600}}}}` in the agent's
settings or in a file for `--thresholds`. A share lies between 0 and 1.
"""


_CLUSTER: Final = """\
# Rules about the cluster

They answer for each model and pool of nodes, and about no workload. Their savings stand apart from
the plan's, which are workloads'; `gputailor explain cluster` shows every number.
"""


def rules_page() -> str:
    """Return the whole page as Markdown."""
    parts = [_INTRODUCTION, *("\n".join(_rule(rule)) for rule in registry())]
    parts += [_CLUSTER, *("\n".join(_about_cluster(rule)) for rule in cluster_registry())]
    shared = "\n".join(_table(("message", "text"), _messages(_SHARED.items())))
    parts.append(f"## What several rules say\n\n{shared}\n")
    return "\n".join(parts)


def _rule(rule: Rule) -> Iterator[str]:
    signals = f"Signals: {', '.join(f'`{signal}`' for signal in rule.signals) or 'none'}.\n"
    yield from _section(rule, signals)


def _about_cluster(rule: ClusterRule) -> Iterator[str]:
    yield from _section(rule)


def _section(rule: Rule | ClusterRule, *lines: str) -> Iterator[str]:
    """Title, what it reads, its module's own words, thresholds, messages."""
    yield f"## {rule.title} (`{rule.id}`)\n"
    yield f"{rule.summary}\n"
    yield from lines
    module = sys.modules[rule.evaluate.__module__].__doc__ or ""
    yield f"{module.strip()}\n"
    thresholds = (
        (f"`{one.name}`", f"{one.default:g}", one.unit, one.meaning) for one in rule.thresholds
    )
    yield from _table(("threshold", "default", "unit", "meaning"), thresholds)
    yield ""
    own = ((key, text) for key, text in rule.messages.items() if key not in _SHARED)
    yield from _table(("message", "text"), _messages(own))
    yield ""


def _messages(items: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Templates as people read them: ``{idle:seconds}`` as ``<idle>``."""
    for key, text in items:
        yield f"`{key}`", re.sub(r"{(\w+)(:[^}]*)?}", r"*\1*", text)


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"


if __name__ == "__main__":
    sys.stdout.write(rules_page())
