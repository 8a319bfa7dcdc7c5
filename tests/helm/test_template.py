"""What Helm makes of the chart, for every set of values: by ``helm template`` and ``helm lint``."""

import json
import re
import shlex

import pytest
import yaml

from gputailor_agent.catalog import load_catalogue
from gputailor_agent.cli.settings import load_settings
from gputailor_agent.inventory.live import rules
from gputailor_exporter.options import parse_options
from tests.helm.conftest import MONITORING
from tests.helm.objects import (
    WORKLOADS,
    containers,
    of_kind,
    one,
    pod_specs,
    selects,
    settings_files,
    settings_text,
)
from tests.helm.value_sets import NAMED_NAMESPACES, PRICES, VALUE_SETS, WRONG_VALUES
from tests.testbed.servers import CommandFailed

pytestmark = pytest.mark.system

BY_FORCE = VALUE_SETS["everything for Prometheus by force"]
OPERATOR = (
    "--api-versions",
    f"{MONITORING}/ServiceMonitor",
    "--api-versions",
    f"{MONITORING}/PrometheusRule",
)
LARGEST_OBJECT = 262_144
PATHS = {"startupProbe": "/healthz", "livenessProbe": "/healthz", "readinessProbe": "/readyz"}


@pytest.mark.parametrize("name", VALUE_SETS)
def test_lint_has_nothing_to_say(helm, chart, values_file, name):
    said = helm("lint", "--strict", str(chart), "-f", values_file(VALUE_SETS[name]))
    assert "0 chart(s) failed" in said


def test_no_container_can_gain_rights(rendered):
    for spec in pod_specs(rendered):
        for container in spec["containers"]:
            own = container["securityContext"]
            assert own["readOnlyRootFilesystem"] is True
            profile = {**spec.get("securityContext", {}), **own}["seccompProfile"]
            assert profile == {"type": "RuntimeDefault"}
            if not own.get("privileged"):
                assert own["allowPrivilegeEscalation"] is False
                assert own["capabilities"] == {"drop": ["ALL"]}


def test_only_the_exporter_is_root_or_sees_the_host(rendered):
    for each in of_kind(rendered, "Deployment", "Pod"):
        spec = each["spec"].get("template", each)["spec"]
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["runAsUser"] > 0
        assert not spec.get("hostPID")
        assert not any("hostPath" in volume for volume in spec.get("volumes", ()))


def test_an_exporter_is_privileged_only_where_it_was_asked_for(render):
    (quiet,) = containers(of_kind(render({}), "DaemonSet"))
    (loud,) = containers(of_kind(render({"exporter": {"privileged": True}}), "DaemonSet"))
    assert "privileged" not in quiet["securityContext"]
    assert loud["securityContext"]["privileged"] is True


def test_the_host_is_only_read(rendered):
    for spec in (each["spec"]["template"]["spec"] for each in of_kind(rendered, "DaemonSet")):
        mounts = {mount["name"]: mount for mount in spec["containers"][0]["volumeMounts"]}
        for name in ("pod-resources", "pod-logs", "container-logs"):
            assert mounts[name]["readOnly"] is True


def test_images_have_a_tag_that_does_not_move(rendered):
    for container in containers(rendered):
        _, _, tag = container["image"].rpartition(":")
        assert tag.startswith("0.1.0")


def test_images_come_from_the_registry_that_was_named(render):
    objects = render(VALUE_SETS["own registry"])
    images = [container["image"] for container in containers(objects)]
    assert all(image.startswith("registry.example.com/gpu/gputailor-") for image in images)
    assert all(spec["imagePullSecrets"] == [{"name": "pull"}] for spec in pod_specs(objects))


def test_workloads_are_probed_where_they_listen(rendered):
    for container in containers(of_kind(rendered, *WORKLOADS)):
        ports = {port["name"] for port in container["ports"]}
        for probe, path in PATHS.items():
            asked = container[probe]["httpGet"]
            assert asked["path"] == path
            assert asked["port"] in ports


def test_requests_and_a_memory_limit_are_set_and_no_cpu_limit(rendered):
    for container in containers(rendered):
        assert set(container["resources"]["requests"]) == {"cpu", "memory"}
        assert set(container["resources"]["limits"]) == {"memory"}


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
        assert ("namespace" in each["metadata"]) == (not each["kind"].startswith("Cluster"))


def test_the_agent_accepts_its_settings(rendered, tmp_path, monkeypatch):
    for name, text in settings_files(rendered).items():  # as they are mounted together
        told = text.replace("/etc/gputailor/", f"{tmp_path}/")
        (tmp_path / name).write_text(told, "utf-8")
    path = tmp_path / "agent.yaml"
    (agent,) = containers(of_kind(rendered, "Deployment"))
    for each in agent.get("env", ()):
        monkeypatch.setenv(each["name"], each.get("value", "https://secret.example.com"))
    settings = load_settings({}, path)
    assert settings.cluster_access.asked
    assert settings.targets or settings.prometheus_url


def test_the_agent_finds_exporters_by_the_addresses_of_their_service(render):
    objects = render({"exporter": {"port": 9999}})
    service = one(objects, "Service", "-exporter")
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["ports"][0]["port"] == 9999
    targets = yaml.safe_load(settings_text(objects))["targets"]
    assert targets == [f"dns+http://{service['metadata']['name']}.gpus.svc:9999/metrics"]


def test_a_prometheus_that_was_named_is_read_instead_of_exporters(render):
    objects = render({"agent": {"settings": {"prometheus_url": "http://prometheus:9090"}}})
    settings = yaml.safe_load(settings_text(objects))
    assert settings["prometheus_url"] == "http://prometheus:9090"
    assert "targets" not in settings
    assert of_kind(objects, "DaemonSet")


def test_secret_settings_come_from_secrets_and_not_from_the_settings_file(render):
    objects = render(VALUE_SETS["PostgreSQL by a secret"])
    (agent,) = containers(of_kind(objects, "Deployment"))
    (variable,) = (each for each in agent["env"] if each["name"] == "GPUTAILOR_STORE")
    assert variable["valueFrom"] == {"secretKeyRef": {"name": "database", "key": "url"}}


def test_settings_mean_to_the_agent_what_they_meant_to_helm(render, tmp_path):
    limits = {"power_share": 0.00001, "link_bytes_per_second": 1.5e12, "warn_minutes": 0}
    name = "12:30:45 <yes> & \u00fcber"
    given = {"scrape_seconds": 0.25, "thresholds": {"idle": limits}}
    objects = render({"clusterName": name, "agent": {"settings": given}})
    path = tmp_path / "agent.yaml"
    path.write_text(settings_text(objects), "utf-8")
    settings = load_settings({}, path)
    assert settings.thresholds == {"idle": limits}
    assert settings.scrape_seconds == 0.25
    assert settings.cluster == name


def test_keys_left_empty_are_as_good_as_left_out(render):
    empty = {"agent": {"settings": None, "podLabels": None}, "exporter": {"extraArgs": None}}
    assert settings_text(render(empty)) == settings_text(render({}))


def test_a_store_that_was_named_is_not_overwritten(render):
    url = "postgresql://gputailor@database/gputailor"
    objects = render({"agent": {"settings": {"store": url}}})
    assert yaml.safe_load(settings_text(objects))["store"] == url


def test_own_prices_reach_the_agent_as_they_were_given(render, tmp_path):
    objects = render(VALUE_SETS["settings and prices"])
    made = one(objects, "ConfigMap", "-agent")["data"]
    assert made["prices.csv"].strip() == PRICES.strip()
    assert yaml.safe_load(made["agent.yaml"])["prices"] == "/etc/gputailor/prices.csv"
    path = tmp_path / "prices.csv"
    path.write_text(made["prices.csv"], "utf-8")
    assert load_catalogue(path)


def test_a_changed_setting_starts_the_agent_anew(render):
    def stamp(values):
        template = one(render(values), "Deployment", "-agent")["spec"]["template"]
        return template["metadata"]["annotations"]["checksum/settings"]

    assert stamp({}) == stamp({})
    assert stamp({}) != stamp({"clusterName": "blue"})


def test_the_exporter_accepts_its_arguments(rendered):
    for container in containers(of_kind(rendered, "DaemonSet")):
        given = {each["name"]: each.get("value", "node-1") for each in container["env"]}
        options = parse_options(container["args"], given)
        assert options.node == "node-1"
        assert options.listen == (("", container["ports"][0]["containerPort"]),)
        mounted = {mount["mountPath"] for mount in container["volumeMounts"]}
        assert str(options.pod_logs_root) in mounted
        assert options.pod_resources_socket.rsplit("/", 1)[0] in mounted


def test_services_do_not_put_variables_into_the_environment_of_our_settings(rendered):
    assert all(spec["enableServiceLinks"] is False for spec in pod_specs(rendered))


@pytest.mark.parametrize("kind", ["ServiceMonitor", "PrometheusRule"])
def test_objects_of_the_operator_are_made_where_it_is_or_by_force(render, kind):
    off = {"serviceMonitor": {"enabled": False}, "prometheusRule": {"enabled": False}}
    assert not of_kind(render({}), kind)
    assert of_kind(render({}, *OPERATOR), kind)
    assert of_kind(render(BY_FORCE), kind)
    assert not of_kind(render(off, *OPERATOR), kind)


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
    assert len(made) == 4
    assert all(each["metadata"]["labels"]["release"] == "kube-prometheus-stack" for each in made)


def test_rules_stand_in_the_object_as_the_code_has_them(render, generate):
    specs = [rule["spec"] for rule in of_kind(render(BY_FORCE), "PrometheusRule")]
    wanted = [generate.publishing.rule_file(g) for g in generate.publishing.rule_groups().values()]
    assert sorted(specs, key=json.dumps) == sorted(wanted, key=json.dumps)


def test_dashboards_stand_in_config_maps_as_the_code_has_them(render, generate):
    found = {}
    for each in of_kind(render(BY_FORCE), "ConfigMap"):
        if each["metadata"]["labels"].get("grafana_dashboard") == "1":
            found |= {name.removesuffix(".json"): json.loads(t) for name, t in each["data"].items()}
    assert found == {name: generate.generating.dashboard(name) for name in found}
    assert set(found) == set(generate.generating.BUILDERS)


def test_dashboards_on_another_exporter_come_only_when_asked_for(render):
    names = [each["metadata"]["name"] for each in of_kind(render({}, *OPERATOR), "ConfigMap")]
    assert len(names) == 3
    assert not any(name.endswith("-dcgm") for name in names)


def test_no_object_is_too_large_for_kubectl_apply(rendered):
    assert max(len(json.dumps(each)) for each in rendered) < LARGEST_OBJECT


def test_the_agents_rights_are_those_of_its_own_table(render):
    (role,) = of_kind(render({}), "ClusterRole")
    assert sorted(role["rules"], key=str) == sorted(rules(), key=str)


def test_where_namespaces_are_named_only_nodes_are_read_of_the_whole_cluster(render):
    objects = render({"namespaces": NAMED_NAMESPACES})
    (role,) = of_kind(objects, "ClusterRole")
    assert [rule["resources"] for rule in role["rules"]] == [["nodes"]]
    roles = of_kind(objects, "Role")
    assert [each["metadata"]["namespace"] for each in roles] == NAMED_NAMESPACES
    assert all(each["rules"] == rules(namespaced=True) for each in roles)
    assert yaml.safe_load(settings_text(objects))["namespaces"] == NAMED_NAMESPACES


def test_without_nodes_no_right_reaches_beyond_the_namespaces(render):
    objects = render(VALUE_SETS["some namespaces and no nodes"])
    assert not of_kind(objects, "ClusterRole", "ClusterRoleBinding")
    assert of_kind(objects, "Role")


def test_a_binding_binds_the_role_to_the_account_the_agent_runs_as(rendered):
    account = one(rendered, "Deployment", "-agent")["spec"]["template"]["spec"]
    roles = {(each["kind"], each["metadata"]["name"]) for each in rendered}
    for binding in of_kind(rendered, "ClusterRoleBinding", "RoleBinding"):
        assert (binding["roleRef"]["kind"], binding["roleRef"]["name"]) in roles
        (subject,) = binding["subjects"]
        assert subject["name"] == account["serviceAccountName"]
        assert subject["namespace"] == "gpus"


def test_two_releases_of_one_name_in_two_namespaces_share_nothing(render):
    first, second = (of_kind(render({}, into=name), "ClusterRole") for name in ("a", "b"))
    assert first[0]["metadata"]["name"] != second[0]["metadata"]["name"]


def test_a_long_release_name_gives_names_that_kubernetes_takes(render):
    objects = render({}, release="r" * 53)
    for each in of_kind(objects, "Service", *WORKLOADS):
        assert len(each["metadata"]["name"]) <= 63


@pytest.mark.parametrize("name", WRONG_VALUES)
def test_wrong_values_are_refused_with_words(render, name):
    values, words = WRONG_VALUES[name]
    with pytest.raises(CommandFailed) as refused:
        render(values)
    assert refused.value.status != 0
    assert not [word for word in words if word not in refused.value.said]


def test_commands_and_values_of_the_page_can_be_used(helm, chart, values_file, generate):
    page = generate.PAGE.read_text("utf-8")
    values = [yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)]
    commands = re.findall(
        r"^helm (?:install|upgrade)(?: --install)? (.*)$", page.replace("\\\n", ""), re.MULTILINE
    )
    assert (len(values), len(commands)) == (3, 3)
    for command in commands:
        name, folder, *flags = shlex.split(command)
        assert folder == "helm/gputailor"
        kept = [each for each in flags if each not in {"--reuse-values", "-f", "my-values.yaml"}]
        for given in values:
            assert helm("template", name, str(chart), *kept, "-f", values_file(given))


def test_an_image_tag_that_moves_is_refused_with_what_to_do(render):
    with pytest.raises(CommandFailed, match="latest moves under a running cluster; give a version"):
        render({"agent": {"image": {"tag": "latest"}}})


def test_an_agent_with_nothing_to_read_is_refused_with_what_to_do(render):
    with pytest.raises(CommandFailed, match=r"nothing to read: set exporter\.enabled=true, or"):
        render({"exporter": {"enabled": False}})
