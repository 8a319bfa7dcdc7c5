"""Prometheus 3, its history, and kube-state-metrics as processes of a test."""

import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx

from tests.testbed.control_plane import ControlPlane
from tests.testbed.servers import HOST, Server, eventually, need, run, start_on_free_ports

At = float | datetime


class Prometheus:
    """A Prometheus server on a free port with a data folder of its own.

    ``restart`` keeps data and port; ``config`` may be changed by ``reload``.
    """

    def __init__(self, folder: Path, config: str, flags: Iterable[str] = ()) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.flags = tuple(flags)
        self.url = ""
        self.server: Server | None = None
        self._binary = need("prometheus", "promtool")["prometheus"]
        self.data.mkdir(parents=True, exist_ok=True)
        self._config = folder / "prometheus.yml"
        self._config.write_text(config, "utf-8")

    def start(self) -> "Prometheus":
        """Start it on a free port (on the same one after a stop); itself, when ready."""
        if self.url:
            self._begin(int(self.url.rsplit(":", 1)[1]))
        else:
            start_on_free_ports(1, lambda ports: self._begin(ports[0]))
        return self

    def _begin(self, port: int) -> None:
        url = f"http://{HOST}:{port}"
        self.server = Server(
            "prometheus",
            [
                self._binary,
                f"--config.file={self._config}",
                f"--storage.tsdb.path={self.data}",
                f"--web.listen-address={HOST}:{port}",
                "--web.enable-lifecycle",
                "--storage.tsdb.retention.time=400d",
                *self.flags,
            ],
            self.folder / "prometheus.log",
        )
        self.server.wait_ready(lambda: _get(f"{url}/-/ready").is_success)
        self.url = url

    def stop(self) -> None:
        """Stop it; its data stay."""
        if self.server is not None:
            self.server.stop()

    def restart(self) -> None:
        """Stop and start it on the same port and data."""
        self.stop()
        self.start()

    def reload(self, config: str | None = None) -> None:
        """Read its configuration (a new one) again; an AssertionError carries its complaint."""
        if config is not None:
            self._config.write_text(config, "utf-8")
        answer = httpx.post(f"{self.url}/-/reload", trust_env=False, timeout=30)
        assert answer.is_success, answer.text

    def api(self, path: str, **parameters: Any) -> Any:
        """The ``data`` of ``/api/v1/PATH``; an AssertionError carries the server's complaint."""
        asked = {name: _time(value) for name, value in parameters.items() if value is not None}
        answer = httpx.get(f"{self.url}/api/v1/{path}", params=asked, trust_env=False, timeout=60)
        assert answer.is_success, answer.text
        return answer.json()["data"]

    def query(self, expression: str, at: At | None = None) -> list[dict[str, Any]]:
        """Result of an instant query: ``[{"metric": {…}, "value": [time, "1"]}]``."""
        return list(self.api("query", query=expression, time=at)["result"])

    def value(self, expression: str, at: At | None = None) -> float | None:
        """The only value of an instant query; None where there is no series."""
        found = self.query(expression, at)
        assert len(found) <= 1, found
        return float(found[0]["value"][1]) if found else None

    def query_range(
        self, expression: str, start: At, end: At, step_seconds: float = 60.0
    ) -> list[dict[str, Any]]:
        """Result of a range query: ``[{"metric": {…}, "values": [[time, "1"], …]}]``."""
        asked = {"query": expression, "start": start, "end": end, "step": step_seconds}
        return list(self.api("query_range", **asked)["result"])

    def alerts(self) -> list[dict[str, Any]]:
        """The alerts that are pending or firing now."""
        return list(self.api("alerts")["alerts"])

    def wait_for(self, expression: str, seconds: float = 30.0) -> list[dict[str, Any]]:
        """Wait until an instant query has a result, and return it."""
        return eventually(lambda: self.query(expression), expression, seconds)


def write_history(openmetrics: Path | str, data: Path, *, block_duration: str = "10d") -> None:
    """Make Prometheus blocks of timestamped OpenMetrics text (or a file) in a data folder.

    To be called before the server starts on ``data`` (or it is restarted): it finds blocks at its
    start. Large blocks keep the number of files, and the time, small.
    """
    promtool = need("promtool")["promtool"]
    data.mkdir(parents=True, exist_ok=True)
    source = openmetrics
    if not isinstance(source, Path):
        source = data.parent / f"history-{time.monotonic_ns()}.om"
        source.write_text(str(openmetrics), "utf-8")
    run(
        [
            promtool,
            "tsdb",
            "create-blocks-from",
            f"--max-block-duration={block_duration}",
            "openmetrics",
            "--quiet",
            source,
            data,
        ],
        seconds=300,
    )


class KubeStateMetrics:
    """kube-state-metrics beside a control plane, on free ports."""

    def __init__(self, plane: ControlPlane, folder: Path, flags: Sequence[str] = ()) -> None:
        self.url = ""
        self.server: Server | None = None
        self._binary = need("kube-state-metrics")["kube-state-metrics"]
        self._plane = plane
        self._folder = folder
        self._flags = flags

    def start(self) -> "KubeStateMetrics":
        """Start it; itself, when it answers."""
        start_on_free_ports(2, self._begin)
        return self

    def _begin(self, ports: list[int]) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        url = f"http://{HOST}:{ports[0]}"
        self.server = Server(
            "kube-state-metrics",
            [
                self._binary,
                f"--kubeconfig={self._plane.kubeconfig_of('kube-state-metrics')}",
                f"--host={HOST}",
                f"--port={ports[0]}",
                f"--telemetry-host={HOST}",
                f"--telemetry-port={ports[1]}",
                *self._flags,
            ],
            self._folder / "kube-state-metrics.log",
        )
        self.server.wait_ready(lambda: "kube_namespace_created" in _get(f"{url}/metrics").text)
        self.url = url

    @property
    def target(self) -> str:
        """``host:port``, as a scrape configuration names it."""
        return self.url.removeprefix("http://")

    def page(self) -> str:
        """Its metrics page now."""
        return _get(f"{self.url}/metrics").text

    def stop(self) -> None:
        """Stop it."""
        if self.server is not None:
            self.server.stop()


def scrape_config(
    targets: Mapping[str, str], *, interval: str = "1s", rules: Iterable[Path] = (), more: str = ""
) -> str:
    """A Prometheus configuration: job names with their ``host:port``, rule files, more YAML."""
    lines = ["global:", f"  scrape_interval: {interval}", f"  evaluation_interval: {interval}"]
    files = [f"  - {path}" for path in rules]
    lines += ["rule_files:", *files] if files else []
    lines += ["scrape_configs:"]
    for job, target in targets.items():
        lines += [
            f"  - job_name: {job}",
            "    honor_labels: true",
            "    static_configs:",
            f"      - targets: ['{target.removeprefix('http://')}']",
        ]
    return "\n".join([*lines, more, ""])


def _get(url: str) -> httpx.Response:
    return httpx.get(url, trust_env=False, timeout=5)


def _time(value: Any) -> Any:
    return value.timestamp() if isinstance(value, datetime) else value
