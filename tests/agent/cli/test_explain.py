"""Explain shows all that inference engines say of a workload."""

import pytest

from gputailor_agent.cli import app, inputs
from gputailor_agent.cli.demo import fill
from gputailor_agent.cli.engine_facts import engine_facts
from gputailor_agent.cli.simulation import History
from gputailor_agent.inventory.files import read_inventory
from gputailor_agent.model.containers import CONTAINER_ITSELF, Amount, Peak, observed
from gputailor_agent.model.usage import UsageKey, UsageRow
from gputailor_agent.store import Store
from tests.agent.cli.clusters import HOUR, START, inventory, pages
from tests.agent.factories import NOW, device, pod, profile, row

LAST = NOW - HOUR
AMOUNTS = {
    Amount.ENGINE_OBSERVED: 3600.0,
    Amount.REQUESTS: 720.0,
    Amount.PROMPT_TOKENS: 90_000.0,
    Amount.OUTPUT_TOKENS: 36_000.0,
    Amount.LATENCY: 1440.0,
    Amount.LATENCY_REQUESTS: 720.0,
    Amount.RUNNING: 5400.0,
    observed(Amount.RUNNING): 3600.0,
    Amount.WAITING: 360.0,
    observed(Amount.WAITING): 3600.0,
    Amount.CACHE: 900.0,
    observed(Amount.CACHE): 3600.0,
}
PEAKS = {
    Peak.RUNNING: 8.0,
    Peak.WAITING: 3.0,
    Peak.CACHE: 0.75,
    Peak.ENGINE_MEMORY: 2.0**34,
    Peak.LAST_REQUEST: float(START + HOUR),
}
SAID = {
    "engine's own figures": "vLLM, over 1 h of all its servers together",
    "requests finished": "720 (0.2 a second and server)",
    "tokens read": "90,000 (25 a second and server)",
    "tokens written": "36,000 (10 a second and server)",
    "latency of a request, mean": "2 s",
    "requests running": "1.5 on average of a server, at most 8",
    "requests waiting": "0.1 on average of a server, at most 3",
    "KV cache in use": "25 % on average of a server, at most 75 %",
    "device memory by the engine": "16.0 GiB",
    "last request": "in the hour before 2025-11-29 01:00 UTC",
}


def engine_row(
    cluster="test", hour=LAST, whose=("team-a", "train-0"), amounts=AMOUNTS, peaks=PEAKS
):
    namespace, name = whose
    key = UsageKey(
        cluster=cluster, namespace=namespace, pod=name, pod_uid=f"uid-{name}", container="main",
        gpu_uuid=CONTAINER_ITSELF, hour=int(hour),
    )  # fmt: skip
    return UsageRow(key=key, dialect="vllm", allocated_seconds=0.0, amounts=amounts, peaks=peaks)


def facts(*rows):
    usage = [row(LAST, kernel=0.5), *rows]
    found, _ = profile(usage, [pod("train-0", gpus=1)], devices=[device()])
    return {fact.label: fact.text for fact in engine_facts(found)}


def test_every_figure_of_an_engine_is_shown():
    assert facts(engine_row()) == SAID


def test_what_an_engine_does_not_tell_is_unknown():
    told = facts(engine_row(amounts={Amount.ENGINE_OBSERVED: 3600.0}, peaks={}))
    assert set(told) == set(SAID)
    del told["engine's own figures"]
    assert set(told.values()) == {"unknown"}


def test_without_an_engine_nothing_is_said_of_one():
    assert facts() == {}
    assert engine_facts(None) == ()


@pytest.mark.parametrize("output", ["table", "json"])
def test_explain_shows_them_of_what_an_agent_stored(capsys, tmp_path, monkeypatch, output):
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.setattr(inputs.time, "time", lambda: START + 49 * HOUR)
    history = History(pages=pages(tmp_path), manifests=tmp_path, nodes=("n1",))
    with Store.open(tmp_path / "agent.db") as store:
        fill(store, history)
        with store.transaction() as transaction:
            transaction.put_inventory(
                read_inventory([inventory(tmp_path)], "demo", START + 48 * HOUR)
            )
            transaction.put_usage([engine_row("demo", START, ("team", "worker"))])
    given = ("--store", f"sqlite:///{tmp_path / 'agent.db'}", "--cluster", "demo")
    assert app.run("gputailor", ["explain", "worker", *given, "--output", output]) == 0
    out = capsys.readouterr().out
    assert "KV cache in use" in out
    assert "25 % on average of a server" in out
