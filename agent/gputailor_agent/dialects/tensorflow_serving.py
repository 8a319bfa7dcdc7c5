"""TensorFlow Serving with a ``prometheus_config``; its page is not at ``/metrics``.

Facts from its documentation of configuration (tensorflow.org, "Monitoring Configuration") and from
grafana/jsonnet-libs' TensorFlow Serving mixin. Names begin with a colon. Latency is microseconds,
summed over requests. What runs, waits or is in memory is not published.
"""

from typing import Final

from gputailor_agent.dialects.engines import Engine, EngineMetric, Told

NAME: Final = "tensorflow_serving"

_START: Final = ":tensorflow:serving:"
_MICRO: Final = 1e-6

ENGINE: Final = Engine(
    name=NAME,
    title="TensorFlow Serving",
    metrics=(
        EngineMetric((f"{_START}request_count",), Told.REQUESTS),
        EngineMetric((f"{_START}request_latency_sum",), Told.LATENCY, _MICRO),
        EngineMetric((f"{_START}request_latency_count",), Told.LATENCY_REQUESTS),
    ),
    apart=("model_name", "status", "API", "entrypoint"),
)
