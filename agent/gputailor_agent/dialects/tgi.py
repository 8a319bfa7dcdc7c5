"""Hugging Face Text Generation Inference.

Facts from its reference of metrics (huggingface.co, text-generation-inference, "Metrics"). Tokens
come as the sums of histograms over requests. The share of its cache is not published.
"""

from typing import Final

from gputailor_agent.dialects.engines import Engine, EngineMetric, Told

NAME: Final = "tgi"

ENGINE: Final = Engine(
    name=NAME,
    title="Text Generation Inference",
    metrics=(
        EngineMetric(("tgi_request_success",), Told.REQUESTS),
        EngineMetric(("tgi_request_input_length_sum",), Told.PROMPT_TOKENS),
        EngineMetric(("tgi_request_generated_tokens_sum",), Told.OUTPUT_TOKENS),
        EngineMetric(("tgi_request_duration_sum",), Told.LATENCY),
        EngineMetric(("tgi_request_duration_count",), Told.LATENCY_REQUESTS),
        EngineMetric(("tgi_batch_current_size",), Told.RUNNING),
        EngineMetric(("tgi_queue_size",), Told.WAITING),
    ),
    apart=("method",),
)
