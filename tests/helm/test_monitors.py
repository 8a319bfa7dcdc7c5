"""What the chart makes for Prometheus, VictoriaMetrics and Grafana, and when."""

import json
import shlex

import pytest

from gputailor_dashboards.boards.board import DIALECTS
from gputailor_dashboards.compacting import without_defaults
from tests.helm.conftest import api_versions
from tests.helm.objects import WORKLOADS, of_kind, one, selects
from tests.helm.value_sets import ALL_ON, VALUE_SETS

pytestmark = pytest.mark.system

BY_FORCE = VALUE_SETS["everything for Prometheus by force"]
#: Dashboards and rules on every exporter that there is some for.
OTHERS = {key: True for key in DIALECTS if key != "gputailor"}
OPERATOR = api_versions("monitoring.coreos.com")
VICTORIA = api_versions("victoriametrics")
LARGEST_OBJECT = 262_144
#: Bytes of all objects; a megabyte is the limit, and what grows towards it is to be noticed before.
LARGEST_CHART = 900_000
MONITORS = ("ServiceMonitor", "PodMonitor", "VMServiceScrape")
RULES = ("PrometheusRule", "VMRule")
#: What ALL_ON lacks by intent.
WHOLE = {
    "monitoring": {
        "labels": {"release": "stack"},
        "exporterEndpoint": {"tlsConfig": {"insecureSkipVerify": True}},
    }
}
LABELLED = {"monitoring": {"labels": {"release": "stack"}}}


def annotated(objects):
    """Names of workloads whose pods ask to be scraped by annotations."""
    return {
        each["metadata"]["name"]
        for each in of_kind(objects, *WORKLOADS)
        if (each["spec"]["template"]["metadata"].get("annotations") or {}).get(
            "prometheus.io/scrape"
        )
    }


def kinds(objects):
    return {each["kind"] for each in objects} & {*MONITORS, *RULES, "GrafanaDashboard"}


@pytest.mark.parametrize("kind", ["ServiceMonitor", "PrometheusRule"])
def test_objects_of_the_operator_are_made_where_it_is_or_by_force(render, kind):
    off = {"serviceMonitor": {"enabled": False}, "prometheusRule": {"enabled": False}}
    assert not of_kind(render({}), kind)
    assert of_kind(render({}, *OPERATOR), kind)
    assert of_kind(render(BY_FORCE), kind)
    assert not of_kind(render(off, *OPERATOR), kind)


def test_monitors_of_pods_come_instead_of_those_of_services(render):
    objects = render(VALUE_SETS["scraped by pod"], *OPERATOR)
    assert kinds(objects) == {"PodMonitor", "PrometheusRule"}
    for monitor in of_kind(objects, "PodMonitor"):
        (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
        (workload,) = (
            each
            for each in of_kind(objects, *WORKLOADS)
            if selects(
                monitor["spec"]["selector"]["matchLabels"],
                each["spec"]["template"]["metadata"]["labels"],
            )
        )
        (container,) = workload["spec"]["template"]["spec"]["containers"]
        assert endpoint["port"] in {port["name"] for port in container["ports"]}
        assert endpoint["honorLabels"] is True


def test_victoriametrics_own_objects_come_where_prometheus_operator_is_not(render):
    assert kinds(render({}, *VICTORIA)) == {"VMServiceScrape", "VMRule"}
    assert kinds(render({}, *VICTORIA, *OPERATOR)) == {"ServiceMonitor", "PrometheusRule"}
    assert kinds(render(VALUE_SETS["VictoriaMetrics"])) == {"VMServiceScrape", "VMRule"}
    assert kinds(render(VALUE_SETS["VictoriaMetrics"], *OPERATOR)) == {"VMServiceScrape", "VMRule"}
    assert kinds(render({"victoriaMetrics": {"enabled": False}}, *VICTORIA)) == set()


def test_victoriametrics_gets_the_rules_and_endpoints_of_prometheus(render):
    theirs = render(VALUE_SETS["VictoriaMetrics"])
    ours = render(BY_FORCE | {"dcgm": False, "serviceMonitor": {"enabled": True}})
    (rule,), (wanted,) = of_kind(theirs, "VMRule"), of_kind(ours, "PrometheusRule")
    assert rule["spec"] == wanted["spec"]
    found = [each["spec"] for each in of_kind(theirs, "VMServiceScrape")]
    assert found == [each["spec"] for each in of_kind(ours, "ServiceMonitor")]


def test_a_monitor_keeps_the_workloads_labels_and_leads_to_a_service(render):
    objects = render(BY_FORCE)
    monitors = of_kind(objects, "ServiceMonitor")
    assert len(monitors) == 2
    for monitor in monitors:
        (service,) = (
            each
            for each in of_kind(objects, "Service")
            if selects(monitor["spec"]["selector"]["matchLabels"], each["metadata"]["labels"])
        )
        (endpoint,) = monitor["spec"]["endpoints"]
        assert endpoint["honorLabels"] is True
        assert endpoint["port"] in {port["name"] for port in service["spec"]["ports"]}
        assert monitor["spec"]["namespaceSelector"] == {"matchNames": ["gpus"]}


def test_the_operators_label_reaches_monitors_and_rules(render):
    made = of_kind(render(BY_FORCE), "ServiceMonitor", "PrometheusRule")
    assert {each["kind"] for each in made} == {"ServiceMonitor", "PrometheusRule"}
    assert all(each["metadata"]["labels"]["release"] == "kube-prometheus-stack" for each in made)


def test_one_value_labels_monitors_and_rules_of_every_kind(render):
    made = of_kind(render(LABELLED, *OPERATOR), *MONITORS, *RULES)
    made += of_kind(render(LABELLED, *VICTORIA), *MONITORS, *RULES)
    made += of_kind(render(LABELLED | {"podMonitor": {"enabled": True}}), *MONITORS, *RULES)
    assert {each["kind"] for each in made} == {*MONITORS, *RULES}
    assert all(each["metadata"]["labels"]["release"] == "stack" for each in made)


def test_a_label_of_one_kind_wins_over_that_of_all(render):
    values = LABELLED | {"serviceMonitor": {"enabled": True, "labels": {"release": "other"}}}
    assert {
        each["metadata"]["labels"]["release"] for each in of_kind(render(values), "ServiceMonitor")
    } == {"other"}


def test_case_36_notes_print_the_fix_for_a_monitor_without_the_operators_label(notes):
    said = notes({"serviceMonitor": {"enabled": True}, "prometheusRule": {"enabled": True}})
    assert "MISSING  a label on monitors and rules." in said
    assert "kubectl get prometheus -A -o jsonpath=" in said
    fix = "helm upgrade gt CHART -n gpus --reset-then-reuse-values --set"
    assert f"{fix} monitoring.labels.release=RELEASE" in said


def test_case_36_the_fix_that_notes_print_does_what_it_says(notes, helm, chart, render):
    forced = {"serviceMonitor": {"enabled": True}, "prometheusRule": {"enabled": True}}
    (line,) = (each for each in notes(forced).splitlines() if "labels.release=RELEASE" in each)
    _, flag, value = shlex.split(line.replace("RELEASE", "stack"))[-3:]
    made = of_kind(render(forced, flag, value), *MONITORS, *RULES)
    assert {each["kind"] for each in made} == {"ServiceMonitor", "PrometheusRule"}
    assert all(each["metadata"]["labels"]["release"] == "stack" for each in made)


def test_case_36_notes_of_labelled_monitors_name_the_label_to_compare(notes):
    said = notes(LABELLED | {"serviceMonitor": {"enabled": True}})
    assert "MISSING  a label" not in said
    assert 'by the labels {"release":"stack"}' in said
    assert "kubectl get prometheus -A -o jsonpath=" in said


def test_notes_say_what_to_open_and_how_to_check(notes):
    said = notes({})
    assert "kubectl -n gpus port-forward svc/gt-gputailor-agent 8080" in said
    assert "helm test gt -n gpus --logs" in said
    assert "kubectl -n gpus get daemonset gt-gputailor-exporter" in said
    ingress = notes(VALUE_SETS["an Ingress with a login"])
    assert "https://gputailor.example.org/" in ingress


def test_notes_say_who_is_let_in(notes):
    """Nobody, until tokens or a proxy are named; everybody only where a value says so."""
    fix = "agent.secretFiles.web_token_file.name=gt-gputailor-web"
    assert fix in notes({})
    assert 'create secret generic gt-gputailor-web --from-literal=tokens="me $(' in notes({})
    token = {"secretFiles": {"web_token_file": {"name": "web", "key": "tokens"}}}
    proxy = {"settings": {"web_trusted_proxies": ["10.0.0.7"]}}
    everybody = {"settings": {"web_anonymous": True}}
    for agent in (token, proxy, everybody):
        said = notes({"agent": agent})
        assert fix not in said
        assert ("whoever reaches the address reads everything" in said) == (agent is everybody)


def test_notes_of_a_whole_installation_miss_nothing(notes):
    assert "MISSING" not in notes(ALL_ON | WHOLE)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({}, "--set image.registry=REGISTRY"),
        ({}, "--set clusterName=NAME"),
        ({}, "--set preset=PRESET"),
        ({"agent": {"persistence": {"enabled": False}}}, "history is gone with the pod"),
    ],
)
def test_notes_name_what_is_missing_with_the_fix(notes, values, words):
    assert words in notes(values)


def test_without_monitors_pods_are_annotated_and_the_notes_say_how_to_get_them(render, notes):
    assert len(annotated(render({}))) == 2
    said = notes({})
    assert "MISSING  monitors: this cluster does not show the kinds" in said
    assert "--set serviceMonitor.enabled=true" in said
    assert "honor_labels: true" in said


def test_annotations_go_where_monitors_come_unless_they_are_wanted(render):
    assert not annotated(render({}, *OPERATOR))
    assert not annotated(render({}, *VICTORIA))
    assert not annotated(render(VALUE_SETS["no annotations"]))
    assert len(annotated(render(VALUE_SETS["annotations to scrape in any case"], *OPERATOR))) == 2


def test_a_monitor_of_exporters_with_tls_says_https_and_whom_to_trust(render):
    objects = render(VALUE_SETS["exporters with TLS"])
    (ours,) = one(objects, "ServiceMonitor", "-exporter")["spec"]["endpoints"]
    (agents,) = one(objects, "ServiceMonitor", "-agent")["spec"]["endpoints"]
    assert ours["scheme"] == "https"
    assert ours["tlsConfig"] == {"ca": {"secret": {"name": "ca", "key": "ca.crt"}}}
    assert not {"scheme", "tlsConfig"} & set(agents)


def test_notes_miss_the_authority_of_exporters_with_tls(notes):
    values = {
        "exporter": {"web": {"existingSecret": "web", "tls": True}},
        "agent": {"settings": {"prometheus_url": "http://prometheus:9090"}},
        "serviceMonitor": {"enabled": True},
    }
    assert "--set monitoring.exporterEndpoint.tlsConfig.ca.secret.name=SECRET" in notes(values)


def test_rules_stand_in_the_object_as_the_code_has_them(render, generate):
    specs = [rule["spec"] for rule in of_kind(render(BY_FORCE | OTHERS), "PrometheusRule")]
    wanted = [generate.publishing.rule_file(g) for g in generate.publishing.rule_groups().values()]
    assert sorted(specs, key=json.dumps) == sorted(wanted, key=json.dumps)


def test_dashboards_stand_in_config_maps_as_the_code_has_them(render, generate):
    found = {}
    for each in of_kind(render(BY_FORCE | OTHERS), "ConfigMap"):
        if each["metadata"]["labels"].get("grafana_dashboard") == "1":
            found |= {name.removesuffix(".json"): json.loads(t) for name, t in each["data"].items()}
    wanted = {name: generate.generating.dashboard(name) for name in found}
    assert found == {name: without_defaults(one) for name, one in wanted.items()}
    assert set(found) == set(generate.generating.BUILDERS)


def test_dashboards_and_rules_on_other_exporters_come_only_when_asked_for(render):
    def on(objects):
        names = {each["metadata"]["name"] for each in of_kind(objects, "ConfigMap", *RULES)}
        return {key for key in OTHERS for name in names if name.endswith(f"-{key}")}

    assert on(render({}, *OPERATOR)) == set()
    for key in OTHERS:
        assert on(render({key: True}, *OPERATOR)) == {key}


def test_a_dashboard_of_grafanas_operator_names_its_config_map(render):
    objects = render(VALUE_SETS["Grafana's operator"])
    maps = {each["metadata"]["name"]: each["data"] for each in of_kind(objects, "ConfigMap")}
    dashboards = of_kind(objects, "GrafanaDashboard")
    assert dashboards
    for each in dashboards:
        named = each["spec"]["configMapRef"]
        assert named["key"] in maps[named["name"]]
        assert each["spec"]["instanceSelector"]["matchLabels"]["team"] == "gpu"
        assert each["spec"]["folder"] == "GPU"


def test_no_object_is_too_large_for_kubectl_apply(rendered):
    assert max(len(json.dumps(each)) for each in rendered) < LARGEST_OBJECT


def test_the_whole_chart_with_all_on_stays_well_under_a_megabyte(render):
    sizes = {
        f"{each['kind']}/{each['metadata']['name']}": len(json.dumps(each))
        for each in render(ALL_ON)
    }
    assert sum(sizes.values()) < LARGEST_CHART, sorted(sizes.items(), key=lambda one: one[1])
