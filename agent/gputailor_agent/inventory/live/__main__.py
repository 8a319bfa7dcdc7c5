"""``python -m gputailor_agent.inventory.live [--namespaced]`` prints the role as a manifest."""

import sys

import yaml

from gputailor_agent.inventory.live.rbac import role

sys.stdout.write(yaml.safe_dump(role(namespaced="--namespaced" in sys.argv[1:]), sort_keys=False))
