"""SGLang, started with ``--enable-metrics``.

Facts from its documentation of production metrics (docs.sglang.io, "Production Metrics").
Schedulers of tensor- and pipeline-parallel ranks publish copies of the same figures, those of
data-parallel ranks figures of their own. ``token_usage`` is the used share of the token pool.
"""

from typing import Final

from gputailor_agent.dialects.engines import Engine, EngineMetric, Told

NAME: Final = "sglang"

ENGINE: Final = Engine(
    name=NAME,
    title="SGLang",
    metrics=(
        EngineMetric(("sglang:num_requests_total",), Told.REQUESTS),
        EngineMetric(("sglang:prompt_tokens_total",), Told.PROMPT_TOKENS),
        EngineMetric(("sglang:generation_tokens_total",), Told.OUTPUT_TOKENS),
        EngineMetric(("sglang:e2e_request_latency_seconds_sum",), Told.LATENCY),
        EngineMetric(("sglang:e2e_request_latency_seconds_count",), Told.LATENCY_REQUESTS),
        EngineMetric(("sglang:num_running_reqs",), Told.RUNNING),
        EngineMetric(("sglang:num_queue_reqs",), Told.WAITING),
        EngineMetric(("sglang:token_usage",), Told.CACHE),
    ),
    apart=("model_name", "engine_type", "dp_rank", "is_streaming"),
)
