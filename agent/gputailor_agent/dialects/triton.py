"""NVIDIA Triton Inference Server.

Facts from its user guide's page on metrics (docs.nvidia.com, "Metrics"; the same page for release
24.04). Request durations are microseconds, summed. Pending requests wait for a model instance. An
ensemble's request counts once for the ensemble and once for each model below it, so the sum over
models can be above what clients sent; it is 0 only if nobody asked. GPU memory is what the driver
says of the whole device. What runs is not published; backends of language models publish their
cache in ways of their own.
"""

from typing import Final

from gputailor_agent.dialects.engines import Engine, EngineMetric, Told

NAME: Final = "triton"

_MICRO: Final = 1e-6

ENGINE: Final = Engine(
    name=NAME,
    title="NVIDIA Triton Inference Server",
    metrics=(
        EngineMetric(("nv_inference_request_success",), Told.REQUESTS),
        EngineMetric(("nv_inference_request_duration_us",), Told.LATENCY, _MICRO),
        EngineMetric(("nv_inference_request_success",), Told.LATENCY_REQUESTS),
        EngineMetric(("nv_inference_pending_request_count",), Told.WAITING),
        EngineMetric(("nv_gpu_memory_used_bytes",), Told.MEMORY),
    ),
    apart=("model", "version", "gpu_uuid"),
)
