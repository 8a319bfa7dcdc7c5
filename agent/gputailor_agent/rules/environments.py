"""In which environment runs went (image, driver, card), and what of it cannot work together.

Of a run the images are those of its pods, as far as the inventory still knows them; drivers are
those that devices and nodes have now, since nobody keeps what they had before. CUDA's version is
read from the image's name or tag ("cuda12.4", "cu121") or from the variable ``CUDA_VERSION``;
many images name none, and then nothing is said about it.
"""

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from gputailor_agent.model.inventory import ContainerSpec
from gputailor_agent.model.profile import GpuUse, Profile
from gputailor_agent.profiles.describing import container_spec
from gputailor_agent.rules.base import Context
from gputailor_agent.rules.pricing import node_of, spec_of

_CUDA: Final = re.compile(r"cu(?:da)?[:_-]?(\d{2})(?=[.\d])", re.IGNORECASE)
#: Least major of the driver for a major of CUDA (NVIDIA, "CUDA Compatibility", minor versions).
LEAST_DRIVER: Final = {11: 450, 12: 525, 13: 580}
#: CUDA from this major on, and drivers above that major, leave out cards older than Turing
#: (NVIDIA, release notes of CUDA 13 and of the R580 driver).
DROPPING_CUDA: Final = 13
LAST_DRIVER: Final = 580
OLDEST_KEPT: Final = (7, 5)
#: Kind of a clash that is none for those who have the compatibility package.
OLD_DRIVER: Final = "old_driver"


@dataclass(frozen=True, slots=True)
class Environment:
    """What a run had; '' or empty where it is not known. Several are joined by commas."""

    image: str
    driver: str


def environments(profile: Profile, context: Context) -> dict[str, Environment]:
    """Return the environment of each run by its id; runs of which nothing is known are absent."""
    images: dict[str, set[str]] = defaultdict(set)
    drivers: dict[str, set[str]] = defaultdict(set)
    for use in profile.gpus:
        spec = container_of(use, context)
        if spec is not None and spec.image:
            images[use.run_id].add(spec.image)
        driver = driver_of(use, context)
        if driver:
            drivers[use.run_id].add(driver)
    return {
        run: Environment(", ".join(sorted(images[run])), ", ".join(sorted(drivers[run])))
        for run in sorted({*images, *drivers})
    }


def container_of(use: GpuUse, context: Context) -> ContainerSpec | None:
    """Return the container that used the device, if the inventory knows it."""
    pod = context.holdings.find(use.namespace, use.pod, use.pod_uid)
    return container_spec(pod, use.container)


def driver_of(use: GpuUse, context: Context) -> str:
    """Return the driver's version as it is now: by the device's source, else by the node."""
    if use.device is not None and use.device.driver_version:
        return use.device.driver_version
    node = node_of(context, use)
    return node.driver_version if node is not None else ""


def major(version: str) -> int | None:
    """First number of a version ("550.54.15": 550)."""
    head = version.partition(".")[0]
    return int(head) if head.isdigit() else None


def cuda_of(spec: ContainerSpec | None) -> int | None:
    """Major version of CUDA that the container's image or variable names."""
    if spec is None:
        return None
    named = major(spec.env.get("CUDA_VERSION", ""))
    if named is not None:
        return named
    return _cuda_of_image(spec.image)


@lru_cache(maxsize=4096)
def _cuda_of_image(image: str) -> int | None:
    found = _CUDA.search(image)
    return int(found.group(1)) if found else None


def capability_of(use: GpuUse, context: Context) -> tuple[int, int] | None:
    """Compute capability of the device: as the driver says, else as the catalogue does."""
    told = use.device.compute_capability if use.device is not None else ""
    if not told:
        spec = spec_of(context, use)
        told = spec.compute_capability if spec is not None else ""
    whole, _, part = told.partition(".")
    return (int(whole), int(part or 0)) if whole.isdigit() and (part or "0").isdigit() else None


@dataclass(frozen=True, slots=True)
class Clash:
    """Parts of one device's environment that do not go together."""

    use: GpuUse
    kind: str  # "dropped_cuda", "dropped_driver" or OLD_DRIVER
    cuda: int | None
    driver: str


def clashes(uses: Iterable[GpuUse], context: Context) -> list[Clash]:
    """Return what cannot work or works only with a compatibility package, the worst first."""
    found = []
    for use in uses:
        cuda, driver = cuda_of(container_of(use, context)), driver_of(use, context)
        capability, number = capability_of(use, context), major(driver)
        old_card = capability is not None and capability < OLDEST_KEPT
        kind = ""
        if old_card and cuda is not None and cuda >= DROPPING_CUDA:
            kind = "dropped_cuda"
        elif old_card and number is not None and number > LAST_DRIVER:
            kind = "dropped_driver"
        elif cuda is not None and number is not None and number < LEAST_DRIVER.get(cuda, 0):
            kind = OLD_DRIVER
        if kind:
            found.append(Clash(use, kind, cuda, driver))
    return sorted(found, key=lambda one: (one.kind, one.use.pod, one.use.gpu_uuid))
