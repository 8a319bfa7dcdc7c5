"""The alerts: GPUs that break, that idle, that are not measured, and an agent that is stuck.

None fires from missing data, except the few whose matter it is; each says on its page what it does
where data is missing.
"""

from typing import Final

from gputailor_dashboards.alerts.agent import AGENT
from gputailor_dashboards.alerts.health import HEALTH
from gputailor_dashboards.alerts.idle import GPU_ALLOCATION_IDLE, QUIET, quiet_pods
from gputailor_dashboards.alerts.measuring import (
    GPU_COVERAGE_LOW,
    GPU_EXPORTER_BLIND,
    GPU_NODE_UNHELD,
)
from gputailor_dashboards.rules import Alert, Group

__all__ = ["ALERTS", "GROUPS", "QUIET", "quiet_pods"]

#: Idleness changes slowly and looks far back: it is asked less often.
GROUPS: Final = (
    Group("gputailor-health", "1m", (*HEALTH, GPU_EXPORTER_BLIND, GPU_COVERAGE_LOW)),
    Group("gputailor-idle", "5m", (GPU_ALLOCATION_IDLE, GPU_NODE_UNHELD)),
    Group("gputailor-agent", "1m", AGENT),
)
ALERTS: Final[tuple[Alert, ...]] = tuple(
    rule for group in GROUPS for rule in group.rules if isinstance(rule, Alert)
)
