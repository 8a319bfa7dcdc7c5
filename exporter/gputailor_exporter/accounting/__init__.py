"""Accounting: readings become integrals, peaks and histograms. Pure: no clock, no I/O."""

from gputailor_exporter.accounting.node import NodeAccounts
from gputailor_exporter.accounting.settings import AccountingSettings
from gputailor_exporter.accounting.snapshot import (
    HISTOGRAM_WIDTH,
    FamilySamples,
    SampleTable,
    Snapshot,
)

__all__ = [
    "HISTOGRAM_WIDTH",
    "AccountingSettings",
    "FamilySamples",
    "NodeAccounts",
    "SampleTable",
    "Snapshot",
]
