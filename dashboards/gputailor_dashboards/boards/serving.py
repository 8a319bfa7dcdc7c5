"""Serving: do loaded models get requests, and do requests wait?"""

from typing import Final

from gputailor_dashboards.boards import parts
from gputailor_dashboards.boards.board import Board
from gputailor_dashboards.expressions import contract, engines
from gputailor_dashboards.expressions.base import HOLDER_LEGEND, WORKLOAD, Dialect
from gputailor_dashboards.expressions.engines import ENGINES, LEGEND
from gputailor_dashboards.expressions.native import Native
from gputailor_dashboards.panels import Look, Row, panel, row, rows
from gputailor_exporter.metrics import Signal

_TOLD: Final = "By the engine's own metrics; an engine that is not scraped is not shown."


def questions(dialect: Dialect) -> tuple[Row, ...]:
    """Return the dashboard's rows of panels on this dialect."""
    if not isinstance(dialect, Native):
        return ()
    return rows(_requests(dialect), _gpus(dialect))


def _requests(dialect: Native) -> Row | None:
    scope = dialect.scope
    return row(
        "Requests",
        panel(
            "Requests running",
            f"How many requests does each pod work on? {_TOLD}",
            *((engines.level(e.running, scope), LEGEND + e.title) for e in ENGINES),
        ),
        panel(
            "Requests waiting",
            "Do requests queue up? Then a smaller GPU or fewer replicas would hurt.",
            *((engines.level(e.waiting, scope), LEGEND + e.title) for e in ENGINES),
        ),
        panel(
            "Requests per second",
            "Does anybody ask? None for days: scale to zero.",
            *((engines.rate(e.requests, scope), LEGEND + e.title) for e in ENGINES),
            unit="reqps",
        ),
        panel(
            "Tokens per second",
            "How much do language models write?",
            *((engines.rate(e.tokens, scope), LEGEND + e.title) for e in ENGINES),
            unit="cps",
        ),
        panel(
            "Mean duration of a request",
            "How long do callers wait for the whole answer?",
            *((engines.latency(e, scope), LEGEND + e.title) for e in ENGINES),
            unit="s",
        ),
        panel(
            "KV cache in use",
            "How much of the cache do requests need? The memory that an engine took does not say.",
            *((engines.highest(e.cache, scope), LEGEND + e.title) for e in ENGINES),
            unit="percentunit",
        ),
    )


def _gpus(dialect: Native) -> Row | None:
    return row(
        "GPUs of these pods",
        panel(
            "Loaded, and nobody asks",
            "Which containers keep a model in memory while no kernel runs? Shown: memory's share.",
            (parts.named(dialect, contract.standby(dialect)), "memory"),
            look=Look.TABLE,
            labels=("namespace", "pod", "container", "node", "gpu", "slice"),
            unit="percentunit",
        ),
        panel(
            "SM activity",
            "How much of the GPU do requests fill?",
            (parts.named(dialect, dialect.activity(Signal.SM)), HOLDER_LEGEND),
            unit="percentunit",
        ),
        panel(
            "Tensor activity",
            "Does it compute in a precision that uses the tensor cores?",
            (parts.named(dialect, dialect.activity(Signal.TENSOR)), HOLDER_LEGEND),
            unit="percentunit",
        ),
        panel(
            "Memory bandwidth",
            "Is decoding bound by memory? Then a smaller number format helps most.",
            (parts.named(dialect, dialect.activity(Signal.DRAM)), HOLDER_LEGEND),
            unit="percentunit",
        ),
    )


BOARD = Board(
    uid="gputailor-serving",
    title="Serving",
    description="Inference: requests, queues and caches of vLLM, SGLang, TGI, Triton; their GPUs.",
    place=7,
    scope=WORKLOAD,
    variables=("cluster", "namespace", "workload"),
    ask=questions,
    one=("workload",),
)
