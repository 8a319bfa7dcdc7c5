"""TorchServe with ``metrics_mode=prometheus``.

Facts from its pages on metrics and on the metrics API (pytorch.org/serve, ``metrics.html`` and
``metrics_api.html``). Latencies are microseconds, summed. Other metrics have names without a prefix
(``QueueTime``, ``GPUMemoryUsed``) that anybody may use, and tell the last moment: they are not
read. What runs and waits is not published.
"""

from typing import Final

from gputailor_agent.dialects.engines import Engine, EngineMetric, Told

NAME: Final = "torchserve"

_MICRO: Final = 1e-6

ENGINE: Final = Engine(
    name=NAME,
    title="TorchServe",
    metrics=(
        EngineMetric(("ts_inference_requests_total",), Told.REQUESTS),
        EngineMetric(("ts_inference_latency_microseconds",), Told.LATENCY, _MICRO),
        EngineMetric(("ts_inference_requests_total",), Told.LATENCY_REQUESTS),
    ),
    apart=("model_name", "model_version", "uuid", "hostname"),
)
