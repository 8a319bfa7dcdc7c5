"""What containers used of their nodes: cAdvisor, node_exporter and kube-state-metrics."""

import pytest

from gputailor_agent.model.containers import HostUse
from gputailor_agent.sources.prometheus.containers import ContainerReader
from tests.agent.sources.memory_prometheus import SCRAPE, MemoryPrometheus

HOUR = 3600
BEGIN = 1_768_046_400
END = BEGIN + HOUR
POD = ("team", "train-0")
GIB = 1024**3
KUBELET = {"job": "kubelet", "instance": "10.0.0.1:10250", "node": "node-a"}
KSM = {"job": "ksm", "instance": "10.0.0.5:8080"}


def cadvisor(at, *, container="main", start=BEGIN - HOUR, cpus=1.5, pod="train-0", limit=True):
    """One container's part of kubelet's page; a fifth of the time it waits for I/O."""
    of = f'namespace="team",pod="{pod}",container="{container}",id="/pods/{container}/{start}"'
    ran = at - start
    quota = (
        f"container_spec_cpu_quota{{{of}}} 200000\ncontainer_spec_cpu_period{{{of}}} 100000\n"
        if limit
        else f"container_spec_cpu_period{{{of}}} 100000\n"
    )
    return (
        quota
        + f"""\
container_cpu_usage_seconds_total{{{of},cpu="total"}} {cpus * ran}
container_cpu_cfs_periods_total{{{of}}} {10 * ran}
container_cpu_cfs_throttled_periods_total{{{of}}} {3 * ran}
container_cpu_cfs_throttled_seconds_total{{{of}}} {0.1 * ran}
container_fs_reads_bytes_total{{{of},device="/dev/sda"}} {100 * ran}
container_fs_reads_bytes_total{{{of},device="/dev/sdb"}} {50 * ran}
container_fs_writes_bytes_total{{{of},device="/dev/sda"}} {10 * ran}
container_memory_working_set_bytes{{{of}}} {(3 if at == BEGIN + 1800 else 2) * GIB}
container_spec_memory_limit_bytes{{{of}}} {4 * GIB}
container_start_time_seconds{{{of}}} {start}
container_pressure_io_waiting_seconds_total{{{of}}} {0.2 * ran}
container_pressure_io_stalled_seconds_total{{{of}}} {0.1 * ran}
container_pressure_cpu_waiting_seconds_total{{{of}}} {0.3 * ran}
"""
    )


def network(at, pod="train-0"):
    of = f'namespace="team",pod="{pod}",id="/pods"'
    return "".join(
        f'container_network_{way}_bytes_total{{{of},interface="{card}"}} {rate * (at - BEGIN)}\n'
        for way, rate in (("receive", 1000), ("transmit", 10))
        for card in ("eth0", "eth1")
    )


def read(server, pods=(POD,), begin=BEGIN, end=END):
    with server.client() as client:
        reader = ContainerReader(client)
        reader.look(begin, end)
        return reader.hour(begin, end, set(pods))


def used(readings):
    counted, amounts, peaks = {}, {}, {}
    for one in readings:
        counted |= one.counted
        amounts |= one.amounts
        peaks |= one.peaks
    return HostUse.of({one.source for one in readings}, counted, amounts, peaks)


@pytest.fixture
def server():
    made = MemoryPrometheus()
    made.scrapes(lambda at: cadvisor(at) + network(at), BEGIN - 300, END, **KUBELET)
    return made


def test_an_hour_of_a_container_is_what_cadvisor_counted(server):
    use = used(read(server).containers)
    assert use.sources == ("cadvisor",)
    assert use.observed_seconds == HOUR
    assert use.cpu_used_seconds == pytest.approx(1.5 * HOUR)
    assert use.cpus_used == pytest.approx(1.5)
    assert use.cpus_peak == pytest.approx(1.5)
    assert use.cpu_of_limit == pytest.approx(0.75)
    assert use.cpu_throttled_seconds == pytest.approx(360)
    assert use.throttled_ratio == pytest.approx(0.3)
    assert use.disk_read_bytes == pytest.approx(150 * HOUR)
    assert use.disk_written_bytes == pytest.approx(10 * HOUR)
    assert use.network_received_bytes == pytest.approx(2000 * HOUR)
    assert use.network_sent_bytes == pytest.approx(20 * HOUR)
    assert (use.memory_peak_bytes, use.memory_limit_bytes) == (3 * GIB, 4 * GIB)
    assert use.pressure == {
        "cpu/some": pytest.approx(0.3), "io/some": pytest.approx(0.2), "io/full": pytest.approx(0.1)
    }  # fmt: skip
    assert use.restarts is None
    assert use.oom_kills is None


def levels(readings):
    amounts = {name: told for one in readings for name, told in one.amounts.items()}
    return {name: told for name, told in amounts.items() if name.startswith("host/cpus_at/")}


def test_cpu_use_is_time_by_level_of_five_minutes():
    """Twelve minutes eight CPUs, else half of one; the step of the change has its mean."""
    busy = BEGIN + 2880
    made = MemoryPrometheus()

    def page(at):
        ran = 0.5 * (at - BEGIN + HOUR) + 7.5 * max(0, at - busy)
        return cadvisor(at, cpus=ran / (at - BEGIN + HOUR))

    made.scrapes(page, BEGIN - 300, END, **KUBELET)
    found = read(made).containers
    assert levels(found) == {
        "host/cpus_at/0.5": 9 * 300, "host/cpus_at/4": 300, "host/cpus_at/8": 2 * 300,
    }  # fmt: skip
    use = used(found)
    assert (use.cpus_p95.high, use.cpus_p95.seconds) == (8.0, HOUR)
    assert use.cpus_p95.low == pytest.approx(8 / 2**0.25)
    assert use.cpus_peak == pytest.approx(2.0)


def test_a_start_inside_an_hour_is_no_burst_and_copies_count_once():
    made = MemoryPrometheus()
    again = BEGIN + 1800
    for job in ("kubelet", "kubelet-again"):
        target = {**KUBELET, "job": job}
        made.scrapes(cadvisor, BEGIN - 300, again - SCRAPE, **target)
        made.scrapes(lambda at: cadvisor(at, start=again), again, END, **target)
    told = levels(read(made).containers)
    assert told == {"host/cpus_at/1.41421": 300, "host/cpus_at/1.68179": 11 * 300}


def test_a_container_without_a_limit_has_none_and_not_zero():
    server = MemoryPrometheus()
    server.scrapes(lambda at: cadvisor(at, limit=False), BEGIN - 300, END, **KUBELET)
    use = used(read(server).containers)
    assert use.cpu_used_seconds == pytest.approx(1.5 * HOUR)
    assert use.cpu_limit_seconds is None
    assert use.cpu_of_limit is None


def test_starts_of_a_container_one_after_another_add_up():
    server = MemoryPrometheus()
    restarted = BEGIN + 1230
    server.scrapes(cadvisor, BEGIN - 300, BEGIN + 1200, **KUBELET)
    server.scrapes(lambda at: cadvisor(at, start=restarted), restarted + 30, END, **KUBELET)
    use = used(read(server).containers)
    assert use.observed_seconds == pytest.approx(HOUR - 30)
    assert use.cpu_used_seconds == pytest.approx(1.5 * (HOUR - 30))


def test_a_container_that_lived_inside_the_hour_only_is_told():
    server = MemoryPrometheus()
    start = BEGIN + 600
    server.scrapes(lambda at: cadvisor(at, start=start), start + 30, BEGIN + 1800, **KUBELET)
    use = used(read(server).containers)
    assert use.cpu_used_seconds == pytest.approx(1.5 * 1170)
    assert use.observed_seconds == pytest.approx(1170)


def test_labels_that_were_not_honoured_change_nothing(server):
    renamed = MemoryPrometheus()
    target = KUBELET | {"namespace": "kube-system", "pod": "cadvisor-x", "container": "cadvisor"}
    renamed.scrapes(lambda at: cadvisor(at) + network(at), BEGIN - 300, END, **target)
    assert used(read(renamed).containers) == used(read(server).containers)


def test_only_pods_that_hold_devices_are_asked_for(server):
    server.scrapes(lambda at: cadvisor(at, pod="web"), BEGIN - 300, END, **KUBELET)
    assert {one.pod for one in read(server).containers} == {"train-0"}
    assert read(server, pods=()).containers == ()
    touched = server.touched
    read(server)
    assert server.touched - touched <= 2 * 24 + HOUR // SCRAPE + HOUR // 300 + 1


def test_a_pod_of_the_same_name_in_another_namespace_is_not_mixed_in(server):
    other = MemoryPrometheus()
    other.series = dict(server.series)
    other.scrapes(
        lambda at: cadvisor(at, cpus=9).replace('namespace="team"', 'namespace="web"'),
        BEGIN - 300, END, **KUBELET,
    )  # fmt: skip
    assert used(read(other).containers) == used(read(server).containers)


def state(restarts, reason="OOMKilled"):
    of = 'namespace="team",pod="train-0",container="main",uid="u"'
    ended = (
        f'kube_pod_container_status_last_terminated_reason{{{of},reason="{reason}"}} 1\n'
        if restarts
        else ""
    )
    return f"kube_pod_container_status_restarts_total{{{of}}} {restarts}\n{ended}"


@pytest.mark.parametrize(("reason", "kills"), [("OOMKilled", 1), ("Error", 0)])
def test_restarts_are_counted_and_kills_for_memory_never_overstated(reason, kills):
    server = MemoryPrometheus()
    server.scrapes(lambda at: state(0 if at < BEGIN + 1800 else 2, reason), BEGIN - 300, END, **KSM)
    use = used(read(server).containers)
    assert (use.restarts, use.oom_kills) == (2, kills)


def test_a_kill_of_an_hour_ago_is_not_this_hours():
    server = MemoryPrometheus()
    server.scrapes(lambda _: state(3), BEGIN - 300, END, **KSM)
    use = used(read(server).containers)
    assert (use.restarts, use.oom_kills) == (0, 0)


def test_a_container_that_is_not_started_again_was_killed_in_the_hour_it_ended():
    server = MemoryPrometheus()
    of = 'namespace="team",pod="train-0",container="main",uid="u",reason="OOMKilled"'
    killed = f"kube_pod_container_status_terminated_reason{{{of}}} 1\n"
    server.scrapes(
        lambda at: state(0) + (killed if at > BEGIN + 60 else ""), BEGIN - 300, END + HOUR, **KSM
    )
    assert used(read(server).containers).oom_kills == 1
    assert used(read(server, begin=END, end=END + HOUR).containers).oom_kills == 0


def pressing(at):
    return f"""\
node_pressure_io_waiting_seconds_total {0.25 * (at - BEGIN + HOUR)}
node_pressure_memory_stalled_seconds_total {0.05 * (at - BEGIN + HOUR)}
node_boot_time_seconds {BEGIN - HOUR}
"""


@pytest.mark.parametrize(
    ("page", "target", "name"),
    [
        ("", {"instance": "10.0.0.1:9100", "node": "node-a"}, "node-a"),
        ('node_uname_info{nodename="node-b"} 1\n', {"instance": "10.0.0.2:9100"}, "node-b"),
        ("", {"instance": "node-c:9100"}, "node-c"),
        ("", {"instance": "node-d"}, "node-d"),
    ],
)
def test_a_nodes_pressure_goes_by_its_name(page, target, name):
    server = MemoryPrometheus()
    server.scrapes(lambda at: pressing(at) + page, BEGIN - 300, END, job="node", **target)
    (node,) = read(server).nodes
    assert node.node == name
    use = HostUse.of({node.source}, {}, node.amounts, {})
    assert use.node_pressure == {"io/some": pytest.approx(0.25), "memory/full": pytest.approx(0.05)}
    assert use.pressure == {}


def test_a_server_without_any_of_it_is_asked_for_names_alone():
    server = MemoryPrometheus()
    server.scrapes(lambda _: "some_metric 1\n", BEGIN, END, job="x", instance="x:1")
    assert read(server).containers == ()
    assert server.asked == []
