"""A cluster whose time a test makes pass: exporter page, mail, web hook and chat in one.

Time moves on only when the exporter was asked, by minutes or hours at once, so an agent that runs
for seconds lives through days, and what the page tells fits the time the agent asked at. The agent
itself is the real process; its clocks are set from outside (tests/fakes/clock.py).
"""

import itertools
import json
import os
import random
import signal
import sys
import time
from collections import Counter
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock, Thread

from gputailor_agent.store import KeptReport, Outbox, Store
from gputailor_agent.store.outbox import SENDING
from tests.fakes.clock import ShiftedClock
from tests.fakes.fixtures import cache_folder
from tests.fakes.mailbox import Mailbox
from tests.processes import Process

DAY, HOUR = 86_400.0, 3600.0
MAIL_TO = ("ops@example.org", "boss@example.org")
CHAT = "gpu-room"
ACTIVE = 0.5  # of the time the pod's device works
_PLAIN = "text/plain; version=0.0.4; charset=utf-8"


class Cluster:
    """One pod on one device since ``began``, seen by an exporter; and who gets reports."""

    def __init__(self, folder: Path, chance: random.Random, steps=(600.0, 6 * HOUR)) -> None:
        self.folder, self.chance, self.steps = folder, chance, steps
        self.clock = ShiftedClock(folder / "clock", cache_folder())
        self.shift = self._skew = 0.0
        self.began = float(int(time.time()))
        self.asked: list[float] = []  # simulated times of pages
        self.posted: list[tuple[str, dict]] = []  # key and body of web calls
        self.chatted: list[str] = []  # titles of what the chat was sent
        self.box = Mailbox(folder)
        self.on_message = lambda: None  # called when a message has arrived, before it is answered
        self._lock = Lock()

    def now(self) -> float:
        return time.time() + self.shift

    def go_on(self, seconds: float) -> None:
        with self._lock:
            self.shift += seconds
            self.clock.set(wall_seconds=self.shift + self._skew)

    def skew(self, seconds: float) -> None:
        """Set the agent's clock alone so far off; everybody else's goes on."""
        with self._lock:
            self._skew = seconds
            self.clock.set(wall_seconds=self.shift + seconds)

    def page(self) -> str:
        now = self.now()
        self.asked.append(now)
        held = now - self.began
        device = 'node="n1",gpu="0",gpu_uuid="GPU-1"'
        pod = (
            'node="n1",namespace="team",pod="lives",pod_uid="u1",container="main",gpu_uuid="GPU-1"'
        )
        lines = [
            f"process_start_time_seconds {self.began}",
            f'gputailor_device_info{{{device},vendor="nvidia",model="NVIDIA L4"}} 1',
            f"gputailor_device_memory_total_bytes{{{device}}} 24152899584",
            f'gputailor_container_gpu_allocated{{{pod},sharing="none"}} 1',
            f"gputailor_container_gpu_allocated_seconds_total{{{pod}}} {held}",
            f"gputailor_container_gpu_memory_peak_bytes{{{pod}}} 20000000000",
            f"gputailor_container_gpu_last_active_timestamp_seconds{{{pod}}} {now - 1}",
        ]
        for signal_name, share in (("kernel", ACTIVE), ("encoder", 0.0), ("decoder", 0.0)):
            labels = f'{pod},signal="{signal_name}"'
            lines += [
                f"gputailor_container_gpu_active_seconds_total{{{labels}}} {held * share}",
                f"gputailor_container_gpu_observed_seconds_total{{{labels}}} {held}",
            ]
        return "\n".join(lines) + "\n"

    @contextmanager
    def running(self):
        """Within: the exporter, the mail server, the web receiver and the chat answer."""
        cluster = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = cluster.page().encode()
                # before the answer: once it has that, the agent may look at the clock again, and
                # would date the next page by a time at which it was not made
                cluster.go_on(cluster.chance.uniform(*cluster.steps))
                self._answer(200, body, _PLAIN)

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if self.path == "/chat":
                    cluster.chatted.append(body["title"])
                else:
                    cluster.posted.append((self.headers["Idempotency-Key"], body))
                cluster.on_message()
                self._answer(204, b"", _PLAIN)

            def _answer(self, status: int, body: bytes, kind: str) -> None:
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_arguments: object) -> None:
                pass

        taken = self.box.handle_DATA

        async def handle_data(*arguments):
            answer = await taken(*arguments)
            cluster.on_message()
            return answer

        self.box.handle_DATA = handle_data
        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        server.handle_error = lambda *_: None  # the agent was killed in the middle of a call
        Thread(target=server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{server.server_port}"
        try:
            with self.box:
                yield self
        finally:
            server.shutdown()
            server.server_close()

    def environment(self) -> dict[str, str]:
        channels = self.folder / "channels.yaml"
        channels.write_text(f"{CHAT}: {self.url.replace('http', 'json', 1)}/chat\n")
        return {
            **os.environ,
            **self.clock.environment(),
            "GPUTAILOR_MAIL_TO": ",".join(MAIL_TO),
            "GPUTAILOR_MAIL_FROM": "gpu@example.org",
            "GPUTAILOR_SMTP_HOST": "127.0.0.1",
            "GPUTAILOR_SMTP_PORT": str(self.box.port),
            "GPUTAILOR_SMTP_TLS": "none",
            "GPUTAILOR_WEBHOOK_URL": f"{self.url}/hook",
            "GPUTAILOR_CHANNELS_FILE": str(channels),
            "GPUTAILOR_NOTICES": "false",
        }


class Agents:
    """The agent of a cluster over a store, started again and again."""

    def __init__(self, cluster: Cluster, store: str) -> None:
        self.cluster, self.store = cluster, store
        self.kills = 0
        self.in_flight: Counter[tuple] = Counter()  # letters that a kill found being sent
        self.process = None
        self._number = itertools.count()

    def start(self, *more: str) -> Process:
        log = self.cluster.folder / f"agent-{next(self._number)}.log"
        command = [
            *(sys.executable, "-m", "gputailor_agent.cli.entry", "serve"),
            *("--cluster", "test", "--store", self.store, "--target", self.cluster.url),
            *("--scrape-seconds", "0.25", "--listen", "127.0.0.1:0", "--no-kubernetes"),
            *more,
        ]
        self.process = Process(command, log, self.cluster.environment())
        return self.process

    def kill(self) -> None:
        """SIGKILL, and what it found under way."""
        self.process.popen.send_signal(signal.SIGKILL)
        self.process.popen.wait()
        self.kills += 1
        for letter in self.letters():
            if letter.state == SENDING:
                self.in_flight[letter.key] += 1

    def letters(self):
        with Store.open(self.store) as store, store.transaction() as tx:
            return Outbox(tx).letters("test")

    def live(self, seconds: float, kill_at_message: bool) -> None:
        """Let an agent run for so long, then kill it; or at its next message, if one comes."""
        cluster, process = self.cluster, self.start()
        armed = [kill_at_message]

        def on_message() -> None:
            if armed.pop() if armed else False:
                process.popen.send_signal(signal.SIGKILL)

        cluster.on_message = on_message
        pages = len(cluster.asked)
        until = time.monotonic() + 60
        # every tenth dies while it starts, whenever that is
        while len(cluster.asked) == pages and process.popen.poll() is None and seconds >= 0:
            assert time.monotonic() < until, process.output
            time.sleep(0.02)
        until = time.monotonic() + abs(seconds)
        while time.monotonic() < until and process.popen.poll() is None:
            time.sleep(0.02)
        cluster.on_message = lambda: None
        ended = process.popen.poll()
        assert ended in {None, -signal.SIGKILL}, process.output
        self.kill()

    def first(self) -> None:
        """One that keeps what it saw: of what was before that, nobody could tell later."""
        process = self.start()
        until = time.monotonic() + 60
        while not self._kept():
            assert time.monotonic() < until, process.output
            time.sleep(0.1)
        assert process.stop() == 0, process.output

    def _kept(self) -> bool:
        with Store.open(self.store) as store:
            return bool(self.cluster.asked) and store.checkpoint("test/rollup") is not None

    def last(self, seconds: float) -> None:
        """One that is not killed, in the cluster's own time: it sends what is left, and ends."""
        self.cluster.steps = (1.0, 20.0)
        pages = len(self.cluster.asked)
        self.start()
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            looked = len(self.cluster.asked) - pages
            if looked > 8 and {letter.state for letter in self.letters()} == {"sent"}:
                break
            time.sleep(0.2)
        assert self.process.stop() == 0, self.process.output

    def end(self) -> None:
        if self.process is not None:
            self.process.end()


def check_hours(cluster: Cluster, store: str) -> int:
    """Every hour between the first and the last page is there once and whole; returns how many."""
    first, last = cluster.asked[0], cluster.asked[-1]
    with Store.open(store) as opened:
        rows = [row for row in opened.usage("test", 0, last + DAY) if row.key.pod == "lives"]
    hours = Counter(row.key.hour for row in rows)
    assert max(hours.values()) == 1, hours.most_common(3)
    wanted = set(range(int(first // HOUR * HOUR), int(last), int(HOUR)))
    assert set(hours) == wanted, (sorted(wanted - set(hours)), sorted(set(hours) - wanted))
    whole = [row for row in rows if first < row.key.hour and row.key.hour + HOUR < last]
    seconds = {row.key.hour: row.allocated_seconds for row in whole}
    assert all(abs(one - HOUR) < 1 for one in seconds.values()), seconds
    active = {row.key.hour: row.signals["kernel"].active_seconds for row in whole}
    assert all(abs(one - HOUR * ACTIVE) < 1 for one in active.values()), active
    total = sum(row.allocated_seconds for row in rows)
    assert abs(total - (last - max(cluster.began, min(first, last)))) < HOUR, (total, first, last)
    return len(wanted)


def _late(report: KeptReport) -> bool:
    due = datetime.fromisoformat(report.period).replace(tzinfo=UTC).timestamp()
    return report.made_at - due > HOUR


def check_reports(cluster: Cluster, agents: Agents) -> dict[str, int]:
    """Each report reached every receiver with one key, twice only after a kill while it was sent."""
    with Store.open(agents.store) as store:
        kept = {one.period: store.report("test", one.period) for one in store.reports("test")}
        late = {one.period for one in store.reports("test") if _late(one)}
    assert kept
    for period, (document, _) in kept.items():
        told = any("late" in line for line in json.loads(document)["plan"]["problems"])
        assert told == (period in late), period
    arrived: Counter[tuple[str, str]] = Counter()
    keys: dict[tuple[str, str], set[str]] = {}
    titles: dict[str, str] = {}  # a chat is told no key and no period: it knows a report by this
    for mail in cluster.box.mails:
        place = (mail["X-Gputailor-Period"], str(mail["To"]))
        titles[str(mail["Subject"])] = place[0]
        arrived[place] += 1
        keys.setdefault(place, set()).add(str(mail["Message-ID"]))
        attached = json.loads(next(mail.iter_attachments()).get_content())
        assert attached == json.loads(kept[place[0]][0])
    for key, body in cluster.posted:
        place = (body["period"], "hook")
        arrived[place] += 1
        keys.setdefault(place, set()).add(key)
        assert body["document"] == json.loads(kept[place[0]][0])
    assert len(titles) == len(kept), titles
    arrived.update((titles[title], CHAT) for title in cluster.chatted)
    wanted = {(period, receiver) for period in kept for receiver in (*MAIL_TO, "hook", CHAT)}
    assert set(arrived) == wanted, (set(arrived) ^ wanted, agents.letters())
    assert all(len(found) == 1 for found in keys.values()), keys
    assert len(set.union(*keys.values())) == len(wanted) - len(kept)  # all but the chat's
    for letter in agents.letters():
        receiver = "hook" if letter.channel == "webhook" else letter.recipient
        count = arrived[letter.period, receiver]
        assert count <= 1 + agents.in_flight[letter.key], letter
    return {
        "reports": len(kept),
        "messages": len(wanted),
        "arrived twice": sum(count == 2 for count in arrived.values()),
        "arrived more often": sum(count > 2 for count in arrived.values()),
    }


def crash(folder: Path, store: str, kills: int, seed: int, *, weeks: float) -> dict[str, object]:
    """Kill an agent so many times at random moments over so many simulated weeks, then check."""
    chance = random.Random(seed)
    cluster = Cluster(folder, chance)
    began = time.monotonic()
    with cluster.running():
        agents = Agents(cluster, store)
        try:
            agents.first()
            for number in range(kills):
                starting = number % 10 == 9
                seconds = -chance.uniform(0.2, 2.0) if starting else chance.uniform(0.0, 2.0)
                agents.live(seconds, kill_at_message=chance.random() < 0.5)
                left = weeks * 7 * DAY - (cluster.now() - cluster.began)
                share = max(0.0, left) / (kills - number)
                cluster.go_on(chance.uniform(0.2, 1.0) * share)
            agents.last(40)
        finally:
            agents.end()
        found = check_reports(cluster, agents)
        hours = check_hours(cluster, store)
    return {
        "kills": agents.kills,
        "weeks": round((cluster.now() - cluster.began) / (7 * DAY), 1),
        "hours": hours,
        "kills while a message was under way": sum(agents.in_flight.values()),
        "seconds": round(time.monotonic() - began),
        **found,
    }
