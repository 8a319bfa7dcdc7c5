"""The life of a release on a real API server, by Helm 3 and 4, by a person with few rights.

Installed, changed from the chart as it was first released, rolled back, taken away. The rights are
those that docs/helm.md names; they are read from the page.
"""

import io
import shutil
import subprocess
import tarfile

import pytest
import yaml

from gputailor_agent.inventory.live.rbac import role
from gputailor_agent.inventory.live.writing_rights import EVENTS, writing_rules
from tests.helm.conftest import chart
from tests.testbed.fixtures import control_plane, helm, helm3, namespace
from tests.testbed.servers import CommandFailed, eventually

__all__ = ["chart", "control_plane", "helm", "helm3", "namespace"]

pytestmark = pytest.mark.system

PERSON = "installer"
CLUSTER_KINDS = "clusterroles,clusterrolebindings,priorityclasses"
#: Kinds whose objects come and go without anybody's doing.
RESTLESS = ("events", "events.events.k8s.io")
#: What a chart older than the first one would be called, where git cannot tell of the first.
OLDER = "0.0.1"


@pytest.fixture(params=["helm", "helm3"])
def anyhelm(request):
    """Helm 4, and Helm 3."""
    return request.getfixturevalue(request.param)


@pytest.fixture
def installer(control_plane, namespace, repository):
    """A person with the rights of docs/helm.md and no other."""
    page = (repository / "docs" / "helm.md").read_text("utf-8")
    text = page.partition("<!-- installer: applied by a test -->\n```yaml\n")[2].partition("```")[0]
    own, wide = yaml.safe_load_all(text)
    own["metadata"]["namespace"] = namespace
    wide["metadata"]["name"] = f"{namespace}-installer"
    reads = role(f"{namespace}-reads")
    control_plane.apply([own, wide, reads], namespace)
    bind = ("create", "clusterrolebinding")
    bound = {f"{namespace}-installer": wide, f"{namespace}-reads": reads}
    for name, one in bound.items():
        given = f"--clusterrole={one['metadata']['name']}"
        control_plane.kubectl(*bind, name, given, f"--user={PERSON}")
    given = (f"--role={own['metadata']['name']}", f"--user={PERSON}", "-n", namespace)
    control_plane.kubectl("create", "rolebinding", "installer", *given)
    yield PERSON
    control_plane.kubectl("delete", "clusterrolebinding,clusterrole", *bound)


@pytest.fixture
def release(anyhelm, control_plane, namespace, installer):
    """A function that runs Helm on a release in the namespace, as that person."""

    def call(*arguments, user=installer):
        return anyhelm(*arguments, "-n", namespace, cluster=control_plane, user=user)

    return call


@pytest.fixture
def first_chart(chart, repository, tmp_path):
    """The chart as it was when it was first released; without git the present one, called older."""
    folder = tmp_path / "first"
    git = ("git", "-C", str(repository))
    place = chart.relative_to(repository).as_posix()
    born = ("log", "--diff-filter=A", "--format=%H", "--", f"{place}/Chart.yaml")
    found = subprocess.run([*git, *born], capture_output=True, text=True, check=False).stdout
    if found.split():
        archive = [*git, "archive", found.split()[-1], place]
        packed = subprocess.run(archive, capture_output=True, check=True).stdout
        with tarfile.open(fileobj=io.BytesIO(packed)) as opened:
            opened.extractall(folder, filter="data")
        return folder / place
    shutil.copytree(chart, folder)
    about = yaml.safe_load((folder / "Chart.yaml").read_text("utf-8"))
    (folder / "Chart.yaml").write_text(yaml.safe_dump(about | {"version": OLDER}), "utf-8")
    return folder


def everything(control_plane, namespace):
    """Names of all objects of a namespace, and of cluster-wide ones of kinds that the chart has."""
    told = control_plane.kubectl("api-resources", "--namespaced", "--verbs=list", "-o", "name")
    kinds = ",".join(kind for kind in told.split() if kind not in RESTLESS)
    inside = control_plane.kubectl("get", kinds, "-n", namespace, "-o", "name")
    outside = control_plane.kubectl("get", CLUSTER_KINDS, "-o", "name")
    return set(inside.split()) | set(outside.split())


def agent_template(control_plane, namespace):
    return control_plane.get("deployment/gt-gputailor-agent", namespace)["spec"]["template"]


def settings(control_plane, namespace):
    made = control_plane.get("configmap/gt-gputailor-agent", namespace)["data"]["agent.yaml"]
    return yaml.safe_load(made)


def manifests(release, *revision):
    """Objects of a revision, by kind and name."""
    text = release("get", "manifest", "gt", *revision)
    objects = [each for each in yaml.load_all(text, yaml.CSafeLoader) if each]
    return {(each["kind"], each["metadata"]["name"]): each for each in objects}


def test_a_release_lives_from_the_first_chart_to_its_end_and_leaves_nothing(
    control_plane, namespace, release, first_chart, chart
):
    """Installed, upgraded, rolled back, upgraded again, uninstalled: by whom the page names."""
    before = everything(control_plane, namespace)
    told = "clusterName=blue,exporter.port=9999,agent.settings.window_days=9"
    release("install", "gt", str(first_chart), "--set", f"{told},agent.persistence.enabled=false")
    first = agent_template(control_plane, namespace)

    reuse = ("--reset-then-reuse-values", "--set", "agent.settings.report_cron=0 6 * * 2")
    release("upgrade", "gt", str(chart), *reuse)
    told = settings(control_plane, namespace)
    assert (told["cluster"], told["window_days"]) == ("blue", 9)
    assert told["report_cron"] == "0 6 * * 2"
    assert told["targets"] == [f"dns+http://gt-gputailor-exporter.{namespace}.svc:9999/metrics"]
    assert agent_template(control_plane, namespace) != first

    release("rollback", "gt", "1")
    assert agent_template(control_plane, namespace) == first
    assert "report_cron" not in settings(control_plane, namespace)
    assert manifests(release) == manifests(release, "--revision", "1")
    there = {name.partition("/")[2] for name in everything(control_plane, namespace) - before}
    assert {name for _, name in manifests(release)} <= there

    release("upgrade", "gt", str(chart), *reuse)
    release("uninstall", "gt")

    def nothing_is_left():
        assert everything(control_plane, namespace) <= before
        return True

    eventually(nothing_is_left, "nothing is left", seconds=60)


def test_a_release_leaves_the_claim_with_the_history_and_nothing_else(
    control_plane, namespace, release, chart
):
    before = everything(control_plane, namespace)
    release("install", "gt", str(chart))
    release("uninstall", "gt")

    def only_the_claim():
        left = everything(control_plane, namespace) - before
        assert left == {"persistentvolumeclaim/gt-gputailor-agent"}
        return True

    eventually(only_the_claim, "only the claim is left", seconds=60)


def test_whoever_has_less_than_the_page_names_is_told_what_is_missing(
    control_plane, namespace, release, chart
):
    """Who may make objects but does not hold the agent's rights cannot pass them on."""
    control_plane.kubectl("delete", "clusterrolebinding", f"{namespace}-reads")
    try:
        with pytest.raises(CommandFailed, match=r"attempting to grant RBAC permissions"):
            release("install", "gt", str(chart))
    finally:
        reads = f"{namespace}-reads"
        granted = (f"--clusterrole={reads}", f"--user={PERSON}")
        control_plane.kubectl("create", "clusterrolebinding", reads, *granted)
        release("uninstall", "gt", "--ignore-not-found")


def test_rights_to_write_come_and_go_with_the_setting_by_who_has_them(
    control_plane, namespace, release, chart
):
    """Events switched on, rolled back and on again: the rights are those of the revision."""
    on = ("--set", "agent.settings.kubernetes_events=true")
    with pytest.raises(CommandFailed, match=r"events\.k8s\.io"):
        release("install", "gt", str(chart), *on)
    release("uninstall", "gt", "--ignore-not-found")
    wide = role(f"{namespace}-writes", more=writing_rules([EVENTS]))
    control_plane.apply(wide)
    given = (f"--clusterrole={namespace}-writes", f"--user={PERSON}")
    control_plane.kubectl("create", "clusterrolebinding", f"{namespace}-writes", *given)

    def may_write():
        rules = control_plane.get(f"clusterrole {namespace}-gt-gputailor-agent")["rules"]
        return writing_rules([EVENTS])[0] in rules

    try:
        release("install", "gt", str(chart))
        assert not may_write()
        release("upgrade", "gt", str(chart), *on)
        assert may_write()
        assert settings(control_plane, namespace)["kubernetes_events"] is True
        release("rollback", "gt", "1")
        assert not may_write()
        release("uninstall", "gt")
    finally:
        names = (f"{namespace}-writes",)
        control_plane.kubectl("delete", "clusterrolebinding,clusterrole", *names)
