"""From the driver's event to the mails of owner and admin, through every real part on the way:

fake driver library -> real pynvml -> exporter process -> HTTP scrape -> look at the counters ->
rule -> outbox -> SMTP server.
"""

import json
import time

import httpx
import pytest

from gputailor_agent.reports.delivery.settings import delivery_settings
from gputailor_agent.schedule.delivering import Delivery
from gputailor_agent.schedule.jobs.health import watch
from gputailor_agent.store import Store
from tests.fakes.mailbox import Mailbox
from tests.fakes.nvml import FakeEvent
from tests.system.test_whole_way import POD_UID, SHORT, h100, machine, node, pod
from tests.testbed.servers import eventually

pytestmark = [pytest.mark.system, pytest.mark.timeout(180)]

__all__ = ["machine"]


def mails_of(box):
    return {str(mail["To"]): mail for mail in box.mails}


def test_a_gpu_that_falls_off_the_bus_is_told_to_owner_and_admin(machine, tmp_path):
    gpu = machine.driver.add(h100(util_gpu=60.0))
    exporter = machine.run_exporter()
    eventually(lambda: httpx.get(f"{machine.url}/readyz").status_code == 200, "ready")
    machine.hand_out("train-0", POD_UID, [gpu.uuid])
    eventually(lambda: "train-0" in httpx.get(f"{machine.url}/metrics").text, "handed out")
    owned = pod("train-0", POD_UID, 1, time.time())
    owned["metadata"]["annotations"] = {"gputailor.io/notify": "owner@example.org"}
    with Mailbox(tmp_path / "box") as box, Store.open(f"sqlite:///{tmp_path}/s.db") as store:
        service = machine.service(store, [node(gpus=1), owned], SHORT)
        settings = delivery_settings(
            mail_to=["admin@example.org"],
            mail_from="gpu@example.org",
            smtp_host="127.0.0.1",
            smtp_port=box.port,
            smtp_tls="none",
        )
        service.parts.delivery = Delivery(settings, store, "test", clock=time.time)

        def look():
            service.tick_scrape(time.time())
            watch(service.parts, time.time())
            service.parts.delivery.run(time.time())
            return box.mails

        service.tick_scrape(time.time())
        service.recommend(time.time())
        for _ in range(3):
            assert look() == []
            time.sleep(1.0)
        gpu.events += [FakeEvent(13)]  # a program's error, of which nobody is told
        machine.driver.write()
        eventually(lambda: 'xid="13"' in httpx.get(f"{machine.url}/metrics").text, "Xid 13")
        assert look() == []
        gpu.events += [FakeEvent(79)]
        machine.driver.write()
        eventually(lambda: 'xid="79"' in httpx.get(f"{machine.url}/metrics").text, "Xid 79")
        eventually(look, "the mails")
        look()
    told = mails_of(box)
    assert len(box.mails) == len(told) == 2
    assert set(told) == {"owner@example.org", "admin@example.org"}
    mail = told["owner@example.org"]
    assert mail["Subject"].startswith("Unhealthy GPUs on test: team/train")
    text = " ".join(mail.get_body(("plain",)).get_content().split())
    for words in ("79: the GPU fell off the bus", "gpu-node-1", "kubectl cordon gpu-node-1"):
        assert words in text
    found = json.loads(next(mail.iter_attachments()).get_content())
    assert (found["rule"], found["severity"]) == ("health", "high")
    assert exporter.stop() == 0
