"""Kubelet's answer, over real gRPC, becomes allocations."""

import shutil
import socket
import struct
import tempfile
import threading
import time
from pathlib import Path

import grpc
import h2.config
import h2.connection
import h2.events
import pytest

from gputailor_exporter.attribution.allocations import Allocation, AllocationError, ContainerRef
from gputailor_exporter.devices.base import DeviceIdentity
from gputailor_exporter.kubelet.driver_files import DriverFiles
from gputailor_exporter.metrics import Sharing
from gputailor_exporter.pods import PodResources
from tests.fakes.kubelet import Claim, Container, Kubelet, Pod

UUID = "GPU-11111111-2222-3333-4444-555555555555"
OTHER = "GPU-99999999-2222-3333-4444-555555555555"
MIG = "MIG-aaaaaaaa-2222-3333-4444-555555555555"
MIG2 = "MIG-bbbbbbbb-2222-3333-4444-555555555555"
DEVICES = (
    DeviceIdentity(index="0", uuid=UUID),
    DeviceIdentity(index="1", uuid=OTHER, mig_enabled=True),
    DeviceIdentity(
        index="1",
        uuid=MIG,
        parent_uuid=OTHER,
        mig_profile="1g.10gb",
        gpu_instance_id=7,
        compute_instance_id=0,
    ),
    DeviceIdentity(
        index="1",
        uuid=MIG2,
        parent_uuid=OTHER,
        mig_profile="3g.40gb",
        gpu_instance_id=2,
        compute_instance_id=0,
    ),
)
GPU = "nvidia.com/gpu"


@pytest.fixture
def folder():
    """A short path: unix sockets allow about 100 characters."""
    path = Path(tempfile.mkdtemp(prefix="kubelet"))
    yield path
    shutil.rmtree(path)


@pytest.fixture
def kubelet(folder):
    with Kubelet(folder / "k.sock") as server:
        yield server


@pytest.fixture
def source(kubelet):
    return asking(kubelet)


def asking(kubelet, **more):
    """A reader whose driver tells no more than the ids do."""
    nowhere = DriverFiles(Path(kubelet.path).parent, Path(kubelet.path).parent)
    return PodResources(kubelet.path, 2.0, files=nowhere, **more)


def holding(resource, *ids, container="main", pod="train-0"):
    return Pod("team", pod, [Container(container, {resource: ids})])


def ref(pod="train-0", container="main"):
    return ContainerRef("team", pod, container)


def test_an_empty_node_has_no_allocations(source):
    assert source.allocations(DEVICES, 0.0) == ()


def test_a_whole_gpu_is_held_exclusively(kubelet, source):
    kubelet.pods = [holding(GPU, UUID), Pod("team", "web", [Container("nginx")])]
    assert source.allocations(DEVICES, 0.0) == (Allocation(ref(), UUID),)
    assert kubelet.calls == ["List"]


@pytest.mark.parametrize(
    ("resource", "device_id", "uuid"),
    [
        ("nvidia.com/mig-1g.10gb", MIG, MIG),
        (GPU, f"MIG-{OTHER}/7/0", MIG),
        (GPU, "nvidia1/gi2", MIG2),
        (GPU, MIG.upper().replace("MIG", "MIG"), MIG),
    ],
)
def test_a_mig_instance_is_found_by_each_form_of_its_id(kubelet, source, resource, device_id, uuid):
    kubelet.pods = [holding(resource, device_id)]
    assert source.allocations(DEVICES, 0.0) == (Allocation(ref(), uuid, Sharing.MIG),)


def test_gke_names_a_whole_gpu_by_its_number(kubelet, source):
    kubelet.pods = [holding(GPU, "nvidia0")]
    assert source.allocations(DEVICES, 0.0) == (Allocation(ref(), UUID),)


def test_two_pods_that_share_a_gpu_both_have_their_share_of_all_replicas(kubelet, source):
    kubelet.pods = [
        holding(f"{GPU}.shared", f"{UUID}::0", f"{UUID}::3", pod="a"),
        holding(f"{GPU}.shared", f"{UUID}::1", pod="b"),
    ]
    kubelet.allocatable = {f"{GPU}.shared": [f"{UUID}::{n}" for n in range(8)]}
    assert set(source.allocations(DEVICES, 0.0)) == {
        Allocation(ref("a"), UUID, Sharing.TIME_SLICING, 2 / 8),
        Allocation(ref("b"), UUID, Sharing.TIME_SLICING, 1 / 8),
    }


def test_an_old_kubelet_leaves_the_replicas_seen_as_the_denominator(kubelet, source):
    kubelet.pods = [holding(GPU, f"{UUID}::0", pod="a"), holding(GPU, f"{UUID}::1", pod="b")]
    kubelet.allocatable = None
    assert [one.share for one in source.allocations(DEVICES, 0.0)] == [0.5, 0.5]


def test_the_way_of_sharing_can_be_stated(kubelet):
    kubelet.pods = [holding(GPU, f"{UUID}::0")]
    source = PodResources(kubelet.path, sharing=Sharing.MPS)
    assert source.allocations(DEVICES, 0.0)[0].sharing is Sharing.MPS


def test_replicas_under_a_name_nobody_knows_are_shared_in_an_unknown_way(kubelet, source):
    kubelet.pods = [holding("example.com/slice", f"{UUID}::0")]
    assert source.allocations(DEVICES, 0.0)[0].sharing is Sharing.SHARED


@pytest.mark.parametrize(
    ("device_id", "uuid"), [("nvidia0/vgpu1", UUID), ("nvidia1/gi7/vgpu1", MIG)]
)
def test_gke_time_sharing_counts_its_virtual_gpus(kubelet, source, device_id, uuid):
    kubelet.pods = [holding(GPU, device_id)]
    stem = device_id[:-1]
    kubelet.allocatable = {GPU: [f"{stem}{n}" for n in range(4)]}
    assert source.allocations(DEVICES, 0.0) == (
        Allocation(ref(), uuid, Sharing.TIME_SLICING, 0.25),
    )


def test_an_id_of_no_present_device_is_counted_not_dropped(kubelet, source):
    claim = Container("main", claims=[Claim("gpu-9")])
    kubelet.pods = [holding(GPU, "GPU-gone"), Pod("team", "c", [claim])]
    assert source.allocations(DEVICES, 0.0) == ()
    source.allocations(DEVICES, 1.0)
    assert source.unmatched == {GPU: 2, "gpu.nvidia.com": 2}


def test_devices_that_are_no_gpus_are_none_of_our_business(kubelet, source):
    kubelet.pods = [holding("rdma/hca", "mlx5_0")]
    assert source.allocations(DEVICES, 0.0) == ()
    assert not source.unmatched


def test_a_resource_of_any_name_counts_when_its_id_is_a_device_of_this_node(kubelet, source):
    kubelet.pods = [holding("example.com/big-gpu", UUID)]
    assert source.allocations(DEVICES, 0.0) == (Allocation(ref(), UUID),)


def test_the_pod_uid_comes_from_whoever_knows_it(kubelet):
    kubelet.pods = [holding(GPU, UUID)]
    source = PodResources(kubelet.path, pod_uid=lambda namespace, pod: f"{namespace}/{pod}")
    assert source.allocations(DEVICES, 0.0)[0].holder.pod_uid == "team/train-0"


def test_an_answer_beyond_every_flow_control_window_arrives_whole(kubelet, source):
    kubelet.pods = [
        Pod("team", f"pod-{n}", [Container("c" * 200, {"rdma/hca": ["x" * 400]})])
        for n in range(6000)
    ] + [holding(GPU, UUID)]
    assert source.allocations(DEVICES, 0.0) == (Allocation(ref(), UUID),)


def reason_of(source):
    with pytest.raises(AllocationError) as caught:
        source.allocations(DEVICES, 0.0)
    return caught.value.reason


def test_a_missing_socket_is_named(folder):
    assert reason_of(PodResources(str(folder / "none.sock"))) == "socket_missing"


def test_a_socket_without_a_server_refuses(folder):
    path = str(folder / "dead.sock")
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(path)
    assert reason_of(PodResources(path)) == "refused"


def test_a_slow_kubelet_times_out_in_time(kubelet):
    kubelet.delay_seconds = 1.5
    began = time.monotonic()
    assert reason_of(PodResources(kubelet.path, 0.2)) == "timeout"
    assert time.monotonic() - began < 1.0


def test_a_deadline_that_kubelet_itself_keeps_is_a_timeout_too(kubelet, source):
    kubelet.status = grpc.StatusCode.DEADLINE_EXCEEDED
    assert reason_of(source) == "timeout"


def test_a_grpc_error_without_a_body_tells_its_status(kubelet, source):
    kubelet.status = grpc.StatusCode.RESOURCE_EXHAUSTED
    with pytest.raises(AllocationError, match="the test said: 100 % no") as caught:
        source.allocations(DEVICES, 0.0)
    assert caught.value.reason == "grpc_status_8"


def test_half_a_message_is_a_bad_answer(kubelet, source):
    kubelet.pods = [holding(GPU, UUID)]
    kubelet.half = True
    assert reason_of(source) == "bad_answer"


def test_a_restarted_kubelet_answers_again(kubelet, source):
    kubelet.pods = [holding(GPU, UUID)]
    assert source.allocations(DEVICES, 0.0)
    kubelet.stop()
    assert reason_of(source) in {"socket_missing", "refused"}
    kubelet.start()
    assert source.allocations(DEVICES, 0.0)


def serve_once(path, answer):
    """One connection on a plain socket, answered by ``answer(connection)``."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen(1)

    def serve():
        with listener:
            connection, _ = listener.accept()
            with connection:
                answer(connection)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    return thread


def h2_server(connection, respond):
    """A server side of h2 that waits for the whole request, then lets ``respond`` act."""
    wire = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
    wire.initiate_connection()
    connection.sendall(wire.data_to_send())
    while True:
        for event in wire.receive_data(connection.recv(65536)):
            if isinstance(event, h2.events.StreamEnded):
                respond(wire, event.stream_id)
                connection.sendall(wire.data_to_send())
                return


def message(payload=b""):
    return struct.pack(">BI", 0, len(payload)) + payload


def answered(wire, stream, body, trailers):
    wire.send_headers(stream, [(":status", "200"), ("content-type", "application/grpc")])
    wire.send_data(stream, body)
    wire.send_headers(stream, trailers, end_stream=True)


def goaway_refusing(wire, stream):
    wire.close_connection(last_stream_id=0)


def goaway_after_answer(wire, stream):
    answered(wire, stream, message(), [("grpc-status", "0")])
    wire.close_connection(last_stream_id=stream)


def reset(wire, stream):
    wire.reset_stream(stream, 7)


def http_error(wire, stream):
    wire.send_headers(stream, [(":status", "503")], end_stream=True)


def no_body(wire, stream):
    answered(wire, stream, b"", [("grpc-status", "0")])


def compressed(wire, stream):
    answered(wire, stream, struct.pack(">BI", 1, 0), [("grpc-status", "0")])


def endless(wire, stream):
    answered(wire, stream, struct.pack(">BI", 0, 99), [("grpc-status", "0")])


@pytest.mark.parametrize(
    ("respond", "reason"),
    [
        (goaway_refusing, "refused"),
        (reset, "refused"),
        (http_error, "bad_answer"),
        (no_body, "bad_answer"),
        (compressed, "bad_answer"),
        (endless, "bad_answer"),
    ],
)
def test_what_is_no_answer_has_a_reason(folder, respond, reason):
    path = folder / "raw.sock"
    thread = serve_once(path, lambda connection: h2_server(connection, respond))
    assert reason_of(PodResources(str(path), 2.0)) == reason
    thread.join(5)


def test_a_goaway_after_the_answer_does_no_harm(folder):
    path = folder / "raw.sock"
    thread = serve_once(path, lambda connection: h2_server(connection, goaway_after_answer))
    assert PodResources(str(path), 2.0).allocations(DEVICES, 0.0) == ()
    thread.join(5)


@pytest.mark.parametrize("greeting", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b""])
def test_a_server_that_speaks_something_else_is_a_bad_answer(folder, greeting):
    path = folder / "raw.sock"

    def answer(connection):
        connection.recv(65536)
        connection.sendall(greeting)

    thread = serve_once(path, answer)
    assert reason_of(PodResources(str(path), 2.0)) == "bad_answer"
    thread.join(5)
