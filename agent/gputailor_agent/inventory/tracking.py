"""Which run of which experiment a pod is, as MLflow, Weights & Biases and Kubeflow name it.

Such a name holds for all runs of a series, whatever their pods are called, so it names the series;
the address leads to the run. Keys are data (``tracking.yaml``). No key or token is ever looked at.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib import resources as packaged
from urllib.parse import quote, urlsplit

import msgspec
import yaml

from gputailor_agent.inventory.owners import Link
from gputailor_agent.model.inventory import ContainerSpec, Pod, Tracked


class TrackerRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One tracker; see ``tracking.yaml``."""

    tracker: str
    env: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    labels: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    address: tuple[str, ...] = ()
    default: str = ""
    links: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    shown: str = "experiment"


class TrackingTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole of ``tracking.yaml``."""

    trackers: tuple[TrackerRow, ...]


#: What trackers call runs that nobody put anywhere.
_NOWHERE = frozenset({"", "default", "0", "uncategorized"})


@cache
def tracking_table() -> TrackingTable:
    """The packaged table of trackers."""
    text = packaged.files(__package__).joinpath("tracking.yaml").read_text("utf-8")
    return msgspec.convert(yaml.safe_load(text), TrackingTable)


@cache
def _keys() -> frozenset[str]:
    """Every variable and label that any tracker is known by."""
    rows = tracking_table().trackers
    return frozenset(key for row in rows for part in (row.env, row.labels)
                     for keys in part.values() for key in keys)  # fmt: skip


def _address(text: str) -> str:
    """A web address without credentials and query; '' for anything else (files, databases)."""
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError:
        return ""
    if parts.scheme not in {"http", "https"} or not host:
        return ""
    return f"{parts.scheme}://{host}{f':{port}' if port else ''}{parts.path.rstrip('/')}"


def _fields(
    row: TrackerRow, env: Mapping[str, str], places: Sequence[Mapping[str, str]]
) -> dict[str, str]:
    found: dict[str, str] = {}
    for field, keys in row.env.items():
        if value := next((env[key] for key in keys if env.get(key)), ""):
            found[field] = value
    for field, keys in row.labels.items():
        for key in keys:
            for place in places:
                if place.get(key):
                    found.setdefault(field, place[key])
    return found


def _link(row: TrackerRow, fields: Mapping[str, str], env: Mapping[str, str]) -> str:
    addresses = (_address(env.get(key, "")) for key in row.address)
    address = next((one for one in addresses if one), row.default)
    known = {name: quote(value, safe="") for name, value in fields.items()}
    for pattern in row.links if address else ():
        try:
            return pattern.format_map({**known, "address": address})
        except KeyError:
            continue
    return ""


def _rows(
    pod: Pod, container: ContainerSpec, chain: Iterable[Link]
) -> Iterator[tuple[TrackerRow, dict[str, str]]]:
    places: list[Mapping[str, str]] = [pod.annotations, pod.labels]
    for link in chain:
        places += [link.annotations, link.labels]
    if all(_keys().isdisjoint(place) for place in (container.env, *places)):
        return  # most pods: nothing is looked up for them
    for row in tracking_table().trackers:
        if fields := _fields(row, container.env, places):
            yield row, fields


def tracked(pod: Pod, container: ContainerSpec, chain: Sequence[Link]) -> tuple[Tracked, ...]:
    """Every tracker's name for this pod's run; empty where none is said."""
    return tuple(
        Tracked(
            tracker=row.tracker,
            experiment=fields.get(row.shown, "") or fields.get("experiment", ""),
            run=fields.get("run", ""),
            link=_link(row, fields, container.env),
        )
        for row, fields in _rows(pod, container, chain)
        if set(fields) - {"owner"}
    )


def series_name(pod: Pod, container: ContainerSpec, chain: Sequence[Link]) -> str:
    """What a tracker calls the series that this run belongs to; '' where none names one."""
    for row, fields in _rows(pod, container, chain):
        named = next((fields[name] for name in row.names if fields.get(name)), "")
        if named.lower() not in _NOWHERE:
            whole = (fields.get("project", ""), named)
            return ".".join(part for part in whole if part)
    return ""
