"""From a command line's files, or an agent's store, to an assessment."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from gputailor_agent.assessment import Assessment, assess, assess_store
from gputailor_agent.catalog import Catalogue, load_catalogue
from gputailor_agent.cli import joining, options
from gputailor_agent.cli.errors import CommandError, UsageError
from gputailor_agent.cli.terminal import tell, working
from gputailor_agent.cli.windows import window_of
from gputailor_agent.inventory.files import read_inventory
from gputailor_agent.inventory.identity import resolve
from gputailor_agent.model.inventory import Inventory
from gputailor_agent.model.profile import Window
from gputailor_agent.model.usage import HOUR_SECONDS, Device, UsageRow
from gputailor_agent.rollup.counters import CounterRollup
from gputailor_agent.rollup.gauges import Holder, rows_from_samples
from gputailor_agent.sources.archive import Archive, read_archive
from gputailor_agent.store import Store

_DAY_SECONDS: Final = 86_400
_LOOK_BACK_SECONDS: Final = 31.0 * _DAY_SECONDS


class Inputs(msgspec.Struct, frozen=True, kw_only=True):
    """What a command line asked to be judged."""

    archive: tuple[Path, ...] = ()  # wins over the store, which may come from the environment
    inventory: tuple[Path, ...] = ()
    prices: Path | None = None
    since: str | None = None
    until: str | None = None
    cluster: str = options.DEFAULT_CLUSTER
    store: str | None = None
    joins: tuple[str, ...] = ()


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
    if inputs.store and not inputs.archive:
        return _assess_store(inputs, inputs.store)
    if not inputs.archive:
        raise UsageError(
            "nothing to judge: give --archive PATH (and --inventory PATH), or --store URL; "
            "gputailor demo shows the product without either"
        )
    return _assess_files(inputs)


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
        inventory = read_inventory(inventory_paths, inputs.cluster, at)
    gathered = _with_logs(gathered, archive, inventory, joins)
    if not gathered.rows and not inventory.pods:
        raise CommandError(_nothing(archive_paths, gathered.problems))
    return _judge(inputs, gathered, inventory, catalogue)


def _judge(
    inputs: Inputs, gathered: Gathered, inventory: Inventory, catalogue: Catalogue
) -> Assessment:
    window = window_of(
        inputs.since,
        inputs.until,
        first_data=gathered.first_data,
        last_data=gathered.last_data,
        now=time.time(),
    )
    with working("Judging"):
        return assess(
            gathered.rows,
            gathered.devices,
            inventory,
            window=window,
            now=window.end,
            catalogue=catalogue,
            problems=gathered.problems,
            sources=gathered.sources,
        )


def _nothing(paths: Sequence[Path], problems: Sequence[str]) -> str:
    told = "".join(f"\n  {problem}" for problem in problems[:10])
    names = ", ".join(str(path) for path in paths)
    return (
        f"no usage could be read from {names}; expected exporter pages with timestamps or "
        f"nvidia-smi logs{told}"
    )


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
        sources=("archive of exporter pages",) if last is not None else (),
    )


def _with_logs(
    gathered: Gathered, archive: Archive, inventory: Inventory, joins: list[joining.Join]
) -> Gathered:
    """Add the recorded logs, each joined to a container of the inventory."""
    logs = [log for log in archive.logs if log.knows]
    if not logs:
        return gathered
    if not inventory.pods:
        raise UsageError(
            f"{logs[0].path} is a recorded log and names no pod: give the manifests with "
            f"--inventory, or judge it alone with: gputailor analyse {logs[0].path}"
        )
    for joined in joining.join_logs(logs, inventory, resolve(inventory), joins):
        gathered = _add_log(gathered, joined, inventory.cluster)
    return gathered


def _add_log(gathered: Gathered, joined: joining.Joined, cluster: str) -> Gathered:
    log, owner = joined.log, joined.assignment
    if joined.concluded:
        tell(f"{log.path}: joined to {owner.workload_id}, the only GPU workload there is")
    holder = Holder(
        namespace=owner.namespace,
        pod=owner.pod,
        pod_uid=owner.pod_uid,
        container=owner.container,
    )
    rows, devices = rows_from_samples(log.samples, cluster=cluster, pod=holder)
    times = [sample.at for sample in log.samples]
    problems = list(gathered.problems)
    if log.rows_skipped:
        problems.append(
            f"{log.path}: {log.rows_skipped:,} of {log.rows_present:,} rows were skipped"
            + (f", first line {log.skipped[0].line}: {log.skipped[0].why}" if log.skipped else "")
        )
    problems += [f"{log.path}: {note}" for note in log.notes]
    return Gathered(
        rows=(*gathered.rows, *rows),
        devices=(*gathered.devices, *devices),
        first_data=min(t for t in (gathered.first_data, min(times)) if t is not None),
        last_data=max(t for t in (gathered.last_data, max(times)) if t is not None),
        problems=tuple(problems),
        sources=(*gathered.sources, f"log {Path(log.path).name}"),
    )


def _assess_store(inputs: Inputs, url: str) -> Assessment:
    catalogue = load_catalogue(inputs.prices)
    now = time.time()
    with Store.open(url) as store:
        with working("Reading the store"):
            window = _store_window(inputs, store, now)
            inventory = _store_inventory(inputs, store, window)
        with working("Judging"):
            return assess_store(
                store,
                inputs.cluster,
                inventory,
                window,
                now=window.end,
                catalogue=catalogue,
                sources=("store of an agent",),
            )


def _store_inventory(inputs: Inputs, store: Store, window: Window) -> Inventory:
    if inputs.inventory:
        paths = options.existing("--inventory", inputs.inventory)
        return read_inventory(paths, inputs.cluster, window.end)
    return store.inventory(inputs.cluster, window.end, since=window.start)


def _store_window(inputs: Inputs, store: Store, now: float) -> Window:
    """The window asked for, else the last 14 days up to the newest hour, as far as there is data.

    Hours are probed one row each, so that a large store is not read twice.
    """
    last = None
    if inputs.until is None:
        last = _probe(store, inputs.cluster, now - _LOOK_BACK_SECONDS, now, newest=True)
        if last is None:
            raise CommandError(
                f"the store holds no usage of cluster {inputs.cluster!r} in the last "
                f"{_LOOK_BACK_SECONDS // _DAY_SECONDS:.0f} days; is --cluster right, has the agent "
                "run, or do you mean an earlier window (--until)?"
            )
        last = min(now, last + HOUR_SECONDS)
    window = window_of(inputs.since, inputs.until, first_data=None, last_data=last, now=now)
    if inputs.since is not None:
        return window
    first = _probe(store, inputs.cluster, window.start, window.end, newest=False)
    return window if first is None else Window(start=max(first, window.start), end=window.end)


def _probe(store: Store, cluster: str, start: float, end: float, *, newest: bool) -> float | None:
    """The newest or oldest hour in the window of which there is a row; None for none."""
    for day in _steps(start, end, _DAY_SECONDS, newest=newest):
        if next(store.usage(cluster, day, day + _DAY_SECONDS), None) is not None:
            for hour in _steps(day, day + _DAY_SECONDS, HOUR_SECONDS, newest=newest):
                if next(store.usage(cluster, hour, hour + HOUR_SECONDS), None) is not None:
                    return hour
    return None


def _steps(start: float, end: float, step: int, *, newest: bool) -> list[float]:
    first = int(start // step) * step
    found = [float(at) for at in range(first, int(end) + 1, step)]
    return found[::-1] if newest else found
