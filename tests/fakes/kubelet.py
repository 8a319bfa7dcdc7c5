"""Kubelet's PodResources service on a unix socket: a real grpcio server with a table of ours.

    with Kubelet(tmp_path / "kubelet.sock") as kubelet:
        kubelet.pods = [Pod("team", "train-0", [Container("main", {"nvidia.com/gpu": ["GPU-…"]})])]

What it answers can change while it runs: ``delay_seconds`` (slow), ``status`` (a gRPC error),
``half`` (a message cut in two), ``allocatable`` (None: the method is not there).
"""

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import grpc

from gputailor_exporter.kubelet import podresources_pb2 as v1

SERVICE = "v1.PodResourcesLister"
MAX_BYTES = 64 * 2**20


@dataclass(frozen=True)
class Claim:
    """A DRA claim's device."""

    device: str
    driver: str = "gpu.nvidia.com"
    cdi: tuple[str, ...] = ()
    name: str = "claim"


@dataclass(frozen=True)
class Container:
    """A container and the device ids it was given, by resource."""

    name: str
    devices: Mapping[str, Sequence[str]] = field(default_factory=dict)
    claims: Sequence[Claim] = ()


@dataclass(frozen=True)
class Pod:
    """A pod with its containers."""

    namespace: str
    name: str
    containers: Sequence[Container] = ()


class Kubelet:
    """The server; use as a context manager, or ``start`` and ``stop`` it (a restart)."""

    def __init__(self, path: Path | str, pods: Sequence[Pod] = ()) -> None:
        self.path = str(path)
        self.pods: Sequence[Pod] = pods
        self.allocatable: Mapping[str, Sequence[str]] | None = {}
        self.delay_seconds = 0.0
        self.status: grpc.StatusCode | None = None
        self.half = False
        self.calls: list[str] = []
        self._server: Any = None
        self._pool: ThreadPoolExecutor | None = None

    def start(self) -> None:
        self._pool = ThreadPoolExecutor(4)
        self._server = grpc.server(
            self._pool, options=[("grpc.max_send_message_length", MAX_BYTES)]
        )
        handlers = {
            "List": self._handler(self._list),
            "GetAllocatableResources": self._handler(self._get_allocatable),
        }
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(SERVICE, handlers),)
        )
        self._server.add_insecure_port(f"unix:{self.path}")
        self._server.start()

    def stop(self) -> None:
        if self._server is not None:
            self._server.stop(0).wait(5)
            self._server = None
        if self._pool is not None:
            self._pool.shutdown(wait=True)
            self._pool = None
        Path(self.path).unlink(missing_ok=True)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _handler(self, answer: Callable[[Any], bytes]) -> Any:
        def handle(request: bytes, context: Any) -> bytes:
            if self.delay_seconds:
                time.sleep(self.delay_seconds)
            if self.status is not None:
                context.abort(self.status, "the test said: 100 % no")
            message = answer(context)
            return message[: len(message) // 2] if self.half else message

        return grpc.unary_unary_rpc_method_handler(handle)

    def _list(self, _context: Any) -> bytes:
        self.calls.append("List")
        answer = v1.ListPodResourcesResponse(pod_resources=[_pod(pod) for pod in self.pods])
        return answer.SerializeToString()

    def _get_allocatable(self, context: Any) -> bytes:
        self.calls.append("GetAllocatableResources")
        if self.allocatable is None:
            context.abort(grpc.StatusCode.UNIMPLEMENTED, "an old kubelet")
        devices = [
            v1.ContainerDevices(resource_name=resource, device_ids=ids)
            for resource, ids in (self.allocatable or {}).items()
        ]
        return v1.AllocatableResourcesResponse(devices=devices).SerializeToString()


def _pod(pod: Pod) -> v1.PodResources:
    containers = [
        v1.ContainerResources(
            name=container.name,
            devices=[
                v1.ContainerDevices(resource_name=resource, device_ids=ids)
                for resource, ids in container.devices.items()
            ],
            dynamic_resources=[
                v1.DynamicResource(
                    claim_name=claim.name,
                    claim_namespace=pod.namespace,
                    claim_resources=[
                        v1.ClaimResource(
                            cdi_devices=[v1.CDIDevice(name=name) for name in claim.cdi],
                            driver_name=claim.driver,
                            pool_name="node",
                            device_name=claim.device,
                        )
                    ],
                )
                for claim in container.claims
            ],
        )
        for container in pod.containers
    ]
    return v1.PodResources(name=pod.name, namespace=pod.namespace, containers=containers)
