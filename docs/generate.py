"""``python docs/generate.py`` writes docs/metrics.md from the declarations in the code.

A test compares the file with what this writes, so no metric and no flag is undocumented.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from gputailor_agent import metrics as agent
from gputailor_exporter import metrics as exporter
from gputailor_exporter.collectors import COLLECTORS
from gputailor_exporter.devices.base import Reason
from gputailor_exporter.metrics import Family
from gputailor_exporter.options import parser, variable

PAGE: Final = Path(__file__).with_name("metrics.md")
_HEAD: Final = """\
<!-- Written by python docs/generate.py; do not edit. -->
# Metrics

Base units, no percent. The unit of truth is a pair of counters: seconds a signal was active (the
integral of its 0..1 value) and seconds it was observed. The mean over any window is
rise(active) / rise(observed), whatever the scrape interval:

    rate(gputailor_device_active_seconds_total{signal="kernel"}[5m])
      / rate(gputailor_device_observed_seconds_total{signal="kernel"}[5m])

A signal that cannot be read is absent, and `gputailor_exporter_signal_unavailable` says why. It is
never 0.
"""
_COLLECTORS_HEAD: Final = """\
What a collector that is off would have told is neither asked of the driver nor published nor listed
as unavailable. Families that no collector names are always there.

"""
_GROUPS: Final = (
    ("Device", "gputailor_device_"),
    ("Container", "gputailor_container_"),
    ("The exporter itself", ""),
)


def page() -> str:
    """Text of docs/metrics.md."""
    left = list(exporter.FAMILIES)
    parts = [_HEAD]
    for title, prefix in _GROUPS:
        chosen = [family for family in left if family.name.startswith(prefix)]
        left = [family for family in left if family not in chosen]
        parts.append(f"\n## {title}\n\n" + "\n".join(_table(chosen)) + "\n")
    signals = ", ".join(f"`{signal}`" for signal in exporter.Signal)
    kept = ", ".join(f"`{signal}`" for signal in exporter.CONTAINER_SIGNALS)
    bounds = ", ".join(f"{bound:g}" for bound in exporter.HISTOGRAM_BOUNDS)
    parts.append(
        f"\nSignals of devices: {signals}. Container counters carry those that rules read: {kept}. "
        f"Histogram bounds: {bounds}, +Inf; zero has a bucket of its own.\n"
    )
    reasons = ", ".join(f"`{reason}`" for reason in Reason)
    parts.append(f"\nReasons of `gputailor_exporter_signal_unavailable`: {reasons}.\n")
    parts.append("\n## Collectors of gputailor-exporter\n\n" + _COLLECTORS_HEAD)
    parts.append("\n".join(_collectors()) + "\n")
    own = [value for value in vars(agent).values() if isinstance(value, Family)]
    parts.append("\n## The agent\n\n" + "\n".join(_table(own)) + "\n")
    parts.append("\n## Flags of gputailor-exporter\n\n" + "\n".join(_flags()) + "\n")
    return "".join(parts)


def _table(families: Iterable[Family]) -> Iterator[str]:
    yield "| metric | type | labels | meaning |"
    yield "|---|---|---|---|"
    for family in families:
        labels = ", ".join(f"`{label}`" for label in family.labels)
        yield f"| `{family.name}` | {family.kind} | {labels} | {family.help} |"


def _collectors() -> Iterator[str]:
    yield "| collector | unasked | what it tells | families |"
    yield "|---|---|---|---|"
    for one in COLLECTORS:
        families = ", ".join(f"`{family.name}`" for family in one.families)
        yield f"| `{one.name}` | {'on' if one.default else 'off'} | {one.help} | {families} |"


def _flags() -> Iterator[str]:
    yield "| flag | environment | meaning |"
    yield "|---|---|---|"
    for action in parser()._actions:  # noqa: SLF001 - argparse has no public way to list them
        flag = action.option_strings[-1]
        named = "" if flag in {"--help", "--version"} else f"`{variable(flag[2:])}`"
        value = f" {action.metavar}".replace("|", r"\|") if action.metavar else ""
        meaning = (action.help or "").replace("|", r"\|")
        yield f"| `{flag}{value}` | {named} | {meaning} |"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
