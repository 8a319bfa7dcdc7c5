"""How Prometheus spells names of labels and annotations.

A label there holds letters, digits and ``_``; kube-state-metrics 2 turns camel case to snake case.
"""

import re


def spelled(name: str) -> str:
    """A name as Prometheus can have it in a label."""
    return re.sub(r"[^a-zA-Z0-9_]", "_", name)


def snake(name: str) -> str:
    """The same in snake case, as kube-state-metrics 2 spells keys of labels and annotations."""
    return re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", spelled(name)).lower()
