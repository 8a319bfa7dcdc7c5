"""What a simulation of our exporter has not: errors, links, ``up``, the agent, engines, teams.

Each value is given by time, so that counters rise.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping

from gputailor_agent import metrics as agent
from gputailor_exporter import metrics as m

Value = float | Callable[[int], float]
GPU = {"node": "node-a", "gpu": "0", "gpu_uuid": "GPU-dcea8cc3-4fae-4f5b-9891-4efd4825e105"}


def line(name: str, labels: Mapping[str, str], value: float, at: int) -> str:
    """One sample as a page writes it."""
    inside = ",".join(f'{key}="{text}"' for key, text in labels.items())
    return f"{name}{{{inside}}} {value} {at}"


def _written(
    series: Iterable[tuple[str, Mapping[str, str], Value]], times: Iterable[int]
) -> Iterator[str]:
    known = list(series)
    for at in times:
        for name, labels, value in known:
            yield line(name, labels, value(at) if callable(value) else value, at)


def _device(family: m.Family, value: Value, **labels: str) -> tuple[str, Mapping[str, str], Value]:
    target = {"instance": "node-a:9836", "job": "gputailor-exporter"}
    return family.name, {**target, **GPU, **labels}, value


def exporters(times: range) -> Iterator[str]:
    """Of the exporters of both nodes, and of a GPU with troubles on node-a."""
    start = times[0]

    def a_minute(rise: float) -> Callable[[int], float]:
        return lambda at: rise * (at - start) / 60

    xid = {"xid": "31"}
    series: list[tuple[str, Mapping[str, str], Value]] = [
        _device(m.DEVICE_XID_ERRORS, 3, **xid),
        _device(m.DEVICE_XID_LAST, start, **xid),
        _device(m.DEVICE_ECC_ERRORS, a_minute(1), severity="corrected"),
        _device(m.DEVICE_ECC_ERRORS, 0, severity="uncorrected"),
        _device(m.DEVICE_REMAPPED_ROWS_FAILED, 0),
        _device(m.DEVICE_REMAPPED_ROWS_PENDING, 1),
        _device(m.DEVICE_RETIRED_PAGES_PENDING, 0),
        _device(m.DEVICE_TEMPERATURE_LIMIT, 89, limit="slowdown"),
        _device(m.DEVICE_FAN_SPEED, 0.4),
        _device(m.DEVICE_NVLINK_UP, 1, link="0"),
        _device(m.DEVICE_NVLINK_CAPACITY, 300e9),
        _device(m.DEVICE_NVLINK_ERRORS, a_minute(2), error="replay"),
        _device(m.DEVICE_FABRIC, 1, state="completed", status="success", health="healthy"),
        _device(m.DEVICE_MODE_ENABLED, 1, mode="ecc"),
        _device(m.DEVICE_INVALID_VALUES, a_minute(1), signal="kernel"),
    ]
    for node in ("node-a", "node-b"):
        target = {"instance": f"{node}:9836", "job": "gputailor-exporter"}
        kubelet = {**target, "source": "kubelet"}
        device = {**target, "gpu_uuid": GPU["gpu_uuid"]}
        series += [
            ("up", target, 1),
            (m.EXPORTER_LAST_SUCCESS.name, kubelet, lambda at: at - 4),
            (m.EXPORTER_ERRORS.name, {**kubelet, "reason": "timeout"}, a_minute(1)),
            (m.EXPORTER_CYCLE_DURATION.name, device, 0.02),
            (m.EXPORTER_DEVICE_LAST_SUCCESS.name, device, lambda at: at - 1),
            (m.EXPORTER_DEVICE_FAILURE.name, {**device, "reason": "timeout"}, 1),
        ]
    return _written(series, times)


FOUND = {
    "namespace": "lab", "kind": "Job", "workload": "forgotten", "rule": "idle", "severity": "high",
}  # fmt: skip


def rest(times: range) -> Iterator[str]:
    """Of the agent, of inference engines, teams, and an alert that fires."""
    return _written([*_agent(times[0]), *_engines(times[0]), *_cluster()], times)


def _agent(start: int) -> Iterator[tuple[str, Mapping[str, str], Value]]:
    def rising(at: int) -> float:
        return (at - start) / 60

    idle, job = {"rule": "idle"}, {"job": "gputailor", "exported_job": "rollup"}
    target = {"job": "gputailor", "instance": "agent:8080"}
    yield "up", target, 1
    yield from (
        (agent.FINDINGS.name, idle, 2),
        (agent.FINDING.name, FOUND, 1),
        (agent.FINDING_SAVING.name, FOUND, 730),
        (agent.WORKLOADS.name, {"state": "finding"}, 2),
        (agent.SAVING_GPU_HOURS.name, {}, 730),
        (agent.SAVING_MONEY.name, {"currency": "USD"}, 2900),
        (agent.PLAN_TIME.name, {}, lambda at: at - 1200),
        (agent.USAGE_END.name, {}, lambda at: at - 900),
        (agent.COVERAGE.name, {}, 0.97),
        (agent.RUNS.name, {**job, "outcome": "done"}, rising),
        (agent.JOB_DURATION.name, job, 3),
        (agent.LAST_SUCCESS.name, job, lambda at: at - 600),
        (agent.JOB_ERRORS.name, {**job, "reason": "timeout"}, 1),
        (agent.ROLLUP_ROWS.name, target, rising),
        (agent.ROLLUP_PROBLEMS.name, {"problem": "reset"}, 1),
        (agent.LETTERS.name, {"state": "sent"}, 4),
        (agent.STORE_BYTES.name, {}, 2e6),
        (agent.STORE_TRANSACTIONS.name, {"outcome": "done"}, rising),
        (agent.STORE_ERRORS.name, {"reason": "locked"}, 0),
        (agent.LEDGER.name, {**idle, "state": "open"}, 2),
        (agent.LEDGER_SAVING.name, {**idle, "kind": "realised"}, 500),
        (agent.LEDGER_MONEY.name, {**idle, "currency": "USD"}, 1900),
        (agent.LEDGER_PRECISION.name, idle, 0.9),
    )


def _engines(start: int) -> Iterator[tuple[str, Mapping[str, str], Value]]:
    pod = {"namespace": "web", "pod": "serve-4lnjsrlgtj-hpmzw"}

    def rising(at: int) -> float:
        return at - start

    for name in ("vllm:num_requests_running", "sglang:num_running_reqs", "tgi_batch_current_size"):
        yield name, pod, 3
    for name in (
        "vllm:num_requests_waiting", "sglang:num_queue_reqs", "tgi_queue_size",
        "nv_inference_pending_request_count",
    ):  # fmt: skip
        yield name, pod, 0
    for name in ("vllm:kv_cache_usage_perc", "sglang:token_usage"):
        yield name, pod, 0.4
    for name in (
        "vllm:request_success_total", "vllm:generation_tokens_total",
        "vllm:e2e_request_latency_seconds_sum", "vllm:e2e_request_latency_seconds_count",
        "sglang:num_requests_total", "sglang:generation_tokens_total",
        "sglang:e2e_request_latency_seconds_sum", "sglang:e2e_request_latency_seconds_count",
        "tgi_request_success", "tgi_request_generated_tokens_sum",
        "tgi_request_duration_sum", "tgi_request_duration_count",
        "nv_inference_request_success", "nv_inference_request_duration_us",
    ):  # fmt: skip
        yield name, pod, rising


def _cluster() -> Iterator[tuple[str, Mapping[str, str], Value]]:
    for namespace, team in (("lab", "vision"), ("research", "language")):
        labels = {"namespace": namespace, "label_team": team, "job": "kube-state-metrics"}
        yield "kube_namespace_labels", labels, 1
    alert = {"alertname": "GpuResetPending", "alertstate": "pending", "severity": "info"}
    yield "ALERTS", {**alert, **GPU}, 1
    firing = {"alertname": "GpuLost", "alertstate": "firing", "severity": "critical"}
    yield "ALERTS", {**firing, **GPU}, 1
