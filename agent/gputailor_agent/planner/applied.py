"""Whether a manifest has a change already, so that nobody is told to do what is done.

How many devices and pods are asked for is compared as numbers, whatever a kind calls the field;
every other change is one if its patch would change nothing. A patch's lists are joined by name, as
a strategic merge does it.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal

import yaml

from gputailor_agent.inventory.resources import quantity
from gputailor_agent.model.judgement import Change

#: ``done``: it is as recommended; ``less``: it asks for even less; ``open``: it is still to do;
#: ``elsewhere``: it is no change of the manifest.
Standing = Literal["done", "less", "open", "elsewhere"]

#: Changes that ask for more of something: beyond it is done, too.
_MORE: Final = frozenset({"set_cpu_limit", "mount_shared_memory"})
_LISTED_BY: Final = ("name", "mountPath")


def standing(
    change: Change, body: Mapping[str, Any], *, per_pod: float, pods: float | None
) -> Standing:
    """How a manifest that asks for ``per_pod`` devices in each of ``pods`` stands to a change.

    ``pods`` None: it does not say how many.
    """
    counted = {"set_gpus": ("gpus", per_pod), "set_replicas": ("replicas", pods)}
    if change.kind in counted:
        name, asked = counted[change.kind]
        wanted = change.params.get(name)
        if isinstance(wanted, int | float) and asked is not None:
            return "done" if asked == wanted else "less" if asked < wanted else "open"
    patch = yaml.safe_load(change.patch) if change.patch else None
    if isinstance(patch, dict) and patch:
        return "done" if _has(body, patch, more=change.kind in _MORE) else "open"
    return "open" if change.kind == "release" and pods != 0 else "elsewhere"


def _has(part: object, patch: object, *, more: bool) -> bool:
    """Whether ``patch`` would change nothing; numbers may be beyond it."""
    if isinstance(patch, dict):
        inside = part if isinstance(part, dict) else {}
        inside = _with_requests(inside)
        return all(
            inside.get(key) is None if wanted is None else _has(inside.get(key), wanted, more=more)
            for key, wanted in patch.items()
        )
    if isinstance(patch, list):
        return all(_has(_of_list(part, wanted), wanted, more=more) for wanted in patch)
    if part is None or isinstance(part, dict | list):
        return False
    found, limit = quantity(part), quantity(patch)
    if found is None or limit is None or isinstance(part, bool):
        return str(part) == str(patch)
    return found >= limit if more else found <= limit


def _with_requests(part: dict[Any, Any]) -> dict[Any, Any]:
    """Resources as the API server completes them: where only a limit is, it is the request."""
    limits, requests = part.get("limits"), part.get("requests")
    if not isinstance(limits, dict):
        return part
    return {**part, "requests": {**limits, **(requests if isinstance(requests, dict) else {})}}


def _of_list(part: object, wanted: object) -> object:
    """The entry of a list that a patch's entry is joined with."""
    if not isinstance(part, list):
        return None
    if not isinstance(wanted, dict):
        return wanted if wanted in part else None
    for key in _LISTED_BY:
        if key in wanted:
            return next(
                (one for one in part if isinstance(one, dict) and one.get(key) == wanted[key]), None
            )
    return None
