"""MindIE Service on Ascend, started with ``MIES_SERVICE_MONITOR_MODE=1``.

Facts from its API reference (hiascend.com, MindIE 1.0, the page of the monitoring interface in
Prometheus' format) and from MindIE-LLM's source. Its names have no prefix, so only targets that
also publish ``npu_cache_usage_perc`` are taken for MindIE. Of that, 1 means all; the reference's
own example shows 30, so values above 1 are taken for unknown.
"""

from typing import Final

from gputailor_agent.dialects.engines import Engine, EngineMetric, Told

NAME: Final = "mindie"

_SIGNATURE: Final = "npu_cache_usage_perc"

ENGINE: Final = Engine(
    name=NAME,
    title="MindIE Service",
    metrics=(
        EngineMetric(("request_success_total",), Told.REQUESTS),
        EngineMetric(("prompt_tokens_total",), Told.PROMPT_TOKENS),
        EngineMetric(("generation_tokens_total",), Told.OUTPUT_TOKENS),
        EngineMetric(("e2e_request_latency_seconds_sum",), Told.LATENCY),
        EngineMetric(("e2e_request_latency_seconds_count",), Told.LATENCY_REQUESTS),
        EngineMetric(("num_requests_running",), Told.RUNNING),
        EngineMetric(("num_requests_waiting",), Told.WAITING),
        EngineMetric((_SIGNATURE,), Told.CACHE),
    ),
    apart=("model_name",),
    signature=_SIGNATURE,
)
