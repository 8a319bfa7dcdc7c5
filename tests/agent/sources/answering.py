"""A Prometheus of a test that answers what it is told to, in turn."""

from urllib.parse import parse_qs

import httpx
import pytest

from gputailor_agent.sources.prometheus.client import Access, PrometheusClient, PrometheusError

EMPTY = {"status": "success", "data": {"resultType": "vector", "result": []}}


class Server:
    """Answers in turn; remembers requests."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.requests = []
        self.pauses = []

    def __call__(self, request):
        self.requests.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, httpx.Response) else httpx.Response(200, json=answer)

    def client(self, url="http://prom:9090", *, budget=None, **access):
        return PrometheusClient(
            url,
            Access(**access),
            budget=budget,
            transport=httpx.MockTransport(self),
            sleep=self.pauses.append,
            jitter=lambda: 1.0,
            clock=lambda: 1_768_046_430.0,
        )


def form(request):
    return {name: values[0] for name, values in parse_qs(request.content.decode()).items()}


def refused(server, **access):
    with server.client(**access) as client, pytest.raises(PrometheusError) as caught:
        client.query("up", 0)
    return str(caught.value)
