"""What the columns of a section mean, decided on headers and on all values together."""

import re
from dataclasses import dataclass, field
from typing import Final

from gputailor_agent.sources.logs.cells import Kind
from gputailor_agent.sources.logs.names import Header, Role
from gputailor_agent.sources.logs.table import Column, Table

_UUID: Final = re.compile(r"(GPU|MIG)-[0-9a-fA-F-]{8,}(/\d+/\d+)?")
_BUS: Final = re.compile(r"([0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-9a-fA-F]")
_MOST_INDICES: Final = 128
#: Columns that can tell devices apart, the surest first.
ID_ROLES: Final = (Role.UUID, Role.BUS, Role.INDEX, Role.GPU)
VALUE_ROLES: Final = (
    Role.KERNEL,
    Role.MEMCOPY,
    Role.ENCODER,
    Role.DECODER,
    Role.MEMORY_USED,
    Role.MEMORY_TOTAL,
    Role.MEMORY_FREE,
    Role.POWER,
    Role.POWER_LIMIT,
    Role.TEMPERATURE,
)


@dataclass
class Meaning:
    """Column numbers by role; ``units`` of value columns whose cells carry none."""

    times: list[int] = field(default_factory=list)  # the first is used; two: date and clock
    ids: list[tuple[Role, int]] = field(default_factory=list)
    name: int | None = None
    values: dict[Role, int] = field(default_factory=dict)
    units: dict[Role, str] = field(default_factory=dict)
    exact: set[Role] = field(default_factory=set)

    def put(self, role: Role, column: int, unit: str = "", *, exact: bool = False) -> None:
        """Give a value column its role unless another has it; nvidia-smi's own name wins."""
        if role in self.values and (role in self.exact or not exact):
            return
        self.values[role] = column
        self.units[role] = unit
        if exact:
            self.exact.add(role)


def text_role(texts: set[str]) -> Role:
    """Role of a column of texts: a UUID, a bus id, or a name."""
    if all(_UUID.fullmatch(text) for text in texts):
        return Role.UUID
    return Role.BUS if all(_BUS.fullmatch(text) for text in texts) else Role.NAME


def texts_of(column: Column, table: Table) -> set[str]:
    """Different texts of a column."""
    numbers = {
        int(number)
        for kind, number in zip(column.kinds, column.numbers, strict=True)
        if kind == Kind.TEXT
    }
    return {table.cells.texts[number] for number in numbers}


def indices_of(column: Column) -> set[int] | None:
    """Its values when they can be indices 0..n-1; None otherwise."""
    found: set[int] = set()
    for value in column.values():
        if value != int(value) or not 0 <= value < _MOST_INDICES:
            return None
        found.add(int(value))
    return found or None


def by_headers(table: Table, headers: tuple[Header, ...]) -> Meaning:
    """Meaning of a section that has headers."""
    meaning = Meaning()
    for number, header in enumerate(headers):
        column, role = table.columns[number], header.role
        if role in {Role.TIME, Role.DATE}:
            meaning.times.append(number)
        elif role is Role.GPU:
            _put_gpu(meaning, number, table)
        elif role in ID_ROLES and role is not None:
            meaning.ids.append((role, number))
        elif role is Role.NAME and column.only(Kind.TEXT):
            meaning.name = number
        elif role in VALUE_ROLES and role is not None:
            meaning.put(role, number, header.unit, exact=header.exact)
    meaning.times = _best_times(meaning.times, table)
    _drop_disguised_share(meaning, table)
    return meaning


def _put_gpu(meaning: Meaning, number: int, table: Table) -> None:
    """A column that is only called ``gpu``: name, identity, or how busy it was."""
    column = table.columns[number]
    if column.only(Kind.TEXT):
        role = text_role(texts_of(column, table))
        if role is Role.NAME:
            meaning.name = number
        else:
            meaning.ids.append((role, number))
        return
    indices = indices_of(column)
    counted = indices is not None and indices == set(range(len(indices)))
    if any(table.cells.unit_of(kind) == "%" for kind in set(column.kinds) if kind >= Kind.NUMBER):
        meaning.put(Role.KERNEL, number, "%")
    elif counted:
        meaning.ids.append((Role.GPU, number))
    else:
        meaning.put(Role.KERNEL, number)
        table.notes.append("The column 'gpu' was taken as utilization: its values are no indices.")


def _best_times(candidates: list[int], table: Table) -> list[int]:
    """The time column to use: whole times before parts, finer before coarser, later before."""
    kinds = {number: _time_kind(table.columns[number]) for number in candidates}
    whole = [number for number in candidates if kinds[number] is Kind.TIME]
    if whole:
        fine = [n for n in whole if any(value % 1 for value in table.columns[n].numbers)]
        return [(fine or whole)[-1]]
    dates = [n for n in candidates if kinds[n] is Kind.DATE]
    clocks = [n for n in candidates if kinds[n] is Kind.CLOCK]
    numbers = [n for n in candidates if kinds[n] is Kind.NUMBER]
    if clocks:
        return [*(dates or numbers)[:1], clocks[0]]
    return numbers[:1]


def _time_kind(column: Column) -> Kind | None:
    counts = {kind: column.kinds.count(kind) for kind in (Kind.TIME, Kind.DATE, Kind.CLOCK)}
    counts[Kind.NUMBER] = sum(kind >= Kind.NUMBER for kind in column.kinds)
    kind = max(counts, key=lambda kind: counts[kind])
    return kind if counts[kind] else None


def _drop_disguised_share(meaning: Meaning, table: Table) -> None:
    """A home-made "memory utilisation" that is used/total is a size, not the bandwidth's use."""
    wanted = (Role.MEMCOPY, Role.MEMORY_USED, Role.MEMORY_TOTAL)
    if Role.MEMCOPY in meaning.exact or any(role not in meaning.values for role in wanted):
        return
    share, used, total = (table.columns[meaning.values[role]] for role in wanted)
    rows = same = 0
    for row, kind in enumerate(share.kinds):
        if kind >= Kind.NUMBER and total.numbers[row] > 0:
            rows += 1
            same += abs(share.numbers[row] - 100 * used.numbers[row] / total.numbers[row]) <= 1
    if rows and same >= rows * 0.95:
        del meaning.values[Role.MEMCOPY]
        table.notes.append(
            "The memory utilisation column is memory used / total, which is a size: "
            "how busy the memory was is not known."
        )
