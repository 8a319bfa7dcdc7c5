"""``gputailor catalogue``: what GPUs can do and cost, and a user's own prices and hardware."""

import os
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Annotated, Final

import typer

from gputailor_agent.catalog import (
    MAX_AGE_DAYS,
    CatalogueError,
    Price,
    is_stale,
    load_catalogue,
    load_with_faults,
    told_age,
)
from gputailor_agent.catalog import merging as merges
from gputailor_agent.catalog.loading import normalise
from gputailor_agent.cli import catalogue_pages as pages
from gputailor_agent.cli import options
from gputailor_agent.cli.errors import THRESHOLD_EXCEEDED, CommandError, UsageError
from gputailor_agent.cli.showing import Output, show
from gputailor_agent.cli.terminal import answer, tell
from gputailor_agent.reports.plurals import counted

_LIST: Final = """Examples:

  gputailor catalogue list --vendor nvidia

  gputailor catalogue list --kind prices --provider gcp --output json

  gputailor catalogue list --prices ~/.config/gputailor/catalogue
"""
_CHECK: Final = """Examples:

  gputailor catalogue check prices.csv

  gputailor catalogue check ~/.config/gputailor/catalogue --max-age-days 30

Exits 1 where something is wrong with it, 3 where a price is older than --max-age-days.
"""
_UPDATE: Final = """Examples:

  gputailor catalogue update prices.csv               # only says what would change

  gputailor catalogue update prices.csv --write

  gputailor catalogue update opencost.prom --write    # saved from OpenCost's /metrics
"""
_KINDS: Final = ("devices", "prices", "mig")

MaxAge = Annotated[
    float | None,
    typer.Option(
        "--max-age-days",
        envvar="GPUTAILOR_MAX_PRICE_AGE_DAYS",
        min=0,
        help=f"Days after which a price is called old ({MAX_AGE_DAYS:.0f}).",
        show_default=False,
    ),
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(no_args_is_help=True, help="GPUs, their prices, and your own of both.")
    group.command("list", epilog=_LIST)(show_all)
    group.command("check", epilog=_CHECK)(check)
    group.command("update", epilog=_UPDATE)(update)
    app.add_typer(group, name="catalogue")


def today() -> date:
    """The date in UTC."""
    return datetime.now(tz=UTC).date()


def own_folder() -> Path:
    """Where own prices and hardware are kept unless told otherwise (XDG base directories)."""
    base = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(base) / "gputailor" / "catalogue"


def show_all(
    *,
    kind: Annotated[
        str, typer.Option("--kind", help="devices, prices or mig (profiles of MIG).")
    ] = "devices",
    vendor: Annotated[
        str, typer.Option("--vendor", help="Only this vendor: nvidia, amd, huawei, …")
    ] = "",
    gpu: Annotated[str, typer.Option("--gpu", help="Only GPUs with these letters.")] = "",
    provider: Annotated[
        str, typer.Option("--provider", help="Only prices of this provider: aws, gcp, own, …")
    ] = "",
    region: Annotated[str, typer.Option("--region", help="Only prices of this region.")] = "",
    prices: options.Prices = None,
    max_age_days: MaxAge = None,
    output: Output = "table",
) -> None:
    """List GPUs and what they can do, or prices, with the date each price was read.

    Every figure has its source: --output json. With --prices your own come first.
    """
    if kind not in _KINDS:
        raise UsageError(f"--kind: expected {', '.join(_KINDS)}, found {kind!r}")
    catalogue, now = load_catalogue(prices), today()
    oldest = MAX_AGE_DAYS if max_age_days is None else max_age_days
    chosen = pages.of_vendor(catalogue.devices, vendor)
    chosen = [device for device in chosen if gpu.casefold() in device.key.casefold()]
    if not chosen:
        known = ", ".join(sorted({device.vendor for device in catalogue.devices}))
        raise UsageError(f"--vendor, --gpu: no such GPU is known; vendors are {known}")
    if kind == "mig":
        page, profiles = pages.mig_page(chosen)
        show(output, page, pages.values_of(profiles, now))
    elif kind == "prices":
        keys = frozenset(device.key for device in chosen)
        found = pages.price_lines(catalogue.prices, keys, now, provider=provider, region=region)
        show(output, pages.price_page(found, now, oldest), pages.values_of(found, now))
    else:
        lines = pages.device_lines(catalogue, chosen, now)
        show(output, pages.device_page(lines, now, oldest), pages.values_of(lines, now))


def check(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Prices, hardware, or a folder.")],
    *,
    max_age_days: MaxAge = None,
) -> None:
    """Check a file of your own prices or hardware, or a folder of them; all faults are told.

    Kinds are known by their header: prices (price_per_gpu_hour), bare metal (purchase_price),
    hardware (memory_gb), OpenCost's pricing CSV, and pages of OpenCost's exporter.
    """
    _there(file)
    catalogue, faults = load_with_faults(file)
    if faults:
        for fault in faults:
            answer(str(fault))
        raise CommandError(f"{file}: {counted(len(faults), 'fault')}; nothing of it is used")
    prices = [price for price in catalogue.prices if price.own]
    devices = [device for device in catalogue.devices if device.own]
    if not prices and not devices:
        raise CommandError(f"{file}: no price and no hardware in it")
    answer(f"{file}: {counted(len(prices), 'price')}, {counted(len(devices), 'device')}: fine")
    old = _tell_old(prices, MAX_AGE_DAYS if max_age_days is None else max_age_days)
    if old and max_age_days is not None:
        raise typer.Exit(THRESHOLD_EXCEEDED)


def _tell_old(prices: list[Price], max_age_days: float) -> bool:
    """Say which prices are old; whether any is."""
    old = [price for price in prices if is_stale(price, today(), max_age_days)]
    for price in old:
        name = price.accelerator or price.instance_type
        tell(f"warning: the price of {name} is old: {told_age(price, today(), max_age_days)}")
    return bool(old)


def update(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Prices or hardware to take over.")],
    *,
    into: Annotated[
        Path | None,
        typer.Option(
            "--into",
            envvar="GPUTAILOR_PRICES",
            help="Your folder of prices and hardware, by default ~/.config/gputailor/catalogue.",
        ),
    ] = None,
    write: Annotated[
        bool, typer.Option("--write", help="Do it; without it, only what would change is said.")
    ] = False,
) -> None:
    """Take a file's prices or hardware over into your own folder, row by row.

    A row of the same GPU, instance type, region and way of buying replaces the old one; nothing is
    dropped. Prices without as_of get today's date.
    """
    _there(file)
    folder = into or own_folder()
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"--into: {folder} is a file; expected a folder")
    found = load_with_faults(file)[1]
    if found:
        raise CatalogueError("\n".join(str(fault) for fault in found))
    merged = merges.merge(file, folder, today=today().isoformat(), normalise=normalise)
    for change in merged.changes:
        if change.kind != "same":
            answer(_told(change))
    same = sum(change.kind == "same" for change in merged.changes)
    if not merged.texts:
        answer(f"{folder}: nothing to change, {counted(same, 'row')} as before")
        return
    if not write:
        answer("nothing was written; add --write to do it")
        return
    merges.write(merged)
    answer(f"written; use it with --prices {folder}, or prices: {folder} in the agent's settings")


def _told(change: merges.Change) -> str:
    if change.before is None:
        figures = ", ".join(f"{name} {cell}" for name, cell in change.after.items())
        return f"new      {Path(change.file).name}: {figures}"
    names = dict.fromkeys([*change.before, *change.after])
    differ = (
        f"{name} {change.before.get(name, '(blank)')} -> {change.after.get(name, '(blank)')}"
        for name in names
        if change.before.get(name) != change.after.get(name)
    )
    return f"changed  {Path(change.file).name}: {change.name}: {', '.join(differ)}"


def _there(file: Path) -> None:
    if not file.exists():
        raise UsageError(f"FILE: {file} does not exist")
