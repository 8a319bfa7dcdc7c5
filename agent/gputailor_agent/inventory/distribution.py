"""How a workload is spread over devices, and in which precision it computes.

Read from commands, arguments and variables by ``distribution.yaml``. What a program decides by
itself when it starts is not seen here, so a size that is not said is None, never 1.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import resources as packaged
from typing import Final

import msgspec
import yaml

from gputailor_agent.inventory.evidence import see
from gputailor_agent.model.inventory import ContainerSpec, Distribution


class SizeNames(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How one size is spelt."""

    option: tuple[str, ...]
    short: tuple[str, ...]
    env: tuple[str, ...]


class ShardingRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"says": "is"}):
    """How sharded states are asked for."""

    pattern: str
    says: str


class PrecisionNames(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a precision is asked for."""

    option: tuple[str, ...]
    env: tuple[str, ...]
    flags: dict[str, str]


class DistributionTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole of ``distribution.yaml``."""

    sizes: dict[str, SizeNames]
    sharding: tuple[ShardingRow, ...]
    precision: PrecisionNames
    names: dict[str, str]


@cache
def distribution_table() -> DistributionTable:
    """The packaged table of options and variables."""
    text = packaged.files(__package__).joinpath("distribution.yaml").read_text("utf-8")
    return msgspec.convert(yaml.safe_load(text), DistributionTable)


class _Said(msgspec.Struct, frozen=True):
    value: str
    evidence: str


_VARIABLE: Final = re.compile(r"\$\(([A-Za-z_][A-Za-z0-9_]*)\)|\$\{?([A-Za-z_][A-Za-z0-9_]*)\}?")
_OFF: Final = frozenset({"false", "0", "no", "off", "none", "disable", "disabled"})
_MOST: Final = 1_000_000  # more processes than that is a number for something else


@cache
def _option_pattern(names: Sequence[str], short: Sequence[str]) -> re.Pattern[str]:
    spelt = [re.escape(name).replace(r"\-", "[-_]") for name in names]
    long = rf"(?:--|\b)(?:[\w.]+\.)?(?:{'|'.join(spelt)})" if spelt else "(?!)"
    brief = "|".join(re.escape(one) for one in short) or "(?!)"
    return re.compile(rf"(?<![\w-])(?P<name>{long}|{brief})(?:=|\s+)[\"']?(?P<value>[\w.:-]+)")


def _command(container: ContainerSpec, labels: Mapping[str, str]) -> str:
    """The command line with the variables put in that the container itself sets."""

    def value(found: re.Match[str]) -> str:
        return container.env.get(found.group(1) or found.group(2), "") or found.group(0)

    return _VARIABLE.sub(value, see(container, labels).command)


def _said(
    command: str, env: Mapping[str, str], names: Sequence[str], short: Sequence[str], keys: object
) -> Iterator[_Said]:
    for found in _option_pattern(tuple(names), tuple(short)).finditer(command):
        yield _Said(found.group("value"), f"argument {found.group(0).strip()}")
    for key in keys if isinstance(keys, tuple) else ():
        if env.get(key):
            yield _Said(env[key], f"environment {key}={env[key]}")


def _count(said: _Said, within: int | None = None) -> int | None:
    """A positive number; of a range (torchrun's ``1:4``) what lies ``within`` it, else the most."""
    least, _, most = said.value.rpartition(":")
    if not most.isdigit() or not 0 < int(most) <= _MOST:
        return None
    if within is not None and least.isdigit() and int(least) <= within <= int(most):
        return within
    return int(most)


def _sharding(command: str) -> tuple[str, str]:
    for row in distribution_table().sharding:
        if found := re.search(row.pattern, command):
            return row.says.format_map(found.groupdict()), f"argument {found.group(0)}"
    return "", ""


def distribution(
    container: ContainerSpec, labels: Mapping[str, str] | None = None, pods: int | None = None
) -> Distribution:
    """How the container says it is spread; ``pods`` of its run, where that is known.

    ``ranks`` are said outright, else nodes x processes per node (of ``pods`` where the number of
    nodes is left open). A launcher's option counts more than WORLD_SIZE, which operators set to the
    number of pods and launchers set anew.
    """
    command, env = _command(container, labels or {}), container.env
    sizes: dict[str, int] = {}
    evidence: dict[str, str] = {}
    for field, names in distribution_table().sizes.items():
        for said in _said(command, env, names.option, names.short, names.env):
            if (count := _count(said, pods if field == "nodes" else None)) is not None:
                sizes[field], evidence[field] = count, said.evidence
                break
    per_node, nodes = sizes.pop("per_node", None), sizes.pop("nodes", None) or pods
    outright = "ranks" in sizes and (
        evidence["ranks"].startswith("argument") or not _is_argument(evidence.get("per_node"))
    )
    if not outright and per_node is not None and nodes is not None:
        sizes["ranks"] = per_node * nodes
        by = evidence["per_node"]
        evidence["ranks"] = f"one node with {by}" if nodes == 1 else f"{nodes} nodes with {by}"
    sharding, how = _sharding(command)
    if sharding:
        evidence["sharding"] = how
    kept = {field: text for field, text in evidence.items() if field not in {"per_node", "nodes"}}
    return Distribution(pods=pods, sharding=sharding, evidence=kept, **sizes)


def _is_argument(evidence: str | None) -> bool:
    return evidence is not None and evidence.startswith("argument")


def gpus_used(spread: Distribution | None) -> tuple[int, str, bool] | None:
    """GPUs that the commands take, what says so, and whether that is of all pods or of each.

    Processes take one each; a program that gives several to a process says so nowhere. Sizes of
    context parallelism count for some programs and not for others: with them nothing is told.
    """
    if spread is None:
        return None
    if spread.ranks is not None:
        return spread.ranks, spread.evidence.get("ranks", ""), True
    sizes = {name: getattr(spread, name) for name in ("tensor", "pipeline", "data")}
    named = [name for name, size in sizes.items() if size is not None]
    if not named or spread.context is not None:
        return None
    said = ", ".join(spread.evidence[name] for name in named if name in spread.evidence)
    return math.prod(sizes[name] for name in named), said, False


def precision(container: ContainerSpec, labels: Mapping[str, str] | None = None) -> tuple[str, str]:
    """The precision that is asked for and what says so; '' and '' where nothing does.

    ``auto`` and other words that leave it to the model say nothing, nor does a flag that is off.
    """
    table = distribution_table()
    command = _command(container, labels or {})
    for option in table.precision.option:
        for said in _said(command, {}, (option,), (), ()):
            if name := table.names.get(said.value.lower()):
                return name, said.evidence
    for said in _said("", container.env, (), (), table.precision.env):
        if name := table.names.get(said.value.lower()):
            return name, said.evidence
    for flag, name in table.precision.flags.items():
        found = re.search(rf"(?<![\w-]){re.escape(flag)}(?![\w-])(?:[=\s]+(\w+))?", command)
        if found and (found.group(1) or "").lower() not in _OFF:
            return name, f"argument {flag}"
    return "", ""
