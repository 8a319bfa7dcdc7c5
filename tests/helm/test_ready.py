"""What the pod of ``helm test`` runs, as a process: it needs no Helm."""

import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.system.conftest import start

__all__ = ["start"]

RUNS = 'gputailor_agent_job_runs_total{{job="{}",outcome="{}"}} {}\n'
END = "gputailor_agent_usage_end_timestamp_seconds"
HELP = "# HELP gputailor_agent_job_runs_total Runs of jobs.\n"


def metrics(job, done=0, failed=0, end_age=None):
    """A page of an agent that reads by ``job``, up to ``end_age`` seconds ago."""
    end = "" if end_age is None else f"{END} {time.time() - end_age!r}\n"
    counted = RUNS.format(job, "done", float(done)) + RUNS.format(job, "failed", float(failed))
    return HELP + counted + RUNS.format("compact", "done", 1.0) + end


WELL = {
    "/healthz": (200, "ok\n"),
    "/readyz": (200, "ok\n"),
    "/metrics": (200, metrics("scrape", done=3, end_age=5)),
}
HOUR = 3600


class Answering(BaseHTTPRequestHandler):
    """Answers as its server's ``pages`` say."""

    def do_GET(self):
        status, text = self.server.pages.get(self.path, (404, "no such page\n"))
        self.send_response(status)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_arguments):
        pass


@contextmanager
def serving(pages):
    """The address of a server with these pages."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    server.pages = pages
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def ready(chart):
    """A function that runs the script; its code and what it said."""
    script = chart / "scripts" / "ready.py"

    def run(*places, seconds="0"):
        done = subprocess.run(
            [sys.executable, str(script), seconds, *places],
            check=False,
            timeout=90,
            capture_output=True,
            text=True,
        )
        assert not done.stderr
        return done.returncode, done.stdout

    return run


def test_exporters_and_an_agent_that_are_well_pass_with_a_line_for_each_check(ready):
    with serving(WELL) as url:
        code, said = ready(f"exporter={url}", f"agent={url}")
    assert code == 0
    assert [line.split()[:2] for line in said.splitlines()] == [
        ["ok", "exporter:"],
        ["ok", "agent:"],
        ["ok", "first"],
        ["ok", "reading:"],
    ]


@pytest.mark.parametrize(
    ("page", "answer", "words"),
    [
        ("/healthz", (503, "hangs\n"), "agent: hangs"),
        ("/readyz", (503, "no plan yet\n"), "no plan yet"),
        ("/metrics", (200, metrics("history", failed=2)), "Prometheus: failed 2 times"),
        ("/metrics", (200, metrics("history", 9, 4, 5 * HOUR)), "Prometheus: nothing was read"),
        ("/metrics", (200, metrics("scrape")), "exporters: has not begun"),
        ("/metrics", (200, metrics("scrape", done=2)), "exporters: no exporter has answered"),
        ("/metrics", (200, HELP), "nothing to read"),
        ("/metrics", (200, "<html>"), "http://127.0.0.1"),
        ("/metrics", (500, "broken"), "reading: broken"),
    ],
)
def test_an_agent_that_is_not_well_fails_with_the_reason_and_where_to_look(
    ready, page, answer, words
):
    with serving(WELL | {page: answer}) as url:
        code, said = ready(f"agent={url}")
    assert code == 1
    failed, advice = said.splitlines()[-2:]
    assert failed.startswith("FAIL")
    assert words in failed
    assert "kubectl logs of the agent's Deployment" in advice


def test_exporters_that_are_not_there_fail_with_what_to_look_at(ready):
    with serving({}) as url:
        gone = url
    code, said = ready(f"exporter={gone}")
    assert code == 1
    assert "refused" in said
    assert "exporter.affinityLabels" in said


def test_an_agent_that_comes_up_in_time_is_waited_for(ready):
    pages = {}
    with serving(pages) as url:
        threading.Timer(0.5, pages.update, [WELL]).start()
        code, said = ready(f"agent={url}", seconds="20")
    assert code == 0, said


@pytest.mark.parametrize(
    "page",
    [metrics("history"), metrics("history", done=1, end_age=2 * HOUR)],
    ids=["started anew, all hours were read", "has read the last hour"],
)
def test_an_agent_that_has_read_its_prometheus_passes(ready, page):
    with serving(WELL | {"/metrics": (200, page)}) as url:
        code, said = ready(f"agent={url}")
    assert (code, said.splitlines()[-1]) == (0, "ok   reading: Prometheus")


@pytest.mark.system
def test_a_real_exporter_and_agent_pass_and_fail_once_the_exporter_stopped(ready, start, tmp_path):
    exporter = start(
        "gputailor_exporter",
        *("--backend", "simulated", "--scenario", "demo", "--node", "a100-0"),
        *("--listen", "127.0.0.1:0"),
    )
    agent = start(
        "gputailor_agent.cli.entry",
        *("serve", "--target", exporter.url(), "--store", str(tmp_path / "store.db")),
        *("--listen", "127.0.0.1:0", "--scrape-seconds", "1", "--no-kubernetes"),
    )
    places = (f"exporter={exporter.url()}", f"agent={agent.url()}")
    code, said = ready(*places, seconds="60")
    assert code == 0, said
    assert said.splitlines()[-1].startswith("ok   reading")
    exporter.stop()
    code, said = ready(*places)
    assert code == 1
    assert said.startswith("FAIL")
