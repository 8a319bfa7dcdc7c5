"""Every figure of the profiles of each world, as it is on record: ``recorded/<world>.txt``.

Beside the tests of each part: no figure of a profile may change unseen. Whoever changes profiles
runs ``python -m tests.agent.profiles.recorded`` and reads the difference before committing it.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np

from gputailor_agent.model.profile import Profile
from gputailor_agent.model.usage import Histogram
from gputailor_agent.profiles.courses import scaling, stragglers, trend, week_shape
from gputailor_agent.profiles.outlining import outline
from tests.agent.profiles.worlds import WORLDS

FOLDER: Final = Path(__file__).with_name("recorded")
#: From here on digits behind the point tell more than nine in all: times, for one.
_MANY: Final = 100_000


def flat(value: Any, path: str) -> Iterator[str]:
    """Each figure with its path; what is empty, zero or not known is left out."""
    if isinstance(value, Histogram):
        yield f"{path} = {_summed(enumerate(value.seconds))} by {_exact(value.resolution)}"
    elif isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            yield from flat(getattr(value, name), f"{path}.{name}")
    elif isinstance(value, dict):
        for name, one in sorted(value.items()):
            yield from flat(one, f"{path}[{name}]")
    elif path.endswith(".hours"):
        observed, active = ([(one[0], one[place]) for one in value] for place in (1, 2))
        yield f"{path} = {len(value)} hours, {_summed(observed)}, active {_summed(active)}"
    elif isinstance(value, tuple | list):
        for place, one in enumerate(value):
            yield from flat(one, f"{path}[{place}]")
    elif value:
        yield f"{path} = {_exact(value)}"


def _summed(parts: Iterable[tuple[int, float]]) -> str:
    """A row of numbers in two: their sum, and one that tells whether any stands elsewhere."""
    known = list(parts)
    whole = sum(one for _, one in known)
    middle = sum(place * one for place, one in known) / whole if whole else 0.0
    return f"{_exact(whole)} about {_exact(middle)}"


def _exact(value: Any) -> str:
    """Floats to a thousandth, or to nine digits: so that every machine agrees."""
    if not isinstance(value, float):
        return str(value)
    return f"{value:.3f}" if abs(value) > _MANY else f"{value:.9g}"


def courses(profile: Profile) -> Iterator[str]:
    """What is read of how use changes, and of what is kept afterwards."""
    shape = week_shape(profile)
    for place in np.flatnonzero(shape.weeks):
        mean, gpus, weeks = (part[place] for part in (shape.mean, shape.gpus, shape.weeks))
        yield f"  hour of week {place}: mean {_exact(mean)}, gpus {_exact(gpus)}, weeks {weeks}"
    yield f"  busiest hour of week {shape.busiest}"
    yield f"  trend {_of_slots(trend(profile.runs))}"
    yield f"  scaling {_of_slots(scaling(profile.runs))}"
    yield from (f"  straggler {_of_slots(one)}" for one in stragglers(profile))
    kept = outline(profile)
    yield from (f"  kept of {one.run_id}: {one.pod} {one.gpu_uuid}" for one in kept.gpus)


def _of_slots(found: Any) -> str:
    if found is None:
        return "not known"
    values = ((name, getattr(found, name)) for name in found.__slots__)
    return ", ".join(line for name, value in values for line in flat(value, name))


def told(world: str) -> list[str]:
    """All that is told of the profiles of a world."""
    lines: list[str] = []
    for profile in WORLDS[world]().profiles():
        lines += [profile.workload.id, *flat(profile, " "), *courses(profile)]
    return lines


def read(world: str) -> list[str]:
    """What is on record."""
    return (FOLDER / f"{world}.txt").read_text("utf-8").splitlines()


def main() -> None:
    """Write the record anew."""
    for world in WORLDS:
        (FOLDER / f"{world}.txt").write_text("\n".join([*told(world), ""]), "utf-8")


if __name__ == "__main__":
    main()
