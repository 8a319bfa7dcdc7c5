"""Where the agent scrapes exporters itself: what it opens is what the NetworkPolicies let through.

With nothing configured, and with PostgreSQL, mail and a webhook; and exporters that let in only who
shows a certificate and a password. Real: API server, Helm, exporter, agent, PostgreSQL, SMTP server.
The way by a Prometheus: test_cluster.py.
"""

import json
import re
import time
from pathlib import Path

import bcrypt
import pytest

from gputailor_agent import metrics
from gputailor_agent.store import Store
from tests import postgres
from tests.fakes.fixtures import fake_driver, fake_nvml_library
from tests.fakes.hooks import Hook
from tests.fakes.mailbox import PASSWORD, USER, certificate
from tests.system import chart_parts
from tests.system import cluster_parts as parts
from tests.system.cluster_fixtures import (
    DAY,
    control_plane,
    exporter,
    helm,
    mailbox,
    namespace,
    nodes,
    site,
)
from tests.system.flow_parts import allowed, listening, reached
from tests.testbed.servers import eventually

__all__ = [
    "control_plane",
    "exporter",
    "fake_driver",
    "fake_nvml_library",
    "helm",
    "mailbox",
    "namespace",
    "nodes",
    "site",
]

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

SERVICE = "[gputailor]\nhost=127.0.0.1\nport={port}\ndbname={name}\nuser=test\n"
SIMULATED = ("--backend", "simulated", "--scenario", "demo", "--node", "a100-0")
PATIENCE = 90


def port_of(url):
    return int(url.rpartition(":")[2])


@pytest.fixture
def given(site):
    """A function that makes a Secret, or another kind, of texts."""

    def call(kind, name, texts):
        about = {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}}
        field = "stringData" if kind == "Secret" else "data"
        site.plane.apply({**about, field: texts}, site.namespace)

    return call


@pytest.fixture
def run(site, helm, start):
    """A function that installs the chart with values and starts its agent, which tells its flows.

    ``target``: where the exporters are, for no Service has a name here.
    """
    where = ("-n", site.namespace)

    def call(target, values):
        file = site.folder / "values.yaml"
        file.write_text(json.dumps({"clusterName": "blue", **values}), "utf-8")
        helm("install", "gt", str(parts.CHART), *where, "-f", str(file), cluster=site.plane)
        installed = chart_parts.installed(
            site.plane, site.namespace, site.folder, "", targets=[target]
        )
        environment = site.flows["agent"].environment(installed.environment)
        return start("gputailor_agent.cli.entry", *installed.arguments, env=environment)

    yield call
    helm("uninstall", "gt", *where, cluster=site.plane)


def closed(exporter, agent, egress=()):
    """Values with policies, exporters at the port of the one that runs, and its target."""
    port = port_of(exporter.url())
    policy = {"enabled": True, "agentEgress": list(egress)}
    values = {"exporter": {"port": port}, "agent": agent, "networkPolicy": policy}
    # As the chart has it, but for the host.
    return f"dns+http://localhost:{port}/metrics", values


def opened(site, process):
    """Ports that the agent connects or connected to: libpq's are seen while they last."""
    return {port for _, port in site.flows["agent"].connected} | reached(process.popen.pid)


def watched(site, process, done):
    """All that was opened until ``done``, which is asked again and again."""
    found = set()

    def look():
        found.update(opened(site, process))
        assert process.popen.poll() is None, process.output[-2000:]
        return done()

    eventually(look, "everything was spoken to", PATIENCE)
    return found | opened(site, process)


def check(site, found, process, exporter, others=()):
    """What was opened are the places that are known, and the policies let through each of them."""
    api, exporters = port_of(site.plane.url), port_of(exporter.url())
    assert found == {api, exporters, *others}
    out = allowed(site.plane.get("networkpolicies", site.namespace))
    # The API server's port is another one in clusters; names are asked for at 53.
    assert {exporters, *others, 53, 443, 6443} <= out["agent"]
    assert out["exporter"] == set()
    assert site.flows["exporter"].connected == set()
    assert [len(listening(one.popen.pid)) for one in (process, exporter)] == [1, 1]


def test_by_itself_the_agent_opens_the_api_server_and_its_exporters(site, run, exporter):
    process = run(*closed(exporter, {"settings": {"scrape_seconds": 1}}))
    ready = f"{process.url(PATIENCE)}/readyz"
    found = watched(site, process, lambda: parts.fetch(ready).is_success)
    check(site, found, process, exporter)


def delivering(mailbox, postgresql):
    """Values of the agent: a report that is due, by mail and webhook, and a database."""
    return {
        "postgresql": {"existingSecret": "database", "port": postgresql.port},
        "settings": {
            "scrape_seconds": 1,
            "report_cron": parts.cron_that_fired(time.time()),
            "mail_to": ["ops@example.org"],
            "mail_from": "gpu@example.org",
            "smtp_host": "127.0.0.1",
            "smtp_port": mailbox.port,
            "smtp_username": USER,
        },
        "secretFiles": {
            "smtp_password_file": {"name": "letters", "key": "password"},
            "webhook_url_file": {"name": "letters", "key": "hook"},
        },
        "configFiles": {"smtp_ca_file": {"name": "authority", "key": "ca.crt"}},
    }


def test_with_a_database_mail_and_a_webhook_each_connection_is_in_the_policies(
    site, given, run, exporter, mailbox
):
    with postgres.running() as server, Hook() as hook:
        database = server.empty().rpartition("/")[2]
        service = SERVICE.format(port=server.port, name=database)
        given("Secret", "database", {"pg_service.conf": service})
        given("Secret", "letters", {"password": PASSWORD, "hook": hook.url})
        given("ConfigMap", "authority", {"ca.crt": Path(mailbox.ca_file).read_text("utf-8")})
        egress = [{"ports": [{"port": hook.server_port}]}]
        with Store.open(server.url(database)) as store, store.transaction() as tx:
            tx.mark_period("blue/start", "first", at=time.time() - 8 * DAY)
        process = run(*closed(exporter, delivering(mailbox, server), egress))
        process.url(PATIENCE)
        found = watched(site, process, lambda: mailbox.mails and hook.got)
        check(site, found, process, exporter, (server.port, mailbox.port, hook.server_port))
        assert PASSWORD not in process.output
        assert process.stop() == 0


GUARDED = {
    "exporter": {"web": {"existingSecret": "web", "tls": True, "clientCertificates": True}},
    "agent": {
        "settings": {"targets_username": "agent", "scrape_seconds": 1},
        "secretFiles": {
            "targets_password_file": {"name": "login", "key": "password"},
            "targets_certificate_file": {"name": "login", "key": "tls.crt"},
            "targets_key_file": {"name": "login", "key": "tls.key"},
        },
        "configFiles": {"targets_ca_file": {"name": "authority", "key": "ca.crt"}},
    },
}


def test_exporters_with_certificates_and_a_password_are_read_as_the_chart_tells_the_agent(
    given, run, start, tmp_path
):
    ours, key = certificate(tmp_path / "exporter")
    mine, my_key = certificate(tmp_path / "client")
    word = bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(4)).decode()
    tls = {"cert_file": str(ours), "key_file": str(key), "client_ca_file": str(mine)}
    tls["client_auth_type"] = "RequireAndVerifyClientCert"
    web = tmp_path / "web.yml"
    told = {"tls_server_config": tls, "basic_auth_users": {"agent": word}}
    web.write_text(json.dumps(told), "utf-8")
    places = ("--listen", "127.0.0.1:0", "--web-config", str(web))
    exporter = start("gputailor_exporter", *SIMULATED, *places)
    (port,) = eventually(lambda: listening(exporter.popen.pid), "it listens")
    given("Secret", "web", {"web.yml": web.read_text("utf-8")})
    login = {"password": PASSWORD, "tls.crt": mine.read_text(), "tls.key": my_key.read_text()}
    given("Secret", "login", login)
    given("ConfigMap", "authority", {"ca.crt": ours.read_text("utf-8")})
    process = run(f"https://127.0.0.1:{port}", GUARDED)
    page = f"{process.url(PATIENCE)}/metrics"
    done = re.compile(rf'^{metrics.SCRAPES.name}{{.*outcome="read".*}} [1-9]', re.MULTILINE)
    eventually(lambda: done.search(parts.fetch(page).text), "it is scraped", PATIENCE)
    assert PASSWORD not in process.output
