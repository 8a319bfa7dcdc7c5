"""Names of resources, labels and annotations, back from how Prometheus spells them.

Every sign but letters and digits has become ``_``, and camel case of label keys snake case. What is
in our tables is found again there; of the rest the spelling stays as it is. Where a resource's name
can be read in several ways, that of the first row of ``resources.yaml`` counts, with dots in the
names of MIG profiles (``mig-1g.10gb.me``) and dashes elsewhere (``gpu-tesla-t4``).
"""

import itertools
import re
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import Final

from gputailor_agent.inventory.belonging import belonging_table
from gputailor_agent.inventory.classify import class_table
from gputailor_agent.inventory.identity import DEFAULT_LABEL_KEYS, WORKLOAD_ANNOTATION
from gputailor_agent.inventory.kinds import kind_table
from gputailor_agent.inventory.nodes import node_table
from gputailor_agent.inventory.resources import resource_table
from gputailor_agent.inventory.spelling import snake, spelled

_SIGNS: Final = "-._"
_MOST_SIGNS: Final = 7  # in a resource's name behind its domain: 3 ** 7 readings at most
_OTHER_KEYS: Final = (
    "gputailor.io/ignore",
    "gputailor.io/ignore-until",
    "gputailor.io/reason",
    "gputailor.io/notify",
    "batch.kubernetes.io/controller-uid",
    "controller-uid",
)


@cache
def _domains() -> dict[str, str]:
    """Domains of accelerator resources by their spelling with the ``_`` that stands for ``/``."""
    rows = (row.pattern.partition("/") for row in resource_table().resources)
    plain = (domain.replace("\\.", ".") for domain, slash, _ in rows if slash)
    return {f"{spelled(domain)}_": domain for domain in plain}


def accelerator_pattern() -> str:
    """A regular expression over the label ``resource`` that every accelerator matches."""
    return f"(?:{'|'.join(sorted(_domains()))}).+"


@lru_cache(maxsize=1024)
def real_resource(label: str) -> str | None:
    """The accelerator resource that the label ``resource`` stands for; None for no accelerator.

    >>> real_resource("nvidia_com_mig_1g_5gb")
    'nvidia.com/mig-1g.5gb'
    """
    for prefix, domain in _domains().items():
        rest = label.removeprefix(prefix)
        if rest in {label, ""} or rest.count("_") > _MOST_SIGNS:
            continue
        readings = [f"{domain}/{name}" for name in _readings(rest)]
        for row in resource_table().resources:
            fits = [name for name in readings if re.fullmatch(row.pattern, name)]
            if fits:
                scarce = "-" if "partition" in row.pattern else "."
                return min(fits, key=lambda name: (name.count(scarce), fits.index(name)))
    return None


def _readings(rest: str) -> Iterator[str]:
    parts = rest.split("_")
    for signs in itertools.product(_SIGNS, repeat=len(parts) - 1):
        yield "".join(itertools.chain(*zip(parts, (*signs, ""), strict=True)))


@cache
def _keys() -> dict[str, str]:
    """Keys of labels and annotations that anything here looks for, by their spelling."""
    nodes, kinds, resources = node_table(), kind_table(), resource_table()
    whose = belonging_table()
    keys: list[str] = [
        *nodes.product, *nodes.count, *nodes.replicas, *nodes.mig_strategy, *nodes.mig_partition,
        *nodes.instance_type, *nodes.region, *nodes.zone, *nodes.pool,
        *nodes.driver_version, *itertools.chain(*nodes.driver_version_parts),
        *nodes.cuda_version, *itertools.chain(*nodes.cuda_version_parts),
        *(row.label for row in nodes.memory), *(row.label for row in nodes.capacity_type),
        *(key for row in kinds.promotions for key in (row.label, row.kind_label)),
        *(row.label for row in kinds.hashed), *kinds.revisions,
        *itertools.chain(*(key.split("+") for key in (*kinds.members, *DEFAULT_LABEL_KEYS))),
        *(key for row in resources.annotations for key in (row.key, row.times, row.container)),
        *(key for row in class_table().frameworks + class_table().tasks for key in row.labels),
        *whose.team, *whose.namespace_team, *whose.queue, *whose.priority,
        WORKLOAD_ANNOTATION, *_OTHER_KEYS,
    ]  # fmt: skip
    spellings = {spelled(key): key for key in keys if key}
    return {snake(key): key for key in keys if key} | spellings


def real_key(name: str) -> str:
    """The key of a label or an annotation; as Prometheus spells it where nothing looks for it."""
    return _keys().get(name, name)
