"""How far apart a job's samples are is learned once, and again only where it changed."""

from urllib.parse import parse_qs

import httpx
import pytest

from gputailor_agent.sources.prometheus import PrometheusSource
from tests.agent.dialects import served

LABELS = {"UUID": "GPU-0", "Hostname": "n", "job": "dcgm", "instance": "n:9400", "pod": "p"}
METRICS = ("DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_FB_USED", "DCGM_FI_PROF_SM_ACTIVE")


class Listening:
    """A server of three groups of gauges that remembers for which hours it was asked raw samples.

    From ``slower`` (Unix seconds) on it is scraped half as often.
    """

    def __init__(self, slower=None):
        self.answers = served.Served(({"__name__": name, **LABELS}, 0.5) for name in METRICS)
        self.slower = slower
        self.raw = []

    def __call__(self, request):
        form = {name: told[0] for name, told in parse_qs(request.content.decode()).items()}
        at = float(form.get("end") or form.get("time") or 0)
        if form.get("query", "").endswith("[900s]"):
            self.raw.append((at - served.BEGIN - 1) // served.HOUR)
        with pytest.MonkeyPatch.context() as patch:
            if self.slower is not None and at > self.slower:
                patch.setattr(served, "SCRAPE", 2 * served.SCRAPE)
            return self.answers(request)


def read(server, hours=4):
    with PrometheusSource("http://p", "c", transport=httpx.MockTransport(server)) as source:
        readings = list(source.hours(served.BEGIN, served.BEGIN + hours * served.HOUR))
    return [
        {count.interval_seconds for gauges in one.gauges for count in gauges.counts}
        for one in readings
    ]


def test_it_is_learned_once_for_all_groups_and_hours():
    server = Listening()
    assert read(server) == [{served.SCRAPE}] * 4
    assert server.raw == [0.0]


def test_it_is_learned_again_when_it_changes():
    server = Listening(slower=served.BEGIN + 2 * served.HOUR)
    assert read(server) == [{served.SCRAPE}] * 2 + [{2 * served.SCRAPE}] * 2
    assert server.raw == [0.0, 2.0]
