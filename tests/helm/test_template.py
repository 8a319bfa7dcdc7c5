"""What Helm makes of the chart, for every set of values: that its objects fit together."""

import re
import shlex
from urllib.parse import urlsplit

import pytest
import yaml

from gputailor_agent.inventory.live import rules
from tests.helm.objects import (
    WORKLOADS,
    containers,
    of_kind,
    one,
    pod_specs,
    selects,
    settings_text,
)
from tests.helm.value_sets import ALL_ON, NAMED_NAMESPACES, VALUE_SETS

pytestmark = pytest.mark.system

PATHS = {"startupProbe": "/healthz", "livenessProbe": "/healthz", "readinessProbe": "/readyz"}
#: Kinds without a namespace.
CLUSTER_WIDE = ("ClusterRole", "ClusterRoleBinding", "PriorityClass", "SecurityContextConstraints")


def test_the_same_values_give_the_same_text(helm, chart, values_file):
    command = ("template", "gt", str(chart), "-f", values_file(ALL_ON))
    assert helm(*command) == helm(*command)


def test_nothing_is_drawn_by_lot_or_looked_up_and_no_hook_runs_at_an_install(chart):
    for path in (chart / "templates").rglob("*.*"):
        text = path.read_text("utf-8")
        found = re.findall(r"\b(lookup|rand\w+|uuidv4|genCA\w*|now|htpasswd|bcrypt)\b", text)
        called = [name for name in found if re.search(rf"{{{{[^}}]*\b{name}\b", text)]
        assert not called, path.name
        assert set(re.findall(r"helm\.sh/hook: (\S+)", text)) <= {"test"}


def test_images_come_from_the_registry_that_was_named(render):
    objects = render(VALUE_SETS["own registry"])
    images = [container["image"] for container in containers(objects)]
    assert all(image.startswith("registry.example.com/gpu/gputailor-") for image in images)
    assert all(spec["imagePullSecrets"] == [{"name": "pull"}] for spec in pod_specs(objects))


def test_a_mirror_for_all_wins_and_pull_secrets_are_named_once(render):
    objects = render(VALUE_SETS["a mirror for all"])
    images = {container["image"] for container in containers(objects)}
    assert {image.rpartition("/")[0] for image in images} == {"mirror.local:5000/gpu"}
    for spec in pod_specs(objects):
        assert spec["imagePullSecrets"] == [{"name": "one"}, {"name": "two"}]


def test_a_digest_wins_over_the_tag(render):
    images = {each["image"] for each in containers(render(VALUE_SETS["images by digest"]))}
    assert images == {
        f"gputailor-exporter@sha256:{'a' * 64}",
        f"gputailor-agent@sha256:{'b' * 64}",
    }


def test_workloads_are_probed_where_they_listen(rendered):
    for container in containers(of_kind(rendered, *WORKLOADS)):
        ports = {port["name"] for port in container["ports"]}
        for probe, path in PATHS.items():
            asked = container[probe].get("httpGet") or container[probe]["tcpSocket"]
            assert asked.get("path", path) == path
            assert asked["port"] in ports


def test_volumes_are_mounted_once_and_all_of_them(rendered):
    for spec in pod_specs(rendered):
        mounted = [m["name"] for c in spec["containers"] for m in c.get("volumeMounts", ())]
        assert sorted(mounted) == sorted(volume["name"] for volume in spec.get("volumes", ()))


def test_a_selector_selects_its_own_pods_and_no_others(rendered):
    workloads = of_kind(rendered, *WORKLOADS)
    for each in workloads:
        chosen = each["spec"]["selector"]["matchLabels"]
        found = [
            other["metadata"]["name"]
            for other in workloads
            if selects(chosen, other["spec"]["template"]["metadata"]["labels"])
        ]
        assert found == [each["metadata"]["name"]]


def test_a_service_leads_to_a_named_port_of_one_workload(rendered):
    for service in of_kind(rendered, "Service"):
        (workload,) = (
            each
            for each in of_kind(rendered, *WORKLOADS)
            if selects(service["spec"]["selector"], each["spec"]["template"]["metadata"]["labels"])
        )
        ports = {port["name"] for c in containers([workload]) for port in c["ports"]}
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= ports


def test_what_pods_name_is_there_or_was_named_by_the_user(rendered):
    made = {(each["kind"], each["metadata"]["name"]) for each in rendered}
    for spec in pod_specs(rendered):
        account = spec.get("serviceAccountName", "default")
        assert ("ServiceAccount", account) in made or account in {"default", "robot", "probe"}
        for volume in spec.get("volumes", ()):
            if "configMap" in volume and volume["name"] != "ca":
                assert ("ConfigMap", volume["configMap"]["name"]) in made
            claim = volume.get("persistentVolumeClaim", {}).get("claimName", "history")
            assert ("PersistentVolumeClaim", claim) in made or claim == "history"


def test_names_are_unique_and_everything_is_labelled_and_placed(rendered):
    keys = [
        (each["kind"], each["metadata"].get("namespace"), each["metadata"]["name"])
        for each in rendered
    ]
    assert len(keys) == len(set(keys))
    for each in rendered:
        assert each["metadata"]["labels"]["app.kubernetes.io/instance"] == "gt"
        assert ("namespace" in each["metadata"]) == (each["kind"] not in CLUSTER_WIDE)


def test_services_do_not_put_variables_into_the_environment_of_our_settings(rendered):
    assert all(spec["enableServiceLinks"] is False for spec in pod_specs(rendered))


def test_the_agents_rights_are_those_of_its_own_table(render):
    (role,) = of_kind(render({}), "ClusterRole")
    assert sorted(role["rules"], key=str) == sorted(rules(), key=str)


def test_where_namespaces_are_named_only_what_is_in_none_is_read_of_the_whole_cluster(render):
    objects = render({"namespaces": NAMED_NAMESPACES})
    (role,) = of_kind(objects, "ClusterRole")
    assert [rule["resources"] for rule in role["rules"]] == [["nodes"], ["deviceclasses"]]
    roles = of_kind(objects, "Role")
    assert [each["metadata"]["namespace"] for each in roles] == NAMED_NAMESPACES
    assert all(each["rules"] == rules(namespaced=True) for each in roles)
    assert yaml.safe_load(settings_text(objects))["namespaces"] == NAMED_NAMESPACES


def test_without_nodes_no_right_reaches_beyond_the_namespaces(render):
    objects = render(VALUE_SETS["some namespaces and no nodes"])
    assert not of_kind(objects, "ClusterRole", "ClusterRoleBinding")
    assert of_kind(objects, "Role")


def test_a_binding_binds_the_role_to_the_account_the_agent_runs_as(rendered):
    accounts = {spec["serviceAccountName"] for spec in pod_specs(of_kind(rendered, "Deployment"))}
    roles = {(each["kind"], each["metadata"]["name"]) for each in rendered}
    for binding in of_kind(rendered, "ClusterRoleBinding", "RoleBinding"):
        assert (binding["roleRef"]["kind"], binding["roleRef"]["name"]) in roles
        (subject,) = binding["subjects"]
        assert {subject["name"]} == accounts
        assert subject["namespace"] == "gpus"


def test_two_releases_of_one_name_in_two_namespaces_share_nothing(render):
    first, second = (of_kind(render({}, into=name), "ClusterRole") for name in ("a", "b"))
    assert first[0]["metadata"]["name"] != second[0]["metadata"]["name"]


def test_a_long_release_name_gives_names_that_kubernetes_takes(render):
    objects = render({}, release="r" * 53)
    for each in of_kind(objects, "Service", *WORKLOADS):
        assert len(each["metadata"]["name"]) <= 63


def test_the_test_pod_runs_the_script_against_the_services_that_are_made(rendered, chart):
    (pod,) = of_kind(rendered, "Pod")
    ((python, flag, script, seconds, *places),) = (
        each["command"] for each in pod["spec"]["containers"]
    )
    assert (python, flag) == ("python", "-c")
    assert script.strip() == (chart / "scripts" / "ready.py").read_text("utf-8").strip()
    assert float(seconds) > 60
    made = {
        f"{each['metadata']['name']}.{each['metadata']['namespace']}.svc": port["port"]
        for each in of_kind(rendered, "Service")
        for port in each["spec"]["ports"]
    }
    assert places
    for place in places:
        url = urlsplit(place.partition("=")[2])
        assert made[url.hostname] == url.port


def test_exporters_that_want_a_certificate_are_not_asked_by_the_test_pod(render):
    (pod,) = of_kind(render(VALUE_SETS["exporters with client certificates"]), "Pod")
    (container,) = pod["spec"]["containers"]
    assert [each.partition("=")[0] for each in container["command"][4:]] == ["agent"]


def test_policies_close_everything_but_the_flows_of_the_product(render):
    objects = render(VALUE_SETS["closed to the network"])
    policies = {
        each["metadata"]["name"]: each["spec"] for each in of_kind(objects, "NetworkPolicy")
    }
    exporter, agent = policies["gt-gputailor-exporter"], policies["gt-gputailor-agent"]
    assert exporter["egress"] == []
    assert [one["ports"] for one in exporter["ingress"]] == [
        [{"protocol": "TCP", "port": "metrics"}]
    ]
    (sources,) = (one["from"] for one in exporter["ingress"])
    assert {"namespaceSelector": {"matchLabels": {"name": "monitoring"}}} in sources
    assert {"namespaceSelector": {}} not in sources
    (visitors,) = (one["from"] for one in agent["ingress"])
    assert {"ipBlock": {"cidr": "10.0.0.0/8"}} in visitors
    reached = [port["port"] for one in agent["egress"] for port in one["ports"]]
    assert reached == [53, 53, 443, 6443, 8080, 9836, 9836, 443, 5432]


def test_a_policy_opens_the_ports_of_the_places_that_the_settings_name(render):
    def reached(**settings):
        values = {"networkPolicy": {"enabled": True}, "agent": {"settings": settings}}
        policy = one(render(values), "NetworkPolicy", "-agent")
        return [port["port"] for rule in policy["spec"]["egress"] for port in rule["ports"]][6:]

    assert reached(prometheus_url="http://prometheus:9090/prefix") == [9090]
    assert reached(prometheus_url="https://prometheus.example.org") == [443]
    assert reached(prometheus_url="http://prometheus") == [80]
    mail = {"mail_to": ["a@b.example"], "mail_from": "c@d.example", "smtp_host": "mail"}
    assert reached(**mail) == [587]
    assert reached(**mail, smtp_tls="tls") == [465]
    assert reached(**mail, smtp_port=2525) == [2525]
    assert reached(store="postgresql+psycopg://a@database/x") == [5432]
    assert reached(store="postgresql://a:b@database:6543/x") == [6543]
    assert reached(store="sqlite:////var/lib/gputailor/other.db") == []
    kept = {"objects_url": "s3://reports/gpu", "objects_endpoint": "https://s3.example.org:9000"}
    assert reached(**kept) == [9000]
    assert reached(public_url="https://gputailor.example.org:8443") == []
    assert reached() == []


def test_a_policy_opens_the_port_of_a_database_that_a_secret_names(render):
    def reached(**agent):
        values = {"networkPolicy": {"enabled": True}, "agent": agent}
        policy = one(render(values), "NetworkPolicy", "-agent")
        return [port["port"] for rule in policy["spec"]["egress"] for port in rule["ports"]][6:]

    assert reached(postgresql={"existingSecret": "database"}) == [5432]
    assert reached(postgresql={"existingSecret": "database", "port": 6432}) == [6432]
    assert reached(secretSettings={"store": {"name": "database", "key": "url"}}) == [5432]


def test_a_cloud_s_identity_is_the_agents_alone(render):
    objects = render(VALUE_SETS["an identity of a cloud"])
    accounts = {
        each["metadata"]["name"]: each["metadata"].get("annotations")
        for each in of_kind(objects, "ServiceAccount")
    }
    assert accounts["gt-gputailor-exporter"] is None
    assert "eks.amazonaws.com/role-arn" in accounts["gt-gputailor-agent"]


def test_a_door_for_people_leads_to_the_agents_service(render):
    ingress = one(render(VALUE_SETS["an Ingress with a login"]), "Ingress", "-agent")
    (rule,) = ingress["spec"]["rules"]
    (path,) = rule["http"]["paths"]
    assert path["backend"]["service"] == {"name": "gt-gputailor-agent", "port": {"name": "http"}}
    assert ingress["spec"]["tls"][0]["hosts"] == [rule["host"]]
    route = one(render(VALUE_SETS["a route of a gateway"]), "HTTPRoute", "-agent")
    (rule,) = route["spec"]["rules"]
    assert rule["backendRefs"] == [{"name": "gt-gputailor-agent", "port": 8080}]


def test_objects_of_ones_own_are_templates(render):
    names = {each["metadata"]["name"] for each in render(VALUE_SETS["objects of one's own"])}
    assert {"mine", "text-gt"} <= names


def test_values_on_the_page_can_be_used(helm, chart, values_file, generate):
    page = generate.PAGE.read_text("utf-8")
    blocks = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    # Objects for kubectl are applied by a test of their own.
    values = [yaml.safe_load(text) for text in blocks if not text.startswith("apiVersion:")]
    assert len(values) == 8
    for given in values:
        assert helm("template", "gputailor", str(chart), "-f", values_file(given))


def test_commands_on_the_page_can_be_used(helm, chart, generate):
    page = generate.PAGE.read_text("utf-8").replace("\\\n", "")
    commands = re.findall(r"^helm (?:install|upgrade)(?: --install)? (.*)$", page, re.MULTILINE)
    assert len(commands) == 3
    for command in commands:
        name, folder, *flags = shlex.split(command)
        assert folder == "helm/gputailor"
        upgrading = {"--reset-then-reuse-values", "-f", "my-values.yaml"}
        assert helm("template", name, str(chart), *(x for x in flags if x not in upgrading))
