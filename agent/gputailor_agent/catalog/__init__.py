"""What devices can do and what they cost: data files with source and date, and their loader.

``devices.csv``, ``throughput.csv``, ``mig.csv``, ``prices.csv``, ``reserved.csv`` and
``aliases.csv`` lie beside this module; a user's own prices and hardware come first (see ``own``).
"""

from gputailor_agent.catalog.ageing import MAX_AGE_DAYS, age_days, is_stale, told_age
from gputailor_agent.catalog.devices import DeviceSpec, MigProfile
from gputailor_agent.catalog.loading import Catalogue, load_catalogue, load_with_faults
from gputailor_agent.catalog.prices import Price
from gputailor_agent.catalog.tables import CatalogueError

__all__ = [
    "MAX_AGE_DAYS",
    "Catalogue",
    "CatalogueError",
    "DeviceSpec",
    "MigProfile",
    "Price",
    "age_days",
    "is_stale",
    "load_catalogue",
    "load_with_faults",
    "told_age",
]
