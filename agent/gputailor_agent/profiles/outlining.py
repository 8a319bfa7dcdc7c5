"""What is kept of a profile once it is judged: what was asked for, and how runs went.

A plan of a large cluster would otherwise hold every device's signals until the next one. The ledger
needs the set-up, the runs, and which cards the newest run had; nothing else looks back.
"""

from typing import Any, Final

import msgspec

from gputailor_agent.model.profile import GpuUse, Profile

_NOTHING: Final[dict[str, Any]] = {}  # one for all: an empty dictionary takes 64 bytes


def outline(profile: Profile) -> Profile:
    """Return the profile without signals, and of its devices one for each run and model.

    Of those that differ in nothing else the one that was used last stays.
    """
    latest: dict[tuple[str, str], int] = {}
    for place, use in enumerate(profile.gpus):
        key = (use.run_id, "" if use.device is None else use.device.model)
        known = latest.get(key)
        if known is None or use.last_hour > profile.gpus[known].last_hour:
            latest[key] = place
    return msgspec.structs.replace(
        profile,
        gpus=tuple(_bare(profile.gpus[place]) for place in sorted(latest.values())),
        signals=_NOTHING,
        warmup=_NOTHING,
        conditions=_NOTHING,
    )


def _bare(use: GpuUse) -> GpuUse:
    return msgspec.structs.replace(
        use,
        signals=_NOTHING,
        warmup=_NOTHING,
        conditions=_NOTHING,
        link_bytes=_NOTHING,
        hours=(),
    )
