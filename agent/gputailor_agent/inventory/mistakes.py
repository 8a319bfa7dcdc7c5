"""What is wrong with the accelerators that a manifest asks for, before anybody applies it.

Source of the rules: Kubernetes documentation, "Schedule GPUs" (a limit is needed, and a request
must equal it) and "Extended resources" (whole numbers only). A resource name is doubted only where
it looks like one of ours: a vendor's other devices (network cards) are none of our business.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final

import msgspec

from gputailor_agent.inventory.resources import gpu_resource, quantity, resource_table
from gputailor_agent.model.nearest import nearest

#: As in ``templates``; it also bounds hostile input.
_DEEPEST: Final = 24
#: How alike two names are of which one is taken for the other misspelled (difflib's ratio).
_ALIKE: Final = 0.85
_PLAIN: Final = re.compile(r"[A-Za-z0-9.-]+/[A-Za-z0-9._-]+")
_DOMAIN: Final = re.compile(r"[a-z0-9.-]+")
_ABOUT_GPUS: Final = re.compile(r"gpu|(?<![a-z])mig(?![a-z])", re.IGNORECASE)
#: Names of one scheme: what does not follow it is no renamed resource but a slip.
_SCHEME: Final = "nvidia.com/mig-"
_OF_CLASS: Final = "deviceclass.resource.kubernetes.io"
_Sides = tuple[Mapping[Any, Any], Mapping[Any, Any]]


class Mistake(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is wrong. ``kind`` is one of ``MISTAKES``; ``meant`` what it may have been.

    ``where`` is the file with its document and line, ``path`` the field in the object. ``refused``:
    the object would be refused, or its pods never start; else it only looks like an oversight.
    """

    kind: str
    where: str
    path: str
    resource: str
    refused: bool
    limit: str = ""
    request: str = ""
    meant: str = ""


#: No such resource; a request without its limit; a request that differs from it; below zero; no
#: whole number; nothing asked for.
MISTAKES: Final = ("unknown", "no_limit", "unequal", "negative", "fraction", "zero")


def mistakes(where: str, body: Mapping[str, Any]) -> Iterator[Mistake]:
    """What is wrong with the ``resources`` anywhere in an object, in the object's order."""
    for path, limits, requests in _resources(body):
        for name in dict.fromkeys((*limits, *requests)):
            found = _mistake(str(name), limits.get(name), requests.get(name))
            if found:
                meant = _alike(str(name)) if found == "unknown" else ""
                side = "limits" if name in limits and found != "no_limit" else "requests"
                yield Mistake(
                    kind=found,
                    where=where,
                    path=f"{path}.{side}.{name}",
                    resource=str(name),
                    refused=found != "zero" and (found != "unknown" or _surely(str(name), meant)),
                    limit="" if name not in limits else str(limits[name]),
                    request="" if name not in requests else str(requests[name]),
                    meant=meant,
                )


def _mistake(name: str, limit: object, request: object) -> str:
    """The worst that is wrong with one resource; '' where nothing is."""
    if gpu_resource(name) is None:
        return "unknown" if _looks_like_one(name) else ""
    amounts = [quantity(value) for value in (limit, request) if value is not None]
    known = [one for one in amounts if one is not None]
    tests = (
        ("negative", any(one < 0 for one in known)),
        ("fraction", any(one != int(one) for one in known)),
        ("", len(known) < len(amounts)),  # no number: the inventory tells of it
        ("no_limit", limit is None and any(known)),
        ("unequal", len(set(known)) > 1),
        ("zero", bool(known) and not any(known)),
    )
    return next((kind for kind, holds in tests if holds), "")


def _surely(name: str, meant: str) -> bool:
    """Whether an unknown name is a slip; a device plugin may have renamed what it offers."""
    return bool(meant) or "/" not in name or name.startswith(_SCHEME)


def _looks_like_one(name: str) -> bool:
    domain, slash, tail = name.partition("/")
    if not slash:
        return bool(_ABOUT_GPUS.search(name))
    if domain == _OF_CLASS:
        return False  # classes have any name
    return (domain in _domains() and bool(_ABOUT_GPUS.search(tail))) or bool(_alike(name))


@cache
def _plain_names() -> tuple[str, ...]:
    """Names of whole devices that are written out in the table."""
    plain = (
        row.pattern.replace("\\.", ".") for row in resource_table().resources if row.kind == "gpu"
    )
    return tuple(name for name in plain if _PLAIN.fullmatch(name))


@cache
def _domains() -> frozenset[str]:
    parts = (row.pattern.split("/")[0].replace("\\.", ".") for row in resource_table().resources)
    return frozenset(part for part in parts if _DOMAIN.fullmatch(part))


def _alike(name: str) -> str:
    """The known name that one looks like; '' where there is none."""
    wanted = name if "/" in name else f"nvidia.com/{name.lower().rstrip('s')}"
    known = _plain_names()
    return next(iter(nearest(wanted, known, most=1, alike=_ALIKE)), "")


def _resources(
    body: Mapping[str, Any],
) -> Iterator[tuple[str, Mapping[Any, Any], Mapping[Any, Any]]]:
    """Every ``resources`` with limits or requests: its path, limits and requests."""
    seen: set[int] = set()
    waiting: list[tuple[str, int, object]] = [("", 0, body)]
    while waiting:
        path, depth, part = waiting.pop()
        if not isinstance(part, dict | list) or depth > _DEEPEST or id(part) in seen:
            continue
        seen.add(id(part))
        if isinstance(part, list):
            below = [(f"{path}[{_called(one, place)}]", one) for place, one in enumerate(part)]
        else:
            below = [
                (f"{path}.{key}".lstrip("."), one)
                for key, one in part.items()
                if key != "status" and (path or key != "metadata")
            ]
            sides = _sides(part.get("resources"))
            if sides is not None:
                yield (f"{path}.resources".lstrip("."), *sides)
        waiting += [(at, depth + 1, one) for at, one in reversed(below)]


def _sides(resources: object) -> _Sides | None:
    if not isinstance(resources, dict):
        return None
    limits, requests = resources.get("limits"), resources.get("requests")
    sides = [side if isinstance(side, dict) else {} for side in (limits, requests)]
    return (sides[0], sides[1]) if any(sides) else None


def _called(part: object, place: int) -> str:
    name = part.get("name") if isinstance(part, dict) else None
    return name if isinstance(name, str) and name else str(place)
