"""Who is told of which alert, as an example for Alertmanager: routes by severity, inhibition.

The inhibitions follow from what causes what: a GPU that is lost has Xid errors, links that are down
and clocks of no meaning; a node that is not measured has poor coverage; a silent agent is behind.
"""

from dataclasses import dataclass
from typing import Any, Final

import yaml

from gputailor_dashboards.alerts import ALERTS
from gputailor_dashboards.rules import Severity

_NODE: Final = ("cluster", "node")
_DEVICE: Final = ("cluster", "node", "gpu_uuid")
_AGENT: Final = "GpuTailorAgentSilent"


@dataclass(frozen=True, slots=True)
class Inhibition:
    """While ``cause`` fires, ``effects`` of the same labels are not told of."""

    cause: str
    effects: tuple[str, ...]
    equal: tuple[str, ...]

    def document(self) -> dict[str, Any]:
        """Return what Alertmanager reads."""
        return {
            "source_matchers": [f'alertname="{self.cause}"'],
            "target_matchers": [f'alertname=~"{"|".join(self.effects)}"'],
            "equal": list(self.equal),
        }


INHIBITIONS: Final = (
    Inhibition(
        "GpuLost",
        (
            "GpuXidHardware",
            "GpuEccUncorrected",
            "GpuResetPending",
            "GpuThermalThrottling",
            "GpuNvlinkDown",
            "GpuPcieNarrow",
        ),
        _DEVICE,
    ),
    Inhibition(
        "GpuRowRemapFailed",
        ("GpuXidHardware", "GpuEccUncorrected", "GpuResetPending"),
        _DEVICE,
    ),
    Inhibition("GpuExporterBlind", ("GpuCoverageLow", "GpuNodeUnheld"), _NODE),
    Inhibition(
        _AGENT,
        tuple(
            one.name for one in ALERTS if one.name.startswith("GpuTailor") and one.name != _AGENT
        ),
        ("cluster",),
    ),
)


def _route(severity: Severity, wait: str, repeat: str) -> dict[str, Any]:
    return {
        "receiver": f"gpu-{severity}",
        "matchers": [f'severity="{severity}"'],
        "group_wait": wait,
        "repeat_interval": repeat,
    }


def configuration() -> dict[str, Any]:
    """Return an example of Alertmanager's configuration."""
    receiver = {
        severity: {
            "name": f"gpu-{severity}",
            "webhook_configs": [{"url": f"http://alerts.example.org/{severity}"}],
        }
        for severity in Severity
    }
    return {
        "route": {
            "receiver": "gpu-info",
            "group_by": ["alertname", "cluster", "node", "namespace"],
            "routes": [
                {
                    "matchers": ['alertname=~"Gpu.*"'],
                    "receiver": "gpu-info",
                    "routes": [
                        # Idle devices are their owners' matter, and no reason to wake anybody.
                        {
                            "receiver": "gpu-owners",
                            "matchers": ['alertname="GpuAllocationIdle"'],
                            "group_by": ["namespace"],
                            "group_wait": "5m",
                            "repeat_interval": "24h",
                        },
                        _route(Severity.CRITICAL, "30s", "4h"),
                        _route(Severity.WARNING, "5m", "24h"),
                        _route(Severity.INFO, "1h", "168h"),
                    ],
                },
            ],
        },
        "inhibit_rules": [one.document() for one in INHIBITIONS],
        "receivers": [
            *receiver.values(),
            {
                "name": "gpu-owners",
                "webhook_configs": [{"url": "http://alerts.example.org/owners"}],
            },
        ],
    }


def _example() -> str:
    text: str = yaml.safe_dump(configuration(), sort_keys=False, width=100)
    return text


#: The file's text.
EXAMPLE: Final = _example()
