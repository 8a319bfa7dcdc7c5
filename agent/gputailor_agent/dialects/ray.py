"""Ray Serve: each Ray node's agent publishes the metrics of the replicas that run on it.

Facts from its page on monitoring (docs.ray.io, "Monitor Your Application") and from its own test of
Serve's metrics (ray-project/ray, ``test_metrics.py``). Counters had no ``_total`` before Ray 2.10,
and for a while have both. Queued requests are counted where the caller is, which may be another
pod than the replica's: they are not read. GPU memory per process is not published. vLLM below Ray
Serve is read as vLLM, too.
"""

from typing import Final

from gputailor_agent.dialects.engines import Engine, EngineMetric, Told

NAME: Final = "ray"

_MILLI: Final = 1e-3
_LATENCY: Final = "ray_serve_deployment_processing_latency_ms"

ENGINE: Final = Engine(
    name=NAME,
    title="Ray Serve",
    metrics=(
        EngineMetric(
            (
                "ray_serve_deployment_request_counter_total",
                "ray_serve_deployment_request_counter",
            ),
            Told.REQUESTS,
        ),
        EngineMetric((f"{_LATENCY}_sum",), Told.LATENCY, _MILLI),
        EngineMetric((f"{_LATENCY}_count",), Told.LATENCY_REQUESTS),
        EngineMetric(("ray_serve_replica_processing_queries",), Told.RUNNING),
    ),
    apart=("application", "deployment", "replica", "route", "WorkerId"),
)
