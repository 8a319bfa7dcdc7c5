"""The agent's memory: hourly rows, devices, what was asked for, checkpoints, periods, plans.

SQLite in a file by default, PostgreSQL by the same code. Nothing here reads a clock.
"""

from gputailor_agent.store.database import StoreError, StoreLockedError
from gputailor_agent.store.outbox import FaultSpell, Letter, Outbox, Spell
from gputailor_agent.store.reading import KeptReport, Period
from gputailor_agent.store.store import Store
from gputailor_agent.store.told import ToldKey
from gputailor_agent.store.writing import Transaction

__all__ = [
    "FaultSpell",
    "KeptReport",
    "Letter",
    "Outbox",
    "Period",
    "Spell",
    "Store",
    "StoreError",
    "StoreLockedError",
    "ToldKey",
    "Transaction",
]
