"""Where dashboards depart from Grafana's dashboard-linter, and why: the text of its ``.lint`` file.

The linter documents 17 rules and this way of excepting from them. What is not excepted is held by
the tests, which follow the rules' documentation.
"""

from typing import Any, Final

_PLACE: Final = (
    "Series stand for nodes and GPUs, which $cluster, $node and $gpu choose; job and instance are "
    "the address of an exporter's pod, change with it, and are gone from recorded series."
)
#: Reasons by rule.
WHOLE_RULES: Final = {
    "template-job-rule": _PLACE,
    "template-instance-rule": _PLACE,
    "target-job-rule": _PLACE,
    "target-instance-rule": _PLACE,
}
#: Panels that read counters as they are.
COUNT_PANELS: Final = ("Xid errors", "Memory rows and errors")
COUNTS: Final = (
    "These counts are shown as they stand, and say since when: a series of an Xid begins with its "
    "first error, which increase() would not count, and ECC errors of months ago still matter."
)


def exclusions() -> dict[str, Any]:
    """Return the document of the linter's ``.lint`` file."""
    whole: dict[str, Any] = {rule: {"reason": why} for rule, why in WHOLE_RULES.items()}
    panels = {"reason": COUNTS, "entries": [{"panel": title} for title in COUNT_PANELS]}
    return {"exclusions": whole | {"target-counter-agg-rule": panels}}
