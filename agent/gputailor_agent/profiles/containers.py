"""What a workload's containers did themselves, summed over them, whatever devices they hold."""

from collections import defaultdict
from collections.abc import Iterable
from functools import cache

from gputailor_agent.dialects.engines import engines
from gputailor_agent.model.containers import EngineUse, HostUse
from gputailor_agent.model.sums import UseSums, add_amounts


def container_use(
    containers: Iterable[UseSums],
) -> tuple[HostUse | None, EngineUse | None]:
    """Return what the containers used of their nodes, and what their engines say; any order.

    None for what nobody told of any of them.
    """
    sources: set[str] = set()
    counted: dict[str, float] = {}
    amounts: dict[str, float] = {}
    peaks: dict[str, list[float]] = defaultdict(list)
    for one in containers:
        sources |= one.dialects
        add_amounts(counted, one.counted)
        add_amounts(amounts, one.amounts)
        for name, peak in one.peaks.items():
            peaks[name].append(peak)
    highest = {name: max(all_of_them) for name, all_of_them in peaks.items()}
    known = _engines()
    return (
        HostUse.of(sources - known, counted, amounts, highest),
        EngineUse.of(sources & known, amounts, highest),
    )


@cache
def _engines() -> frozenset[str]:
    return frozenset(engine.name for engine in engines())
