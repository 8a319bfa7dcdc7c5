"""Routes and inhibitions for Alertmanager fit the alerts that there are."""

import re
import shutil
import subprocess

import yaml

from gputailor_dashboards.alerts import ALERTS
from gputailor_dashboards.routing import EXAMPLE, INHIBITIONS, configuration
from gputailor_dashboards.rules import Severity

NAMES = {alert.name for alert in ALERTS}
MATCHER = re.compile(r'^[a-z_]+(=|=~|!=|!~)"[^"]+"$')


def routes(route):
    yield route
    for one in route.get("routes", ()):
        yield from routes(one)


def matches(route, labels):
    for matcher in route.get("matchers", ()):
        name, way, value = re.match(r'([a-z_]+)(=~?)"([^"]+)"', matcher).groups()
        found = labels[name]
        if not (re.fullmatch(value, found) if way == "=~" else value == found):
            return False
    return True


def receiver(labels):
    """As Alertmanager walks its tree: the first child that matches, the deepest one."""
    route = configuration()["route"]
    while True:
        child = next((one for one in route.get("routes", ()) if matches(one, labels)), None)
        if child is None:
            return route["receiver"]
        route = child


def test_the_example_is_the_configuration():
    assert yaml.safe_load(EXAMPLE) == configuration()


def test_every_route_has_a_receiver_that_is_there_and_matchers_of_todays_form():
    document = configuration()
    receivers = {one["name"] for one in document["receivers"]}
    for route in routes(document["route"]):
        assert route["receiver"] in receivers
        assert all(MATCHER.match(one) for one in route.get("matchers", ()))


def test_alerts_go_by_their_severity_and_idleness_to_its_owners():
    for alert in ALERTS:
        labels = {"alertname": alert.name, "severity": alert.severity.value}
        wanted = "owners" if alert.name == "GpuAllocationIdle" else alert.severity.value
        assert receiver(labels) == f"gpu-{wanted}"
    assert {alert.severity for alert in ALERTS} == set(Severity)


def test_what_is_critical_is_told_first():
    waits = {
        one["receiver"]: one["group_wait"]
        for one in routes(configuration()["route"])
        if "group_wait" in one
    }
    assert waits["gpu-critical"] == "30s"


def test_inhibitions_name_alerts_that_are_there_and_none_silences_itself():
    for one in INHIBITIONS:
        assert {one.cause, *one.effects} <= NAMES
        assert one.cause not in one.effects
        assert one.equal
        document = one.document()
        assert all(
            MATCHER.match(each)
            for each in (*document["source_matchers"], *document["target_matchers"])
        )


def test_no_cause_is_silenced_by_its_own_effect():
    pairs = {(one.cause, effect) for one in INHIBITIONS for effect in one.effects}
    assert not {(effect, cause) for cause, effect in pairs} & pairs


def test_labels_that_have_to_be_equal_are_labels_of_both():
    expressions = {alert.name: alert.expr for alert in ALERTS}
    for one in INHIBITIONS:
        for name in (one.cause, *one.effects):
            if "up[15m]" in expressions[name]:
                continue  # labels of the target itself, cluster among them
            by = " ".join(re.findall(r"by \(([^)]*)\)", expressions[name]))
            assert set(one.equal) <= set(re.findall(r"\w+", by)), name


KEYS = {"receiver", "matchers", "routes", "group_by", "group_wait", "repeat_interval"}


def test_alertmanager_would_read_it(tmp_path):
    """By its own amtool where that is at hand, by the names of its documentation anyway."""
    document = configuration()
    assert set(document) == {"route", "inhibit_rules", "receivers"}
    assert all(set(route) <= KEYS for route in routes(document["route"]))
    assert all(set(one) == {"name", "webhook_configs"} for one in document["receivers"])
    tool = shutil.which("amtool")
    if tool is None:
        return
    path = tmp_path / "alertmanager.yaml"
    path.write_text(EXAMPLE, "utf-8")
    done = subprocess.run(
        [tool, "check-config", path], capture_output=True, text=True, check=False, timeout=30
    )
    assert done.returncode == 0, done.stdout + done.stderr
