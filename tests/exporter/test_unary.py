"""A line to kubelet is kept from call to call, and no restart is felt."""

import socket

import pytest

from gputailor_exporter.attribution.allocations import AllocationError
from gputailor_exporter.kubelet import podresources_pb2 as v1
from gputailor_exporter.kubelet import unary
from gputailor_exporter.kubelet.unary import Line
from tests.fakes.kubelet import Container, Kubelet, Pod

LIST = "/v1.PodResourcesLister/List"


@pytest.fixture
def kubelet(tmp_path):
    with Kubelet(tmp_path / "k.sock", [Pod("team", "a", [Container("main")])]) as made:
        yield made


@pytest.fixture
def line(kubelet):
    made = Line(kubelet.path, 5.0)
    yield made
    made.close()


def pods(line):
    answer = v1.ListPodResourcesResponse()
    answer.ParseFromString(line.call(LIST, b""))
    return [pod.name for pod in answer.pod_resources]


def test_calls_share_a_line_until_it_has_made_enough(line, monkeypatch):
    monkeypatch.setattr(unary, "MOST_CALLS", 3)
    wires = []
    for _ in range(6):
        assert pods(line) == ["a"]
        wires.append(line._wire)
    assert wires[0] is wires[1] is not None
    assert wires[2] is None
    assert wires[3] is wires[4] is not wires[0]


def test_each_answer_on_a_line_is_the_present_one(kubelet, line):
    assert pods(line) == ["a"]
    kubelet.pods = [Pod("team", "b"), Pod("team", "c")]
    assert pods(line) == ["b", "c"]
    kubelet.pods = []
    assert pods(line) == []


def test_a_restart_of_kubelet_between_two_calls_is_not_felt(kubelet, line):
    assert pods(line) == ["a"]
    kubelet.stop()
    kubelet.start()
    assert pods(line) == ["a"]


def test_a_kubelet_that_went_away_is_named_and_found_again(kubelet, line):
    assert pods(line) == ["a"]
    kubelet.stop()
    with pytest.raises(AllocationError) as gone:
        pods(line)
    assert gone.value.reason == unary.SOCKET_MISSING
    kubelet.start()
    assert pods(line) == ["a"]


def test_a_refused_method_leaves_the_line_as_it_is(kubelet, line):
    kubelet.allocatable = None
    pods(line)
    wire = line._wire
    with pytest.raises(AllocationError) as refused:
        line.call("/v1.PodResourcesLister/GetAllocatableResources", b"")
    assert refused.value.reason == "grpc_status_12"
    assert pods(line) == ["a"]
    assert line._wire is wire


def test_a_call_that_took_too_long_is_not_made_twice(kubelet):
    line = Line(kubelet.path, 0.3)
    pods(line)
    kubelet.calls.clear()
    kubelet.delay_seconds = 1.0
    with pytest.raises(AllocationError) as late:
        pods(line)
    assert late.value.reason == unary.TIMEOUT
    kubelet.stop()
    assert len(kubelet.calls) <= 1


def test_a_line_that_went_silent_is_given_up(tmp_path):
    """A server may tell a missed deadline itself, and then its line is sound; this one is mute."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as mute:
        mute.bind(str(tmp_path / "mute.sock"))
        mute.listen()
        line = Line(str(tmp_path / "mute.sock"), 0.2)
        with pytest.raises(AllocationError) as late:
            pods(line)
    assert late.value.reason == unary.TIMEOUT
    assert line._wire is None
