"""What is known of a device, out of several sights of it."""

import msgspec

from gputailor_agent.model.usage import Device


def merge_device(known: Device | None, seen: Device, cluster: str, at: float) -> Device:
    """Return ``seen`` at ``at``, with what only earlier pages said of the device kept."""
    fields: dict[str, object] = {}
    if known is not None:
        for name in Device.__struct_fields__:
            if getattr(seen, name) in (None, "") and getattr(known, name) not in (None, ""):
                fields[name] = getattr(known, name)
    return msgspec.structs.replace(
        seen, **{**fields, "cluster": cluster, "last_seen": max(at, seen.last_seen)}
    )
