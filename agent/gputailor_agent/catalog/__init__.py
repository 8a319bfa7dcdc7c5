"""What devices can do and what they cost: data files with source and date, and their loader.

``devices.csv``, ``mig.csv``, ``prices.csv`` and ``aliases.csv`` lie beside this module; a user's
own prices come first (see ``read_own_prices``).
"""

from gputailor_agent.catalog.devices import DeviceSpec, MigProfile
from gputailor_agent.catalog.loading import Catalogue, load_catalogue
from gputailor_agent.catalog.prices import CatalogueError, Price

__all__ = [
    "Catalogue",
    "CatalogueError",
    "DeviceSpec",
    "MigProfile",
    "Price",
    "load_catalogue",
]
