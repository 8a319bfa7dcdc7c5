"""The public workflows: their shape, and that they run what the project has."""

import re
import subprocess
import tomllib

import pytest
import yaml

from tests.helm.value_sets import PRESETS
from tests.testbed.build import HELM_3
from tests.testbed.servers import need, run

VERSION = re.compile(r"[\w.-]+/[\w./-]+@v\d+\.\d+\.\d+")
NAMES = ("lint", "release", "test", "testbed")
#: What a job may ask for beyond reading the repository, by workflow and job.
RIGHTS = {("release", "publish"): {"id-token": "write"}}


class Loader(yaml.SafeLoader):
    """YAML without the words yes, no, on and off as booleans: ``on`` is a key here."""


Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in found if tag != "tag:yaml.org,2002:bool"]
    for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


@pytest.fixture(scope="module")
def workflows(repository):
    folder = repository / ".github" / "workflows"
    return {path.stem: yaml.load(path.read_text("utf-8"), Loader) for path in folder.iterdir()}


def jobs(workflows):
    """Name of the workflow, name of the job, and the job."""
    for name, workflow in workflows.items():
        for job, told in workflow["jobs"].items():
            yield name, job, told


def steps(workflows):
    for name, job, told in jobs(workflows):
        for step in told["steps"]:
            yield f"{name}/{job}", step


def scripts(workflows):
    return [(where, step["run"]) for where, step in steps(workflows) if "run" in step]


@pytest.mark.system
def test_actionlint_has_nothing_to_say(repository):
    binary = need("actionlint")["actionlint"]
    folder = repository / ".github" / "workflows"
    files = sorted(folder.glob("*.yaml"))
    # What it finds by itself: other linters are asked only where a machine happens to have them.
    alone = ("-shellcheck=", "-pyflakes=", "-no-color", "-oneline")
    assert run([binary, *alone, *files]) == ""


def test_there_are_those_for_lint_tests_the_test_bed_and_releases(workflows):
    assert sorted(workflows) == sorted(NAMES)


def test_workflows_may_read_the_repository_and_no_more_unless_it_is_listed(workflows):
    for workflow in workflows.values():
        assert workflow["permissions"] == {"contents": "read"}
        assert "pull_request_target" not in workflow["on"]
    asked = {
        (name, job): one["permissions"]
        for name, job, one in jobs(workflows)
        if "permissions" in one
    }
    assert asked == RIGHTS


def test_jobs_end_in_any_case_and_run_on_a_named_system(workflows):
    for name, job, told in jobs(workflows):
        assert 0 < int(told["timeout-minutes"]) <= 120, (name, job)
        assert told["runs-on"] == "ubuntu-24.04"


def test_actions_are_pinned_by_version_and_one_version_of_each(workflows):
    used = [step["uses"] for _, step in steps(workflows) if "uses" in step]
    assert used
    assert [each for each in used if not VERSION.fullmatch(each)] == []
    assert len({each.partition("@")[0] for each in used}) == len(set(used))


def test_checkouts_leave_no_password_behind(workflows):
    for where, step in steps(workflows):
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] == "false", where


def test_scripts_are_shell_and_take_nothing_that_others_may_write(workflows):
    for where, text in scripts(workflows):
        assert "${{" not in text, where
        checked = subprocess.run(
            ["bash", "-n"], input=text, text=True, capture_output=True, check=False
        )
        assert not checked.stderr, where


def test_make_targets_that_are_run_are_there(workflows, repository):
    makefile = (repository / "Makefile").read_text("utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    run = {name for _, text in scripts(workflows) for name in re.findall(r"\bmake ([a-z-]+)", text)}
    assert {"lint", "test", "test-system", "testbed"} <= run
    assert run - {"openssl"} <= targets


def test_tests_run_on_the_versions_of_python_that_the_package_names(workflows, repository):
    project = tomllib.loads((repository / "pyproject.toml").read_text("utf-8"))["project"]
    named = re.findall(r"Python :: (3\.\d+)", " ".join(project["classifiers"]))
    assert workflows["test"]["jobs"]["fast"]["strategy"]["matrix"]["python"] == named


def test_helm_is_the_one_that_the_test_bed_has(workflows):
    used = [
        step["with"]["version"]
        for _, step in steps(workflows)
        if step.get("uses", "").startswith("azure/setup-helm@")
    ]
    assert used
    assert set(used) == {HELM_3}


def test_every_preset_is_linted(workflows):
    (text,) = (text for where, text in scripts(workflows) if where == "lint/chart")
    assert all(f" {preset}" in text for preset in PRESETS)


def test_servers_are_those_that_ci_installs(workflows, repository):
    ours = (repository / ".ci" / "run").read_text("utf-8")
    packages = set(re.findall(r"need\+=\(([^)]*)\)", ours))
    wanted = {name for each in packages for name in each.split()} - {"python3-venv"}
    for workflow, job in (("test", "fast"), ("testbed", "system")):
        text = workflows[workflow]["jobs"][job]["steps"][0]["run"]
        assert wanted <= set(text.split()), workflow


#: Programs that tests look for and CI need not install by name, and why.
COMES_WITH = {
    "cc": "gcc",
    "go": "the machine, or .ci/run ends and says so",
    "hadolint": "the dependency group dev",
    "helm": "the test bed",
    "setpriv": "Debian's util-linux, which every machine has",
    "vmalert": "the package victoria-metrics",
    "nvidia-smi": "a driver: tests of GPUs only",
    "ptxas": "CUDA: tests of GPUs only",
}


def test_ci_installs_each_program_that_tests_look_for(repository):
    ours = (repository / ".ci" / "run").read_text("utf-8")
    installed = set(re.findall(r"command -v ([\w-]+)", ours))
    looked_for = {
        name
        for path in (repository / "tests").rglob("*.py")
        for name in re.findall(r"""which\(["']([\w-]+)["']""", path.read_text("utf-8"))
    }
    assert {"chromium", "gcc", "postgres"} <= looked_for
    assert looked_for - installed - COMES_WITH.keys() == set()
    assert not installed & COMES_WITH.keys() - {"go"}


def test_a_release_publishes_by_identity_and_names_no_host(workflows, repository):
    publish = workflows["release"]["jobs"]["publish"]
    assert publish["environment"] == "pypi"
    assert "password" not in str(publish)
    text = (repository / ".github/workflows/release.yaml").read_text("utf-8")
    assert not re.search(r"\b[a-z0-9-]+\.(io|com|org|dev)\b", text)
