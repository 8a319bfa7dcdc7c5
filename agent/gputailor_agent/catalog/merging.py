"""Puts a file of prices or hardware into a user's catalogue folder, row by row.

The folder holds one file per kind: ``prices.csv``, ``hardware.csv``, ``bare_metal.csv``. A row with
the same key takes the old one's place; nothing else is touched. OpenCost's prices become rows of
``prices.csv``. What would change is worked out first; writing is a second step.
"""

import csv
import io
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gputailor_agent.catalog import opencost
from gputailor_agent.catalog.own import read_text, schema_of
from gputailor_agent.catalog.prices import Price
from gputailor_agent.catalog.schemas import BARE_METAL, HARDWARE, OPENCOST, PRICES
from gputailor_agent.catalog.tables import CatalogueError, Schema, raise_faults, read_table

#: Files of the folder by schema name, with the columns that make a row the same one.
_FILES: Final[dict[str, tuple[str, Schema, tuple[str, ...]]]] = {
    PRICES.name: (
        "prices.csv",
        PRICES,
        ("accelerator", "instance_type", "region", "capacity_type"),
    ),
    HARDWARE.name: ("hardware.csv", HARDWARE, ("accelerator",)),
    BARE_METAL.name: ("bare_metal.csv", BARE_METAL, ("accelerator",)),
}

Cells = dict[str, str]
#: A name as it is compared: ``NVIDIA-L4`` and ``l4`` are one GPU.
Normalise = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Change:
    """One row: ``before`` is None for a new one; equal to ``after`` where nothing changes."""

    file: str
    name: str
    before: Cells | None
    after: Cells

    @property
    def kind(self) -> str:
        """``new``, ``changed`` or ``same``."""
        if self.before is None:
            return "new"
        return "same" if self.before == self.after else "changed"


@dataclass(frozen=True, slots=True)
class Merge:
    """What a file does to a folder: the changes, and the whole text of each file that changes."""

    changes: tuple[Change, ...]
    texts: dict[Path, str]


def merge(file: Path, folder: Path, *, today: str, normalise: Normalise) -> Merge:
    """What ``file`` would change in ``folder``, which need not exist yet.

    A price without ``as_of`` gets ``today``'s date (ISO), since its age is told later. Raises
    ``CatalogueError`` with every fault of either file.
    """
    schema_name, rows = _rows_of(file)
    name, schema, keys = _FILES[schema_name]
    target = folder / name
    held = _held(target, schema)
    index = {_key(row, keys, normalise): place for place, row in enumerate(held)}
    changes = []
    for row in rows:
        key = _key(row, keys, normalise)
        before = held[index[key]] if key in index else None
        after = _dated(row, before, schema, today)
        changes.append(Change(str(target), _told_key(row, keys), before, after))
        if key in index:
            held[index[key]] = after
        else:
            index[key] = len(held)
            held.append(after)
    changed = any(change.kind != "same" for change in changes)
    return Merge(tuple(changes), {target: _text(held, schema)} if changed else {})


def write(merged: Merge) -> None:
    """Write the files of a merge; each is replaced as a whole or not at all.

    Raises ``CatalogueError`` where the folder cannot be written.
    """
    for path, content in merged.texts.items():
        beside = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            beside.write_text(content, encoding="utf-8")
            beside.replace(path)
        except OSError as error:
            raise CatalogueError(f"{path}: cannot write: {error.strerror}") from error


def _rows_of(file: Path) -> tuple[str, list[Cells]]:
    content = read_text(file)
    if opencost.is_page(content):
        prices, faults = opencost.page_prices(str(file), content)
        raise_faults(tuple(faults))
        return PRICES.name, [_cells_of(price, "") for price in prices]
    schema = schema_of(content)
    if schema is OPENCOST:
        written, faults = opencost.table_prices(str(file), content)
        raise_faults(tuple(faults))
        return PRICES.name, [_cells_of(price, name) for name, price in written]
    return schema.name, _checked(str(file), content, schema)


def _held(path: Path, schema: Schema) -> list[Cells]:
    return _checked(str(path), read_text(path), schema) if path.exists() else []


def _checked(place: str, content: str, schema: Schema) -> list[Cells]:
    checked = read_table(place, content, schema)
    raise_faults(checked.faults)
    return [{name: cell for name, cell in row.cells.items() if cell} for row in checked.rows]


def _cells_of(price: Price, written: str) -> Cells:
    cells = {
        "accelerator": written,
        "instance_type": price.instance_type,
        "price_per_gpu_hour": f"{price.amount_per_gpu_hour:.6g}",
        "currency": price.currency,
        "capacity_type": price.kind.replace("_", "-"),
        "region": price.region,
        "as_of": price.as_of,
        "source": price.source,
    }
    return {name: cell for name, cell in cells.items() if cell}


def _key(row: Cells, keys: tuple[str, ...], normalise: Normalise) -> tuple[str, ...]:
    def cell(name: str) -> str:
        if name == "capacity_type":
            return row.get(name, "on-demand")
        return normalise(row.get(name, "")) if name == "accelerator" else row.get(name, "")

    return tuple(cell(name) for name in keys)


def _told_key(row: Cells, keys: tuple[str, ...]) -> str:
    return " ".join(row[name] for name in keys if row.get(name))


def _dated(row: Cells, before: Cells | None, schema: Schema, today: str) -> Cells:
    """The row with a date, where its table has one; an unchanged one keeps the old date."""
    if "as_of" not in schema.by_name or row.get("as_of"):
        return row
    if before is not None and row == {k: v for k, v in before.items() if k != "as_of"}:
        return before
    return {**row, "as_of": today}


def _text(rows: Iterable[Cells], schema: Schema) -> str:
    """The table as CSV, in the schema's order of columns, those that nobody fills left out."""
    listed = list(rows)
    names = [name for name in schema.by_name if any(name in row for row in listed)]
    out = io.StringIO()
    writer = csv.DictWriter(out, names, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(listed)
    return out.getvalue()
