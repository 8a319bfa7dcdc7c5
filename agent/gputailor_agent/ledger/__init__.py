"""What became of findings: were changes made, were the savings real, did anything get worse. Pure.

``following`` moves entries through their lives plan by plan, ``asking`` finds what the inventory
tells beside profiles, ``changes`` sees whether a request really changed, ``savings`` compares
before and after on like-for-like runs, ``deciding`` lets what people decided silence rules,
``records`` sums up by rule.
"""

from gputailor_agent.ledger.asking import NOTHING_ASKED, Asked, asked_of
from gputailor_agent.ledger.deciding import ACKNOWLEDGED, ALL, DISMISSED, decidable, set_aside
from gputailor_agent.ledger.following import follow
from gputailor_agent.ledger.records import records

__all__ = [
    "ACKNOWLEDGED",
    "ALL",
    "DISMISSED",
    "NOTHING_ASKED",
    "Asked",
    "asked_of",
    "decidable",
    "follow",
    "records",
    "set_aside",
]
