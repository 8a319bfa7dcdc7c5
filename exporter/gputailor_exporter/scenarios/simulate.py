"""``gputailor-exporter simulate``: history of a scenario, as the exporter would have published it.

The scenario's readings go through the exporter's own accounting under a simulated clock; what comes
out is timestamped exposition text, one file per node, pages in the order of time. A page is written
at each boundary of the page interval (a scraper reads no more often to roll up an hour) and around
each change of allocation: one millisecond before it, with the last values of what ends, and at it,
with the zeros of what begins. So every run is seen, however short. While the scenario says that
the exporter is down no page is written, and afterwards all counters begin at 0.

Devices on which nobody works are read once a page: a scenario's means are exact over any interval.
"""

import argparse
import errno
import gzip
import json
import multiprocessing
import sys
import time
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from math import floor
from pathlib import Path
from typing import IO, Final

from gputailor_exporter.accounting import AccountingSettings, NodeAccounts
from gputailor_exporter.devices.base import DeviceError, DeviceIdentity
from gputailor_exporter.devices.simulated import (
    ScenarioAllocations,
    ScenarioAttribution,
    SimulatedBackend,
)
from gputailor_exporter.sampling.selfmetrics import SelfMetrics
from gputailor_exporter.scenarios.document import parse_duration, parse_time
from gputailor_exporter.scenarios.scenario import Scenario, ScenarioError, load, manifests, pinned
from gputailor_exporter.serving.exposition import Renderer

HISTORY_DAYS: Final = 14.0
#: A longer history is a slip of the finger: a year of the demo takes minutes already.
MOST_DAYS: Final = 3660.0
JOBS: Final = 2
_EOF: Final = b"# EOF\n"


@dataclass(frozen=True, slots=True)
class Plan:
    """What to simulate; times are Unix seconds."""

    scenario: str
    now: float
    start: float
    end: float
    step: float
    page_interval: float
    openmetrics: bool = False


@dataclass(frozen=True, slots=True)
class Written:
    """What one node's simulation wrote."""

    node: str
    file: str
    pages: int
    advances: int


class _Spell:
    """One life of a node's exporter, from its start to its end."""

    def __init__(self, scenario: Scenario, node: str, plan: Plan, began: float) -> None:
        self.scenario = scenario
        self.node = node
        self.plan = plan
        self.wall = began
        self.advances = 0
        self.backend = SimulatedBackend(scenario, node, lambda: self.wall)
        self.source = ScenarioAllocations(scenario, node, lambda: self.wall)
        self.owner_of = ScenarioAttribution(scenario, node).owner
        settings = AccountingSettings(
            interval_seconds=plan.step, max_gap_seconds=max(plan.page_interval, plan.step)
        )
        self.accounts = NodeAccounts(node, settings)
        self.devices = self.backend.devices()
        self.accounts.set_devices(self.devices, self.backend.expected())
        self.own = SelfMetrics(began).families()
        self.working: tuple[DeviceIdentity, ...] = ()
        self.allocate()
        self.advance(self.devices)

    def allocate(self) -> None:
        allocations = self.source.allocations(self.devices, self.wall)
        self.accounts.set_allocations(allocations, self.wall)
        self.working = tuple(device for device in self.devices if self._works(device))

    def _works(self, device: DeviceIdentity) -> bool:
        holds = self.scenario.timeline(self.node, device.uuid).active(self.wall)
        return not device.mig_enabled and any(hold.activity.levels for hold in holds)

    def advance(self, devices: Sequence[DeviceIdentity]) -> None:
        for device in devices:
            try:
                reading = self.backend.read(device, self.wall)
            except DeviceError as error:
                self.accounts.fail(device.uuid, error.reason, self.wall)
            else:
                self.accounts.advance(device, reading, self.owner_of, self.wall)
        self.advances += len(devices)

    def page(self, renderer: Renderer, milliseconds: int) -> bytes:
        snapshot = self.accounts.snapshot(self.wall).with_families(self.own)
        page = renderer.render(
            snapshot, openmetrics=self.plan.openmetrics, timestamp_ms=milliseconds
        )
        return page.removesuffix(_EOF)

    def run(self, renderer: Renderer, end: float, *, stops: bool) -> Iterator[bytes]:
        """Yield pages up to ``end``; the last one lies just before it where the exporter stops."""
        yield self.page(renderer, _milliseconds(self.wall))
        changes = self.scenario.changes(self.node, self.wall, end)
        page_interval, step = self.plan.page_interval, self.plan.step
        next_page = (floor(self.wall / page_interval) + 1) * page_interval
        while self.wall < end:
            place = bisect_right(changes, self.wall)
            change = changes[place] if place < len(changes) else end
            tick = (floor(self.wall / step) + 1) * step
            self.wall = min(tick, next_page, change, end)
            changed, last = self.wall == change and change < end, self.wall >= end
            paged = self.wall >= next_page
            self.advance(self.devices if changed or last or paged else self.working)
            if changed or (last and stops):
                yield self.page(renderer, _milliseconds(self.wall) - 1)
            if last and stops:
                return
            if changed or paged or last:
                self.allocate()
                yield self.page(renderer, _milliseconds(self.wall))
            if paged:
                next_page += page_interval


def _milliseconds(wall: float) -> int:
    return round(wall * 1000)


def pages(scenario: Scenario, node: str, plan: Plan) -> Iterator[tuple[bytes, int]]:
    """Yield each page of a node and the number of device readings taken so far, in time order."""
    renderer, done, at = Renderer(), 0, plan.start
    for low, high in (*scenario.exporter_down(node), (plan.end, plan.end)):
        stop = min(low, plan.end)
        if stop > at:
            spell = _Spell(scenario, node, plan, at)
            for page in spell.run(renderer, stop, stops=low < plan.end):
                yield page, done + spell.advances
            done += spell.advances
        at = max(at, high)


@contextmanager
def _writer(path: Path) -> Iterator[IO[bytes]]:
    """Open a file, compressed where its name ends in .gz (level 1: history is repetitive)."""
    if path.suffix == ".gz":
        with path.open("wb") as raw, gzip.GzipFile("", "wb", 1, raw, mtime=0) as packed:
            yield packed  # type: ignore[misc]  # typeshed: a GzipFile is no IO[bytes]
    else:
        with path.open("wb") as plain:
            yield plain


def write_node(plan: Plan, node: str, path: Path) -> Written:
    """Simulate one node into ``path``; loads the scenario itself, to run in its own process."""
    scenario, count, advances = load(plan.scenario, plan.now), 0, 0
    with _writer(path) as file:
        for page, advances in pages(scenario, node, plan):  # noqa: B007 the last value is reported
            file.write(page)
            count += 1
        if plan.openmetrics:
            file.write(_EOF)
    return Written(node, str(path), count, advances)


def write_nodes(
    plan: Plan, nodes: Sequence[str], folder: Path, suffix: str, jobs: int
) -> list[Written]:
    """Simulate nodes into ``folder``, ``jobs`` at a time; the order of ``nodes`` is kept.

    The folder must be there.
    """
    files = [folder / f"{node}{suffix}" for node in nodes]
    if min(jobs, len(nodes)) <= 1:
        return [write_node(plan, node, file) for node, file in zip(nodes, files, strict=True)]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(jobs, len(nodes)), mp_context=context) as pool:
        return list(pool.map(write_node, [plan] * len(nodes), nodes, files))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the subcommand's options."""
    add = parser.add_argument
    add("--scenario", required=True, help="scenario file (YAML), or demo")
    add("--out", type=Path, required=True, help="folder for the pages, one file per node")
    add("--start", help="begin, as --start=-14d, or ISO 8601 (default: --days before the end)")
    add("--end", default="now", help="end, as --end=-2h, or ISO 8601 (default: now)")
    add("--days", type=_days, default=HISTORY_DAYS, help="length without --start (default: 14)")
    add(
        "--now", help="ISO time or Unix seconds that relative times count from (default: the clock)"
    )
    add("--node", default="all", help="one node of the scenario, or all (default)")
    add("--step", default="60s", help="simulated sampling interval (default: 60s)")
    add("--page-interval", default="1h", help="time between pages (default: 1h)")
    add("--gzip", action="store_true", help="compress: NODE.prom.gz instead of NODE.prom")
    add("--openmetrics", action="store_true", help="OpenMetrics text, as promtool takes it")
    add("--manifests", type=Path, help="also write the cluster's objects at the end, as JSON")
    add("--pin", type=Path, help="also write the scenario with its now fixed, for live exporters")
    add("--jobs", type=_processes, default=JOBS, help="processes at once (default: 2)")


class _UsageError(Exception):
    """Options that make no sense."""


def _plan(args: argparse.Namespace, now: float) -> Plan:
    end = parse_time(args.end, now)
    if end is None:
        raise _UsageError(f"--end: expected now, -2h or an ISO time, found {args.end!r}")
    start = end - args.days * 86400 if args.start is None else parse_time(args.start, now)
    if start is None:
        raise _UsageError(f"--start: expected -14d, -3d@09:00 or an ISO time, found {args.start!r}")
    if start >= end:
        raise _UsageError("--start must be before --end")
    if end - start > MOST_DAYS * 86400:
        raise _UsageError(f"expected at most {MOST_DAYS:g} days from --start to --end")
    step, page_interval = _span("--step", args.step), _span("--page-interval", args.page_interval)
    return Plan(args.scenario, now, start, end, step, page_interval, args.openmetrics)


def _anchor(text: str) -> float:
    at = parse_time(_number(text), time.time())
    if at is None:
        raise _UsageError(f"--now: expected an ISO time or Unix seconds, found {text!r}")
    return at


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _span(option: str, text: str) -> float:
    seconds = parse_duration(_number(text))
    if seconds is None or seconds <= 0:
        raise _UsageError(f"{option}: expected a duration as 60s or 1h, found {text!r}")
    return seconds


def _days(text: str) -> float:
    days = _number(text)
    if isinstance(days, str) or not 0 < days <= MOST_DAYS:
        raise argparse.ArgumentTypeError(
            f"expected days above 0, at most {MOST_DAYS:g}, not {text!r}"
        )
    return days


def _processes(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number from 1 up, not {text!r}")
    return int(text)


def _run(args: argparse.Namespace) -> None:
    scenario = load(args.scenario, time.time() if args.now is None else _anchor(args.now))
    plan = _plan(args, scenario.now)
    args.out.mkdir(parents=True, exist_ok=True)
    for file in (args.pin, args.manifests):
        if file is not None and not file.parent.is_dir():  # said before the work, not after it
            raise OSError(errno.ENOENT, "its folder is not there", str(file))
    nodes = list(scenario.nodes) if args.node == "all" else [args.node]
    if nodes[0] not in scenario.nodes:
        known = ", ".join(scenario.nodes)
        raise _UsageError(f"--node: the scenario has no node {args.node!r} (it has {known})")
    nodes.sort(key=lambda node: -len(scenario.devices(node)))  # the longest first
    suffix = (".om" if args.openmetrics else ".prom") + (".gz" if args.gzip else "")
    for written in write_nodes(plan, nodes, args.out, suffix, args.jobs):
        print(f"{written.file}: {written.pages} pages, {written.advances} readings")  # noqa: T201 a command's answer
    if args.pin is not None:
        args.pin.write_text(pinned(args.scenario, scenario.now), encoding="utf-8")
        print(f"{args.pin}: scenario anchored at {scenario.now:.3f}")  # noqa: T201 likewise
    if args.manifests is not None:
        items = manifests(scenario, plan.end)
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": items}, indent=1)
        args.manifests.write_text(text + "\n", encoding="utf-8")
        print(f"{args.manifests}: {len(items)} objects")  # noqa: T201 likewise


def run(args: argparse.Namespace) -> int:
    """Run the subcommand; returns 0, 1 when a file cannot be used, 2 for wrong options."""
    try:
        _run(args)
    except _UsageError as error:
        print(f"gputailor-exporter simulate: {error}", file=sys.stderr)  # noqa: T201 a command's answer
        return 2
    except (ScenarioError, OSError) as error:
        print(f"gputailor-exporter simulate: {_words(error)}", file=sys.stderr)  # noqa: T201 likewise
        return 1
    except KeyboardInterrupt:
        print("gputailor-exporter simulate: stopped; files may be cut short", file=sys.stderr)  # noqa: T201 likewise
        return 1
    return 0


def _words(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: cannot be written: {error.strerror}"
    return str(error)
