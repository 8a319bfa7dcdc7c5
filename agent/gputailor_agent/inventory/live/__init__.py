"""What is asked for, from a cluster's API server.

``read_live_inventory`` reads once, ``LiveInventory`` follows; ``rbac`` says what that needs. All
faults are ``ClusterError`` with words for a person. Only reading verbs are used, no secret is ever
listed or read; ``writing_rights`` says what else is needed where settings ask for Events and
annotations.
"""

from gputailor_agent.inventory.live.client import Client, connect
from gputailor_agent.inventory.live.errors import AccessError, ClusterError, NoClusterError
from gputailor_agent.inventory.live.following import LiveInventory, LiveSettings
from gputailor_agent.inventory.live.rbac import (
    MissingPermission,
    missing_permissions,
    reading_rules,
    rules,
)
from gputailor_agent.inventory.live.reading import read_live_inventory

__all__ = [
    "AccessError",
    "Client",
    "ClusterError",
    "LiveInventory",
    "LiveSettings",
    "MissingPermission",
    "NoClusterError",
    "connect",
    "missing_permissions",
    "read_live_inventory",
    "reading_rules",
    "rules",
]
