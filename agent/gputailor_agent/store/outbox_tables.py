"""Tables of the outbox; the migrations make them, as they make those of ``tables``."""

from typing import Final

from sqlalchemy import BigInteger, Boolean, Column, Double, Index, Integer, LargeBinary, Table, Text

from gputailor_agent.store.tables import metadata


def _key(name: str) -> Column[str]:
    return Column(name, Text, primary_key=True)


#: One row per message and recipient. ``state``: waiting, sending, sent or given_up.
outbox: Final = Table(
    "outbox",
    metadata,
    _key("period"),
    _key("scope"),
    _key("channel"),
    _key("recipient"),
    Column("cluster", Text, nullable=False),
    Column("settings_hash", Text, nullable=False),  # of the settings it was made with
    Column("message_id", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("next_try", Double, nullable=False),
    Column("made_at", Double, nullable=False),
    Column("changed_at", Double, nullable=False),
    Column("token", BigInteger, nullable=False),  # of the agent that tried last
    Column("reason", Text, nullable=False),
    Index("outbox_by_state", "cluster", "state", "next_try"),
)

#: What is sent, once for all its recipients; kept until every one of them has it.
contents: Final = Table(
    "outbox_contents",
    metadata,
    _key("period"),
    _key("scope"),
    Column("made_at", Double, nullable=False),
    Column("body", LargeBinary, nullable=False),
)

#: The one agent that may send for a cluster, until when, and its fencing token.
holders: Final = Table(
    "outbox_holders",
    metadata,
    _key("cluster"),
    Column("holder", Text, nullable=False),
    Column("token", BigInteger, nullable=False),
    Column("until", Double, nullable=False),
)

#: The newest idle spell of a workload: whether it lasts, and whether it was told.
spells: Final = Table(
    "idle_spells",
    metadata,
    _key("cluster"),
    _key("workload_id"),
    Column("since", Double, nullable=False),
    Column("lasting", Boolean, nullable=False),
    Column("told", Boolean, nullable=False),
    Column("told_at", Double),
    Column("seen_at", Double, nullable=False),
)

#: A fault of devices that a workload held, and up to how many errors of it were told.
faults: Final = Table(
    "fault_spells",
    metadata,
    _key("cluster"),
    _key("workload_id"),
    _key("fault"),
    Column("since", Double, nullable=False),
    Column("lasting", Boolean, nullable=False),
    Column("level", Double, nullable=False),
    Column("told_at", Double),
    Column("seen_at", Double, nullable=False),
)
