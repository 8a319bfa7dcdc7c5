"""How the driver and the devices come into the exporter, by preset and by value."""

import pytest
import yaml

from gputailor_exporter.options import parse_options
from tests.helm.objects import containers, of_kind, one, pod_specs
from tests.helm.value_sets import PRESETS, VALUE_SETS

pytestmark = pytest.mark.system

LIBRARY = "libnvidia-ml.so.1"


@pytest.fixture
def presets(chart):
    return yaml.safe_load((chart / "presets.yaml").read_text("utf-8"))


def exporter(objects):
    """Spec of the exporter's pod, its container, and its environment by name."""
    (spec,) = pod_specs(of_kind(objects, "DaemonSet"))
    (container,) = spec["containers"]
    return spec, container, {each["name"]: each.get("value") for each in container["env"]}


def host_paths(spec):
    return {
        volume["name"]: volume["hostPath"]["path"]
        for volume in spec["volumes"]
        if "hostPath" in volume
    }


def mounts(container):
    return {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}


def test_the_presets_are_those_of_the_schema_and_tell_their_source(presets, generate):
    schema = generate.values_schema()["properties"]["preset"]["enum"]
    assert {"", *presets} == {"", *PRESETS} == set(schema)
    assert all(chosen["source"].startswith("https://") for chosen in presets.values())


def test_the_exporter_accepts_its_arguments(rendered, tmp_path):
    web = tmp_path / "web.yml"
    web.write_text("{}", "utf-8")
    for container in containers(of_kind(rendered, "DaemonSet")):
        given = {each["name"]: each.get("value", "node-1") for each in container["env"]}
        arguments = [
            each.replace("/etc/gputailor-exporter/web.yml", str(web)) for each in container["args"]
        ]
        options = parse_options(arguments, given)
        assert options.node == "node-1"
        assert options.listen == (("", container["ports"][0]["containerPort"]),)
        mounted = {mount["mountPath"] for mount in container["volumeMounts"]}
        assert str(options.pod_logs_root) in mounted
        assert options.pod_resources_socket.rsplit("/", 1)[0] in mounted


@pytest.mark.parametrize("preset", ["gpu-operator", "openshift", "k3s"])
def test_where_a_runtime_class_brings_the_driver_the_pod_names_it(render, preset):
    spec, _, env = exporter(render({"preset": preset}))
    assert spec["runtimeClassName"] == "nvidia"
    assert env["NVIDIA_VISIBLE_DEVICES"] == "all"
    assert "driver" not in host_paths(spec)


@pytest.mark.parametrize("preset", ["", "eks", "aks"])
def test_where_the_default_runtime_brings_it_no_class_is_named(render, preset):
    spec, _, env = exporter(render({"preset": preset}))
    assert "runtimeClassName" not in spec
    assert env["NVIDIA_VISIBLE_DEVICES"] == "all"


def test_on_gke_the_drivers_folder_comes_from_the_node(render):
    spec, container, env = exporter(render({"preset": "gke"}))
    assert host_paths(spec)["driver"] == "/home/kubernetes/bin/nvidia"
    assert mounts(container)["driver"] == "/usr/local/nvidia"
    assert env["LD_LIBRARY_PATH"] == "/usr/local/nvidia/lib64"
    assert env["NVIDIA_VISIBLE_DEVICES"] == "void"
    assert container["securityContext"]["privileged"] is True


def test_on_a_bare_node_the_library_alone_comes_from_it(render):
    spec, container, env = exporter(render({"preset": "bare"}))
    assert host_paths(spec)["driver"].rpartition("/")[2] == LIBRARY
    assert mounts(container)["driver"] == f"{env['LD_LIBRARY_PATH']}/{LIBRARY}"
    own, _, _ = exporter(render(VALUE_SETS["a driver's library of another system"]))
    assert host_paths(own)["driver"] == f"/usr/lib64/{LIBRARY}"


def test_by_cdi_an_annotation_asks_and_nothing_of_the_driver_is_mounted(render):
    objects = render(VALUE_SETS["a driver by CDI"])
    spec, container, env = exporter(objects)
    template = one(objects, "DaemonSet", "-exporter")["spec"]["template"]
    assert template["metadata"]["annotations"]["cdi.k8s.io/gputailor"] == "nvidia.com/gpu=0"
    assert env["NVIDIA_VISIBLE_DEVICES"] == "void"
    assert "driver" not in host_paths(spec)
    assert "privileged" not in container["securityContext"]


def test_a_value_wins_over_its_preset(render):
    spec, container, env = exporter(render(VALUE_SETS["a preset that is overruled"]))
    assert spec["runtimeClassName"] == "nv"
    assert env["NVIDIA_VISIBLE_DEVICES"] == "all"
    assert "driver" not in host_paths(spec)
    assert "privileged" not in container["securityContext"]


def test_the_specifications_of_cdi_are_mounted_where_the_preset_needs_them(render):
    def seen(values):
        spec, container, _ = exporter(render(values))
        assert (host_paths(spec).get("cdi")) == (mounts(container).get("cdi"))
        return mounts(container).get("cdi")

    found = {preset for preset in PRESETS if seen({"preset": preset}) == "/var/run/cdi"}
    assert found == {"gpu-operator", "openshift"}
    assert seen({"exporter": {"cdiSpecs": True}}) == "/var/run/cdi"
    assert seen({"preset": "gpu-operator", "exporter": {"cdiSpecs": False}}) is None


def test_on_eks_devices_are_asked_for_by_a_mount_too(render):
    spec, container, _ = exporter(render({"preset": "eks"}))
    assert host_paths(spec)["all-devices"] == "/dev/null"
    assert mounts(container)["all-devices"] == "/var/run/nvidia-container-devices/all"


def test_on_openshift_constraints_allow_what_the_pod_asks_for_and_no_more(render):
    objects = render({"preset": "openshift"})
    spec, container, _ = exporter(objects)
    (allowed,) = of_kind(objects, "SecurityContextConstraints")
    assert allowed["users"] == ["system:serviceaccount:gpus:gt-gputailor-exporter"]
    assert container["securityContext"]["seLinuxOptions"] == {"type": "spc_t"}
    assert allowed["allowHostPID"] is spec["hostPID"] is True
    wide = {"allowHostPID", "allowHostDirVolumePlugin"}
    assert {name for name, value in allowed.items() if value is True} - {
        "readOnlyRootFilesystem"
    } == wide
    assert allowed["allowedCapabilities"] == []
    used = {next(iter(set(volume) - {"name"})) for volume in spec["volumes"]}
    assert used <= set(allowed["volumes"])


def test_on_openshift_the_agent_takes_the_user_that_its_namespace_gives(render):
    (agent,) = pod_specs(of_kind(render({"preset": "openshift"}), "Deployment"))
    assert not {"runAsUser", "runAsGroup", "fsGroup"} & set(agent["securityContext"])
    assert agent["securityContext"]["runAsNonRoot"] is True
    (elsewhere,) = pod_specs(of_kind(render({}), "Deployment"))
    assert elsewhere["securityContext"]["runAsUser"] == 65532


@pytest.mark.parametrize("preset", ["", *PRESETS])
def test_every_taint_is_borne_and_no_gpu_is_held(render, preset):
    spec, container, _ = exporter(render({"preset": preset}))
    assert spec["tolerations"] == [{"operator": "Exists"}]
    asked = {**container["resources"]["requests"], **container["resources"]["limits"]}
    assert set(asked) == {"cpu", "memory"}


def test_a_web_config_comes_from_its_secret_and_probes_speak_as_it_says(render):
    _, container, _ = exporter(render(VALUE_SETS["exporters with TLS"]))
    assert "--web-config=/etc/gputailor-exporter/web.yml" in container["args"]
    assert mounts(container)["web"] == "/etc/gputailor-exporter"
    assert container["livenessProbe"]["httpGet"]["scheme"] == "HTTPS"
    _, container, _ = exporter(render(VALUE_SETS["exporters with a password"]))
    assert container["livenessProbe"]["httpGet"]["scheme"] == "HTTP"
    _, container, _ = exporter(render(VALUE_SETS["exporters with client certificates"]))
    assert container["readinessProbe"]["tcpSocket"] == {"port": "metrics"}


def test_a_pod_that_must_have_devices_says_so_to_the_exporter(render):
    _, container, _ = exporter(render({"exporter": {"requireDevices": True}}))
    assert "--require-devices" in container["args"]
    _, container, _ = exporter(render({}))
    assert "--require-devices" not in container["args"]


def test_a_class_of_priority_is_made_and_used_unless_another_is_named(render):
    objects = render(VALUE_SETS["a class of priority"])
    (made,) = of_kind(objects, "PriorityClass")
    assert made["value"] == 500
    assert exporter(objects)[0]["priorityClassName"] == made["metadata"]["name"]
    named = {"priorityClass": {"create": True}, "exporter": {"priorityClassName": "mine"}}
    objects = render(named)
    assert not of_kind(objects, "PriorityClass")
    assert exporter(objects)[0]["priorityClassName"] == "mine"


def test_exporters_alone_need_no_right_and_make_nothing_of_the_agent(render):
    objects = render(VALUE_SETS["exporters alone"])
    kinds = {each["kind"] for each in objects}
    assert not kinds & {"Deployment", "ClusterRole", "PersistentVolumeClaim"}
    (test,) = of_kind(objects, "Pod")
    (container,) = test["spec"]["containers"]
    assert container["image"].startswith("gputailor-exporter:")
    assert not any(each.startswith("agent=") for each in container["command"])
