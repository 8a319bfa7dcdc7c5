"""Prints the role as a manifest: ``python -m gputailor_agent.inventory.live``.

``--namespaced`` prints a Role instead of a ClusterRole; ``--events`` and ``--annotations`` add what
the settings ``kubernetes_events`` and ``kubernetes_annotations`` need.
"""

import sys

import yaml

from gputailor_agent.inventory.live.rbac import role
from gputailor_agent.inventory.live.writing_rights import FEATURES, writing_rules

given = sys.argv[1:]
asked = [one for one in FEATURES if f"--{one.removeprefix('kubernetes_')}" in given]
made = role(namespaced="--namespaced" in given, more=writing_rules(asked))
sys.stdout.write(yaml.safe_dump(made, sort_keys=False))
