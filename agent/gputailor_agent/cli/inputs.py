"""From a command line's files, or an agent's store, to an assessment."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from gputailor_agent.assessment import Assessment, AssessmentSettings, assess, assess_store
from gputailor_agent.catalog import Catalogue, load_catalogue
from gputailor_agent.cli import joining, options
from gputailor_agent.cli.clusters import ClusterAccess
from gputailor_agent.cli.discovered import AUTO, find_prometheus
from gputailor_agent.cli.errors import CommandError, UsageError
from gputailor_agent.cli.histories import (
    PrometheusAccess,
    asked_window,
    nameless,
    read_history,
)
from gputailor_agent.cli.recorded import read_recorded
from gputailor_agent.cli.stored import reading, stored_window
from gputailor_agent.cli.terminal import tell, working
from gputailor_agent.cli.windows import check_data, whole_hours, window_of
from gputailor_agent.inventory.files import read_inventory
from gputailor_agent.inventory.identity import IdentitySettings, resolve
from gputailor_agent.model.inventory import Inventory
from gputailor_agent.model.usage import Device, UsageRow
from gputailor_agent.rollup.counters import CounterRollup
from gputailor_agent.rollup.gauges import Holder, rows_from_samples
from gputailor_agent.rules import RuleSettings
from gputailor_agent.sources.archive import MEASURED_BY, Archive, read_archive
from gputailor_agent.sources.logs import Log

if TYPE_CHECKING:
    from gputailor_agent.store import Store

_SHOWN_PROBLEMS: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """What a command line asked to be judged."""

    archive: tuple[Path, ...] = ()  # wins over the store, which may come from the environment
    prometheus: PrometheusAccess = field(default_factory=PrometheusAccess)
    inventory: tuple[Path, ...] = ()
    live: ClusterAccess = field(default_factory=ClusterAccess)
    team_keys: tuple[str, ...] = ()
    prices: Path | None = None
    rules: RuleSettings = field(default_factory=RuleSettings)
    since: str | None = None
    until: str | None = None
    cluster: str = options.DEFAULT_CLUSTER
    store: str | None = None
    joins: tuple[str, ...] = ()

    @property
    def judging(self) -> AssessmentSettings:
        """How it is judged."""
        return AssessmentSettings(
            identity=IdentitySettings(team_keys=self.team_keys), rules=self.rules
        )


class Gathered(msgspec.Struct, frozen=True, kw_only=True):
    """Usage out of files, ready to be judged."""

    rows: tuple[UsageRow, ...]
    devices: tuple[Device, ...]
    first_data: float | None
    last_data: float | None
    problems: tuple[str, ...]
    sources: tuple[str, ...]


def assess_inputs(inputs: Inputs) -> Assessment:
    """Judge what was asked for; raises ``UsageError`` where the options do not fit together."""
    if inputs.inventory and inputs.live.asked:
        raise UsageError(
            "--inventory and a live cluster (--kubernetes, --context, --kubeconfig, --namespace) "
            "were both given: give one of them"
        )
    if inputs.archive:
        return _assess_files(inputs)
    if inputs.prometheus.asked or (inputs.live.asked and not inputs.store):
        return _assess_prometheus(inputs)
    if inputs.store:
        return _assess_store(inputs, inputs.store)
    raise UsageError(
        "nothing to judge: give --prometheus-url URL (auto: look in the cluster), --archive PATH "
        "(and --inventory PATH), or --store URL; gputailor demo shows the product without either"
    )


def _assess_files(inputs: Inputs) -> Assessment:
    joins = [joining.parse_join(text) for text in inputs.joins]
    catalogue = load_catalogue(inputs.prices)
    archive_paths = options.existing("--archive", inputs.archive)
    inventory_paths = options.existing("--inventory", inputs.inventory)
    with working("Reading the archive") as tick:
        archive = read_archive(archive_paths, inputs.cluster, progress=tick)
        gathered = _roll_up(archive, inputs.cluster)
    with working("Reading the inventory"):
        at = gathered.last_data if gathered.last_data is not None else time.time()
        inventory = read_asked(inputs, inventory_paths, at)
    if gathered.last_data is None and not archive.logs:
        raise CommandError(_nothing(archive_paths, gathered.problems))
    gathered = _with_logs(inputs, joins, gathered, archive, inventory)
    return _judge(inputs, gathered, inventory, catalogue)


def _assess_prometheus(inputs: Inputs) -> Assessment:
    """What a Prometheus has scraped, kept in the store where one is given."""
    catalogue = load_catalogue(inputs.prices)
    now = time.time()
    paths = options.existing("--inventory", inputs.inventory)
    window = asked_window(inputs.since, inputs.until, now)
    asked = bool(paths) or inputs.live.asked
    with working("Reading the inventory"):  # first: a wrong file is told at once
        inventory = read_asked(inputs, paths, window.end) if asked else None
    server = _server(inputs, now)
    with working("Reading the Prometheus") as tick, _cache(inputs.store) as store:
        found = read_history(
            server, inputs.cluster, window, inventory=inventory, store=store, progress=tick
        )
    if inventory is None:
        with working("Reading what kube-state-metrics told"):
            inventory = read_recorded(server, inputs.cluster, window)
    hours = {row.key.hour for row in found.rows}
    gathered = Gathered(
        rows=tuple(found.rows),
        devices=tuple(found.devices),
        first_data=float(min(hours)),
        last_data=min(now, window.end),
        problems=(*found.problems, *nameless(found.rows, inventory)),
        sources=("Prometheus",),
    )
    return _judge(inputs, gathered, inventory, catalogue)


def _server(inputs: Inputs, now: float) -> PrometheusAccess:
    """The Prometheus that is named, or the cluster's own."""
    if inputs.prometheus.asked and inputs.prometheus.url != AUTO:
        return inputs.prometheus
    with working("Looking for a Prometheus in the cluster"):
        found = find_prometheus(inputs.prometheus, inputs.live, now=now)
    tell(f"gputailor: reading {found.url}")
    return found


@contextmanager
def _cache(url: str | None) -> "Iterator[Store | None]":
    if not url:
        yield None
        return
    from gputailor_agent.store import Store  # noqa: PLC0415 - a second that files do not need

    with Store.open(url) as store:
        yield store


def read_asked(inputs: Inputs, paths: Sequence[Path], at: float) -> Inventory:
    """What was asked for, by the live cluster or by files.

    Raises ``CommandError`` for files of which nothing at all could be read.
    """
    if inputs.live.asked:
        return inputs.live.read(inputs.cluster, at)
    found = read_inventory(paths, inputs.cluster, at)
    if paths and found.problems and not (found.pods or found.nodes or found.owners):
        raise CommandError(
            f"--inventory: nothing could be read from {_listed(paths)}; expected output of kubectl "
            f"get pods,nodes,jobs,… -o json or yaml, or manifests{_told(found.problems)}"
        )
    return found


def _judge(
    inputs: Inputs, gathered: Gathered, inventory: Inventory, catalogue: Catalogue
) -> Assessment:
    window = whole_hours(
        window_of(
            inputs.since,
            inputs.until,
            first_data=gathered.first_data,
            last_data=gathered.last_data,
            now=time.time(),
        )
    )
    check_data(window, gathered.first_data, gathered.last_data)
    with working("Judging"):
        return assess(
            gathered.rows,
            gathered.devices,
            inventory,
            window=window,
            now=window.end,
            catalogue=catalogue,
            settings=inputs.judging,
            problems=gathered.problems,
            sources=gathered.sources,
        )


def _nothing(paths: Sequence[Path], problems: Sequence[str]) -> str:
    return (
        f"no usage could be read from {_listed(paths)}; expected exporter pages with timestamps or "
        f"nvidia-smi logs{_told(problems)}"
    )


def _listed(paths: Sequence[Path]) -> str:
    return ", ".join(str(path) for path in paths)


def _told(problems: Sequence[str]) -> str:
    """Problems as further lines of a message; the first few."""
    lines = list(problems[:_SHOWN_PROBLEMS])
    more = len(problems) - _SHOWN_PROBLEMS
    return "".join(f"\n  {one}" for one in [*lines, *([f"… and {more} more"] if more > 0 else [])])


def _roll_up(archive: Archive, cluster: str) -> Gathered:
    rollup = CounterRollup(cluster)
    first: float | None = None
    last: float | None = None
    for page in archive.pages():
        rollup.add(page)
        first = page.at if first is None else min(first, page.at)
        last = page.at if last is None else max(last, page.at)
    rows = tuple(rollup.take_rows())
    return Gathered(
        rows=rows,
        devices=tuple(rollup.devices()),
        first_data=first,
        last_data=last,
        problems=tuple(str(problem) for problem in archive.problems),
        sources=(MEASURED_BY,) if last is not None else (),
    )


def _with_logs(
    inputs: Inputs,
    joins: Sequence[joining.Join],
    gathered: Gathered,
    archive: Archive,
    inventory: Inventory,
) -> Gathered:
    """Add the recorded logs, each joined to a container of the inventory."""
    if not archive.logs:
        return gathered
    if not inventory.pods:
        raise UsageError(_no_pods(archive.logs[0], inputs.inventory, inventory.problems))
    for joined in joining.join_logs(archive.logs, inventory, resolve(inventory), joins):
        gathered = _add_log(gathered, joined, inventory)
    return gathered


def _no_pods(log: Log, given: Sequence[Path], problems: Sequence[str]) -> str:
    alone = f"or judge it alone with: gputailor analyse {log.path}"
    if not given:
        return (
            f"{log.path} is a recorded log and names no pod: give the manifests with --inventory, "
            + alone
        )
    return (
        f"--inventory: there is no pod and no pod template in {_listed(given)}, so the log "
        f"{log.path} cannot be joined to one; give the manifest of the job, {alone}"
        f"{_told(problems)}"
    )


def _add_log(gathered: Gathered, joined: joining.Joined, inventory: Inventory) -> Gathered:
    log, owner = joined.log, joined.assignment
    holder = Holder(
        namespace=owner.namespace,
        pod=owner.pod,
        pod_uid=owner.pod_uid,
        container=owner.container,
    )
    rows, devices = rows_from_samples(log.samples, cluster=inventory.cluster, pod=holder)
    times = [sample.at for sample in log.samples]
    said = [*joining.assumptions(joined, len(devices), inventory), *log.notes]
    if log.rows_skipped:
        said.append(
            f"{log.rows_skipped:,} of {log.rows_present:,} rows were skipped"
            + (f", first line {log.skipped[0].line}: {log.skipped[0].why}" if log.skipped else "")
        )
    return Gathered(
        rows=(*gathered.rows, *rows),
        devices=(*gathered.devices, *devices),
        first_data=min(t for t in (gathered.first_data, min(times)) if t is not None),
        last_data=max(t for t in (gathered.last_data, max(times)) if t is not None),
        problems=(*gathered.problems, *(f"{log.path}: {text}" for text in said)),
        sources=(*gathered.sources, f"log {Path(log.path).name}"),
    )


def _assess_store(inputs: Inputs, url: str) -> Assessment:
    catalogue = load_catalogue(inputs.prices)
    now = time.time()
    paths = options.existing("--inventory", inputs.inventory)
    with reading(url) as store:
        with working("Reading the store"):
            window = stored_window(store, inputs.cluster, inputs.since, inputs.until, now)
            if paths or inputs.live.asked:
                inventory = read_asked(inputs, paths, window.end)
            else:
                inventory = store.inventory(inputs.cluster, window.end, since=window.start)
        with working("Judging"):
            return assess_store(
                store,
                inputs.cluster,
                inventory,
                window,
                now=window.end,
                catalogue=catalogue,
                settings=inputs.judging,
                sources=("store of an agent",),
            )
