"""vLLM, by itself and below Ray Serve.

Facts from its documentation of production metrics (docs.vllm.ai, "Production Metrics", releases
0.4 to 0.32). The KV cache's share was ``gpu_cache_usage_perc`` before its engine V1; despite the
name, 1 means all of it. Ray publishes the same metrics with ``ray_`` before the name and ``_`` in
place of ``:``. How much memory weights and cache take is not published.
"""

from typing import Final

from gputailor_agent.dialects.engines import Engine, EngineMetric, Told

NAME: Final = "vllm"


def _metric(told: Told, *names: str) -> EngineMetric:
    return EngineMetric(
        tuple(f"{start}{name}" for name in names for start in ("vllm:", "ray_vllm_")), told
    )


ENGINE: Final = Engine(
    name=NAME,
    title="vLLM",
    metrics=(
        _metric(Told.REQUESTS, "request_success_total"),
        _metric(Told.PROMPT_TOKENS, "prompt_tokens_total"),
        _metric(Told.OUTPUT_TOKENS, "generation_tokens_total"),
        _metric(Told.LATENCY, "e2e_request_latency_seconds_sum"),
        _metric(Told.LATENCY_REQUESTS, "e2e_request_latency_seconds_count"),
        _metric(Told.RUNNING, "num_requests_running"),
        _metric(Told.WAITING, "num_requests_waiting"),
        _metric(Told.CACHE, "kv_cache_usage_perc", "gpu_cache_usage_perc"),
    ),
    apart=("model_name", "engine", "finished_reason", "WorkerId", "ReplicaId"),
)
