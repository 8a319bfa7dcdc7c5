"""Queries on inference engines' own metrics, for what GPU counters cannot tell: requests.

Names are those of the engines' documentation: vLLM ("Production Metrics"), SGLang ("Production
Metrics"), Text Generation Inference ("Metrics"), NVIDIA Triton ("Metrics"; durations there are
microseconds). ``namespace`` and ``pod`` come with the scrape of a pod.
"""

from dataclasses import dataclass
from typing import Final

from gputailor_dashboards.expressions.base import Scope, matchers

_BY: Final = "cluster, namespace, pod"


@dataclass(frozen=True, slots=True)
class Engine:
    """One engine's metrics; '' for what it does not publish."""

    title: str
    running: str
    waiting: str
    requests: str
    tokens: str = ""
    cache: str = ""
    latency: str = ""  # a histogram's name without its ending, or a counter of microseconds
    microseconds: bool = False


ENGINES: Final = (
    Engine(
        "vLLM",
        "vllm:num_requests_running",
        "vllm:num_requests_waiting",
        "vllm:request_success_total",
        "vllm:generation_tokens_total",
        "vllm:kv_cache_usage_perc",
        "vllm:e2e_request_latency_seconds",
    ),
    Engine(
        "SGLang",
        "sglang:num_running_reqs",
        "sglang:num_queue_reqs",
        "sglang:num_requests_total",
        "sglang:generation_tokens_total",
        "sglang:token_usage",
        "sglang:e2e_request_latency_seconds",
    ),
    Engine(
        "TGI",
        "tgi_batch_current_size",
        "tgi_queue_size",
        "tgi_request_success",
        "tgi_request_generated_tokens_sum",
        "",
        "tgi_request_duration",
    ),
    Engine(
        "Triton",
        "",
        "nv_inference_pending_request_count",
        "nv_inference_request_success",
        latency="nv_inference_request_duration_us",
        microseconds=True,
    ),
)
LEGEND: Final = "{{namespace}}/{{pod}} "


def _series(name: str, scope: Scope) -> str:
    return name + matchers(cluster=scope.clusters, namespace=scope.namespaces, pod=scope.pods)


def level(name: str, scope: Scope) -> str | None:
    """A level by pod: requests running or waiting."""
    return f"sum by ({_BY}) ({_series(name, scope)})" if name else None


def highest(name: str, scope: Scope) -> str | None:
    """The highest of a pod's levels: the share of the cache in use."""
    return f"max by ({_BY}) ({_series(name, scope)})" if name else None


def rate(name: str, scope: Scope) -> str | None:
    """Rise per second by pod."""
    return f"sum by ({_BY}) (rate({_series(name, scope)}[{scope.window}]))" if name else None


def latency(engine: Engine, scope: Scope) -> str | None:
    """Mean duration of requests in seconds, by pod; nothing where none ended."""
    name = engine.latency
    if engine.microseconds:
        return f"{rate(name, scope)} / ({rate(engine.requests, scope)} > 0) / 1e6"
    return f"{rate(f'{name}_sum', scope)} / ({rate(f'{name}_count', scope)} > 0)"
