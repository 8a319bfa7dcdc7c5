"""What the columns of a log without headers mean, by the patterns of all their values.

Nothing is certain here, so each decision is a note. Units in the cells decide first; then times,
UUIDs, bus ids and names by their form; whole numbers up to 100 are indices, temperature or
utilisation, larger ones memory in MiB, numbers with two decimals power. Where two readings are
equally likely the column is left unknown.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from gputailor_agent.sources.logs.cells import Kind
from gputailor_agent.sources.logs.meaning import Meaning, indices_of, text_role, texts_of
from gputailor_agent.sources.logs.names import Role
from gputailor_agent.sources.logs.table import Column, Table

_PERCENT: Final = 100.0
_WARM: Final = (20.0, 105.0)  # degrees of a card that runs
_SMOOTH: Final = 3.0  # degrees that a card changes by from poll to poll, as a rule
_POWER_STATE: Final = 3  # letters of "P0" to "P15", which are no names of devices
_MOST_MIB: Final = 4_194_304  # 4 TiB; what is above stands in bytes

_UNIT_ROLES: Final[dict[str, tuple[Role, ...]]] = {
    "%": (Role.KERNEL, Role.MEMCOPY),
    "w": (Role.POWER, Role.POWER_LIMIT),
    "c": (Role.TEMPERATURE,),
}
_MEMORY_UNITS: Final = frozenset({"mib", "mb", "gib", "gb", "kib", "bytes"})


def time_columns(table: Table) -> list[int]:
    """Columns that hold times; of several the finest comes last. Empty: there is none."""
    timed = [n for n, column in enumerate(table.columns) if _mostly_time(column)]
    fine = [n for n in timed if any(value % 1 for value in table.columns[n].numbers)]
    if timed:
        return [(fine or timed)[-1]]
    epochs = [n for n, column in enumerate(table.columns) if _is_epoch(column)]
    return epochs[:1]


def _mostly_time(column: Column) -> bool:
    return column.kinds.count(Kind.TIME) * 2 > len(column.kinds)


def _is_epoch(column: Column) -> bool:
    values = list(column.values())
    return bool(values) and min(values) > 1e9 and all(b >= a for a, b in pairwise(values))  # noqa: PLR2004 - Unix seconds since 2001


def by_values(table: Table, times: list[int], poll: int) -> Meaning:
    """Meaning of a section without headers; ``poll`` is the number of rows of one time."""
    meaning = Meaning(times=times)
    sizes: list[int] = []
    for number, column in enumerate(table.columns):
        if number in times or _mostly_time(column):
            continue
        if column.only(Kind.TEXT):
            _put_text(meaning, number, table)
        elif column.only(Kind.NUMBER):
            _put_number(meaning, number, table, poll, sizes)
    _put_memory(meaning, sizes, table)
    found = [f"column {n + 1}: {role}" for role, n in meaning.ids]
    found += [f"column {n + 1}: {role}" for role, n in meaning.values.items()]
    if meaning.name is not None:
        found.append(f"column {meaning.name + 1}: name")
    table.notes.append(
        "There is no header: columns were told by the patterns of their values, an assumption ("
        + ("; ".join(sorted(found)) or "none was recognised")
        + ")."
    )
    return meaning


def _put_text(meaning: Meaning, number: int, table: Table) -> None:
    texts = texts_of(table.columns[number], table)
    role = text_role(texts)
    if role is not Role.NAME:
        meaning.ids.append((role, number))
    elif meaning.name is None and max(map(len, texts)) > _POWER_STATE:
        meaning.name = number


def _put_number(meaning: Meaning, number: int, table: Table, poll: int, sizes: list[int]) -> None:
    column = table.columns[number]
    units = {table.cells.unit_of(kind) for kind in set(column.kinds) if kind >= Kind.NUMBER}
    unit = next(iter(units - {""}), "")
    if unit in _MEMORY_UNITS:
        sizes.append(number)
        return
    if unit:
        for role in _UNIT_ROLES.get(unit, ()):
            if role not in meaning.values:
                meaning.put(role, number, unit)
                return
        return
    values = list(column.values())
    if any(value % 1 for value in values):
        if Role.POWER not in meaning.values:
            meaning.put(Role.POWER, number, "w")
    elif max(values) > _PERCENT:
        sizes.append(number)
    elif _is_index(column, poll):
        meaning.ids.append((Role.INDEX, number))
    elif _is_temperature(values, poll):
        meaning.put(Role.TEMPERATURE, number, "c")
    elif min(values) == max(values) and poll == 1 and not meaning.ids:
        table.notes.append(
            f"Column {number + 1} is always {values[0]:g}: an index or a utilisation, not read."
        )
    else:
        _put_utilisation(meaning, number, table, values)


def _put_utilisation(meaning: Meaning, number: int, table: Table, values: list[float]) -> None:
    role = Role.KERNEL if Role.KERNEL not in meaning.values else Role.MEMCOPY
    if role in meaning.values or min(values) < 0:
        return
    meaning.put(role, number, "%")
    if max(values) == min(values):
        table.notes.append(
            f"Column {number + 1} is always {values[0]:g}; it does not tell devices apart, so it "
            f"was taken as {role}."
        )


def _is_index(column: Column, poll: int) -> bool:
    """Indices 0..n-1 that every poll shows in full."""
    indices = indices_of(column)
    if indices is None or poll == 1 or indices != set(range(poll)):
        return False
    return len(set(column.numbers[:poll])) == poll


def _is_temperature(values: Sequence[float], poll: int) -> bool:
    if not _WARM[0] <= min(values) <= max(values) <= _WARM[1]:
        return False
    steps = sorted(abs(b - a) for a, b in zip(values, values[poll:], strict=False))
    return bool(steps) and steps[int(len(steps) * 0.9)] <= _SMOOTH


def _put_memory(meaning: Meaning, sizes: list[int], table: Table) -> None:
    """Memory columns: the constant largest is the total, the first other one is what is used."""
    if not sizes:
        return
    tops = {n: max(table.columns[n].values()) for n in sizes}
    bottoms = {n: min(table.columns[n].values()) for n in sizes}
    largest = max(sizes, key=lambda n: tops[n])
    units = {n: "bytes" if tops[n] > _MOST_MIB else "" for n in sizes}
    if len(sizes) > 1 and tops[largest] == bottoms[largest]:
        meaning.put(Role.MEMORY_TOTAL, largest, units[largest])
        sizes = [n for n in sizes if n != largest]
    meaning.put(Role.MEMORY_USED, sizes[0], units[sizes[0]])
    if len(sizes) > 1:
        meaning.put(Role.MEMORY_FREE, sizes[1], units[sizes[1]])
