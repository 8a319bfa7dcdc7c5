"""A large cluster as its API server tells it, for a measurement.

Half of the GPUs are held one by one by Deployments' pods, whose exporters name them; on the other
nodes a Job's pod holds all eight, and no exporter names anybody. A fifth of the pods are Jobs'
that ended; the rest ask for no GPU. ``python -m tests.benchmarks.large_cluster PODS NODES`` serves
it and prints the address; then each line ``CHANGES SECONDS`` of its input lets pods come, start,
run, end and go so many times in so many seconds, which ``done`` answers.
"""

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tests.agent.inventory.live.api_server import ApiServer
from tests.benchmarks.large_objects import (
    GPUS_PER_NODE,
    deployment,
    job,
    node,
    owned_by,
    pod_object,
    replica_set,
    uid,
)

_UNDER_WAY = 200  # pods that come and go at once


class Shape:
    """How many pods there are of each kind, and what each is called."""

    def __init__(self, pods: int, nodes: int) -> None:
        self.pods, self.nodes = pods, nodes
        self.gpus = nodes * GPUS_PER_NODE
        self.serving = nodes // 2 * GPUS_PER_NODE
        self.training = nodes - nodes // 2
        self.ended = pods // 5
        self.asking = self.serving + self.training + self.ended
        if pods // 2 < self.serving + self.training:
            raise ValueError(f"{pods} pods are too few for {self.gpus} GPUs")

    def node_of(self, place: int) -> int:
        if place < self.serving:
            return place // GPUS_PER_NODE
        if place < self.serving + self.training:
            return self.nodes // 2 + place - self.serving
        return place % self.nodes


def service(place: int) -> str:
    """Five pods in a row are of one Deployment."""
    return f"svc-{place // 5}"


def pod(place: int, shape: Shape) -> dict[str, Any]:
    """One of the pods that are there from the beginning."""
    running = place < shape.serving + shape.training
    serves, ended = place < shape.serving, not running and place < shape.asking
    if serves:
        name, gpus = f"{service(place)}-6f9c{place % 5}-x7k2p", 1
        owner = owned_by("ReplicaSet", f"{service(place)}-6f9c", uid(place // 5, 2))
    elif running or ended:
        name, gpus = f"job-{place}-x7k2p", GPUS_PER_NODE if running else 1
        owner = owned_by("Job", f"job-{place}", uid(place, 4))
    else:
        name, gpus = f"web-{place}-x7k2p", 0
        owner = owned_by("ReplicaSet", f"web-{place // 5}-6f9c", uid(place // 5, 5))
    phase, where = "Succeeded" if ended else "Running", shape.node_of(place)
    return pod_object(name, place, node=where, gpus=gpus, owner=owner, phase=phase)


class Made(Sequence[bytes]):
    """Objects as they are sent, each made when it is asked for."""

    def __init__(self, places: Sequence[int], make: Callable[[int], dict[str, Any]]) -> None:
        self._places, self._make = places, make

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return [json.dumps(self._make(one)).encode() for one in self._places[place]]
        return json.dumps(self._make(self._places[place])).encode()


class LargeCluster(ApiServer):
    """The API server of a shape. What comes later is held as objects, the rest is made."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        jobs = range(shape.serving, shape.asking)
        services = range(shape.serving // 5)
        self._made: dict[str, tuple[Sequence[int], Callable[[int], dict[str, Any]]]] = {
            "pods": (range(shape.pods), lambda place: pod(place, shape)),
            "nodes": (range(shape.nodes), node),
            "jobs": (jobs, job),
            "replicasets": (services, replica_set),
            "deployments": (services, deployment),
        }

    def texts(self, version: str, plural: str, namespace: str) -> Any:
        """As the real one does it for a list: what is there from the beginning."""
        places, make = self._made.get(plural, ((), node))
        if namespace:
            here = [one for one in places if make(one)["metadata"]["namespace"] == namespace]
            return [*Made(here, make), *super().texts(version, plural, namespace)]
        return Made(places, make)

    def change(self, changes: int, seconds: float) -> None:
        """Let pods come and go at an even pace."""
        began, told = time.monotonic(), 0
        for what, one in waves(changes, self.shape):
            told += one["kind"] == "Pod"
            time.sleep(max(0.0, began + seconds * told / changes - time.monotonic()))
            if what == "delete":
                self.delete(one)
            else:
                self.put(one)

    def put(self, *objects: dict[str, Any]) -> None:
        """Create or change objects; old events are dropped, since every watch has them."""
        super().put(*objects)
        with self._changed:
            self._events = self._events[-1000:]


def waves(changes: int, shape: Shape) -> Iterator[tuple[str, dict[str, Any]]]:
    """Changes of pods, two in five with a GPU and a Job of their own; their Jobs come uncounted."""
    under_way: list[tuple[int, Iterator[tuple[str, dict[str, Any]]]]] = []
    place, told = shape.pods, 0
    while told < changes:
        if len(under_way) < _UNDER_WAY:
            gpus = 1 if place % 5 < 2 else 0
            if gpus:
                yield "put", job(place)
            under_way.append((place, life(place, gpus, place % shape.nodes)))
            place += 1
        number, steps = under_way.pop(0)
        step = next(steps, None)
        if step is not None:
            told += 1
            yield step
            under_way.append((number, steps))


def life(place: int, gpus: int, where: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """A pod from its making to its deletion, in five changes."""
    name, owner = f"job-{place}-x7k2p", owned_by("Job", f"job-{place}", uid(place, 4))
    for on, phase in (
        (None, "Pending"),
        (where, "Pending"),
        (where, "Running"),
        (where, "Succeeded"),
    ):
        made = pod_object(name, place, node=on, gpus=gpus, owner=owner, phase=phase)
        yield "put", made
    yield "delete", made


def main(pods: int, nodes: int) -> None:
    server = LargeCluster(Shape(pods, nodes))
    sys.stdout.write(f"{server.url}\n")
    sys.stdout.flush()
    for line in sys.stdin:
        changes, seconds = line.split()
        server.change(int(changes), float(seconds))
        sys.stdout.write("done\n")
        sys.stdout.flush()
    server.stop()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
