"""The chart before a real API server: every set of values by server-side dry run, and Pod Security.

Kinds of operators stand as definitions with free content: what they hold is compared with their
documentation by the chart's own tests, and that an API server takes them at all is asked here.
"""

import base64
import json

import pytest

from tests.helm.conftest import chart, render, values_file
from tests.helm.objects import of_kind, one
from tests.helm.value_sets import ALL_ON, PRESETS, VALUE_SETS
from tests.testbed.fixtures import control_plane, helm, namespace
from tests.testbed.objects import custom_definition
from tests.testbed.servers import CommandFailed

__all__ = ["chart", "control_plane", "helm", "namespace", "render", "values_file"]

pytestmark = pytest.mark.system

#: Group, version and kinds of others' objects.
FOREIGN = (
    ("monitoring.coreos.com", "v1", ("ServiceMonitor", "PodMonitor", "PrometheusRule")),
    ("operator.victoriametrics.com", "v1beta1", ("VMServiceScrape", "VMRule")),
    ("grafana.integreatly.org", "v1beta1", ("GrafanaDashboard",)),
    ("gateway.networking.k8s.io", "v1", ("HTTPRoute",)),
)
SCC = custom_definition(
    "SecurityContextConstraints",
    "security.openshift.io",
    plural="securitycontextconstraints",
    scope="Cluster",
)
LEVEL = "gputailor.io/pod-security-level"
#: Levels from strict to free; each takes what those before it take.
LEVELS = ("restricted", "baseline", "privileged")
SECRET_LIMIT = 1_048_576


@pytest.fixture(scope="module")
def foreign_kinds(control_plane):
    """Definitions of the kinds that the chart makes objects of."""
    made = [
        custom_definition(kind, group, version)
        for group, version, kinds in FOREIGN
        for kind in kinds
    ]
    made.append(SCC)
    control_plane.apply(made)
    yield
    names = [each["metadata"]["name"] for each in made]
    control_plane.kubectl("delete", "crd", *names, "--wait=true")


@pytest.fixture
def install(helm, chart, control_plane, namespace, values_file):
    """A function that installs with values; uninstalled after the test."""

    def call(values):
        file = values_file(values)
        return helm("install", "gt", str(chart), "-n", namespace, "-f", file, cluster=control_plane)

    yield call
    helm("uninstall", "gt", "-n", namespace, cluster=control_plane)


@pytest.mark.parametrize("name", VALUE_SETS)
def test_the_api_server_takes_what_is_rendered(
    control_plane, foreign_kinds, namespace, render, name
):
    objects = render(VALUE_SETS[name], into=namespace)
    listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
    flags = ("--dry-run=server", "--validate=strict", "-f", "-")
    said = control_plane.kubectl("apply", *flags, text=listed)
    assert said.count("(server dry run)") == len(objects)


def as_pod(control_plane, namespace, workload):
    """Ask the API server for a pod of a workload, without making it; what it says."""
    spec = workload["spec"]["template"]["spec"] | {"serviceAccountName": "default"}
    # Classes are asked for by other admission plugins than the one that is looked at here.
    bare = {name: value for name, value in spec.items() if not name.endswith("ClassName")}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "probe"}, "spec": bare}
    flags = ("--dry-run=server", "-n", namespace, "-f", "-")
    try:
        return control_plane.kubectl("create", *flags, text=json.dumps(pod))
    except CommandFailed as error:
        return error.said


def enforce(control_plane, namespace, level):
    label = f"pod-security.kubernetes.io/enforce={level}"
    control_plane.kubectl("label", "namespace", namespace, label, "--overwrite")


@pytest.mark.parametrize("preset", ["", *PRESETS])
def test_each_part_is_taken_by_the_level_it_states_and_not_by_the_one_below(
    control_plane, namespace, render, preset
):
    objects = render({"preset": preset}, into=namespace)
    for kind, part in (("Deployment", "-agent"), ("DaemonSet", "-exporter")):
        workload = one(objects, kind, part)
        level = workload["metadata"]["annotations"][LEVEL]
        enforce(control_plane, namespace, level)
        assert "pod/probe created" in as_pod(control_plane, namespace, workload)
        for stricter in LEVELS[: LEVELS.index(level)]:
            enforce(control_plane, namespace, stricter)
            assert "violates PodSecurity" in as_pod(control_plane, namespace, workload)


def test_the_pod_of_helm_test_is_taken_by_the_level_restricted(control_plane, namespace, render):
    (pod,) = of_kind(render({}, into=namespace), "Pod")
    enforce(control_plane, namespace, "restricted")
    template = {"spec": {"template": {"spec": pod["spec"]}}}
    assert "pod/probe created" in as_pod(control_plane, namespace, template)


def test_agent_and_exporter_stand_in_namespaces_of_two_levels(control_plane, install, namespace):
    apart = f"{namespace}-exporters"
    control_plane.create_namespace(apart)
    try:
        enforce(control_plane, namespace, "restricted")
        enforce(control_plane, apart, "privileged")
        install({"exporter": {"namespace": apart}, "networkPolicy": {"enabled": True}})
        (agent,) = control_plane.get("deployments", namespace)
        (exporter,) = control_plane.get("daemonsets", apart)
        for place, workload in ((namespace, agent), (apart, exporter)):
            assert "pod/probe created" in as_pod(control_plane, place, workload)
        assert not control_plane.get("daemonsets", namespace)
        policies = control_plane.get("networkpolicies", apart)
        assert [each["metadata"]["name"] for each in policies] == ["gt-gputailor-exporter"]
    finally:
        control_plane.kubectl("delete", "namespace", apart, "--wait=false")


def test_a_release_with_all_on_fits_into_the_secret_that_helm_keeps_it_in(
    control_plane, foreign_kinds, install, namespace
):
    install(ALL_ON)
    (secret,) = control_plane.get("secrets -l owner=helm", namespace)
    assert len(base64.b64decode(secret["data"]["release"])) < SECRET_LIMIT
