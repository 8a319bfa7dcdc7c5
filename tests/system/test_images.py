"""The images, as far as they can be had without building one: each Dockerfile's steps are followed.

What a ``RUN`` of the build stage says is run in a folder of the test, then the entry points are
started by the user and with the variables that the image names, in a tree that cannot be written.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
import yaml

from tests.exporter.test_image import dockerfile, instructions
from tests.processes import Process
from tests.testbed.servers import eventually

pytestmark = [pytest.mark.system, pytest.mark.timeout(900)]

#: Most that an image adds to its base, in MB, as its Dockerfile says (with bytecode).
MOST_MB = {"exporter": 50, "agent": 280}
INTERPRETERS = (getattr(sys, "_base_executable", sys.executable), "/usr/bin/python3")


#: A cluster that nobody answers for.
KUBECONFIG = """
current-context: lab
clusters: [{name: lab, cluster: {server: 'http://127.0.0.1:9'}}]
users: [{name: me, user: {}}]
contexts: [{name: lab, context: {cluster: lab, user: me}}]
"""


def as_user(number, command):
    """``command`` as that user, without groups and without any capability."""
    who = (f"--reuid={number}", f"--regid={number}", "--clear-groups")
    nothing = ("--bounding-set=-all", "--inh-caps=-all", "--no-new-privs")
    return ["setpriv", *who, *nothing, *command]


@pytest.fixture(scope="module")
def interpreter():
    """A Python that every user may run, with pip to bring."""
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("needs root and setpriv: entry points are run as the images' users")
    asked = ("-c", "import ensurepip, sys; sys.exit(not (3, 11) <= sys.version_info[:2])")
    for program in INTERPRETERS:
        tried = as_user(65532, [program, *asked])
        if subprocess.run(tried, capture_output=True, check=False, cwd="/").returncode == 0:
            return program
    return pytest.fail("no Python 3.11 or newer that another user may run (python3-venv)")


@dataclass(frozen=True)
class Image:
    """A followed Dockerfile: its tree below ``root``, and what it says of the process."""

    root: Path
    environment: dict[str, str]
    user: int
    command: list[str]

    @property
    def files(self):
        """Size and time of every file of what it adds."""
        there = (self.root / "opt").rglob("*")
        return {path: path.lstat().st_mtime_ns for path in there if not path.is_dir()}

    def start(self, log, *arguments):
        """The process of its entry point, with other arguments than the image's."""
        inside = {
            name: re.sub(r"(^|:)(/opt|/var)", rf"\1{self.root}\2", value)
            for name, value in self.environment.items()
        }
        program = shutil.which(self.command[0], path=inside["PATH"])
        assert program is not None
        folder = Path(inside.get("HOME", "/"))
        command = as_user(self.user, [program, *arguments])
        return Process(command, log, inside, folder)


def follow(repository, part, root, interpreter):
    """Follow the Dockerfile of a part in ``root``."""
    told = [line.split(None, 1) for line in instructions(dockerfile(repository, part))]
    stages = [number for number, (word, _) in enumerate(told) if word == "FROM"]
    build, last = told[: stages[-1]], told[stages[-1] :]
    source = root / "src"
    source.mkdir(parents=True)
    for word, rest in build:
        if word == "COPY":
            *names, place = rest.split()
            copied(repository, names, source / place)
        elif word == "RUN":
            moved = rest.replace("/src", str(source)).replace("/opt/", f"{root}/opt/")
            moved = re.sub(r"^python ", f"{shlex.quote(interpreter)} ", moved)
            (root / "opt").mkdir(exist_ok=True)
            subprocess.run(["sh", "-ec", moved], cwd=source, check=True, timeout=800)
    pairs = [pair for word, rest in last if word == "ENV" for pair in shlex.split(rest)]
    environment = {name: value for name, _, value in (pair.partition("=") for pair in pairs)}
    environment["PATH"] = environment["PATH"].replace("$PATH", "/usr/bin:/bin")
    (user,) = (rest for word, rest in last if word == "USER")
    (entry,) = (yaml.safe_load(rest) for word, rest in last if word == "ENTRYPOINT")
    home = root / environment.get("HOME", "/nowhere").lstrip("/")
    home.mkdir(parents=True, exist_ok=True)
    os.chown(home, int(user.partition(":")[0]), -1)
    closed = ["chmod", "-R", "a-w,a+rX", str(root / "opt")]
    subprocess.run(closed, check=True)
    return Image(root, environment, int(user.partition(":")[0]), entry)


def copied(repository, names, place):
    """What COPY does, without what a build leaves in a checkout."""
    for name in names:
        if (repository / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__", "*.pyc")
            shutil.copytree(repository / name, place, ignore=ignored)
        else:
            shutil.copy(repository / name, place)


@pytest.fixture(scope="module")
def images(repository, interpreter):
    """Both images, below a folder that every user may enter."""
    root = Path(tempfile.mkdtemp(prefix="gputailor-images-"))
    root.chmod(0o755)
    yield {
        part: follow(repository, part, root / part, interpreter) for part in ("exporter", "agent")
    }
    shutil.rmtree(root)


def megabytes(image):
    found = image.files
    return sum(path.lstat().st_size for path in found) / 1e6


def test_what_an_image_adds_is_no_larger_than_its_file_says(images, repository):
    for part, image in images.items():
        said = re.search(r"added is at most (\d+) MB", dockerfile(repository, part))
        assert said is not None, part
        assert int(said[1]) == MOST_MB[part]
        assert MOST_MB[part] / 10 < megabytes(image) < MOST_MB[part], part


def test_no_pip_is_left_and_bytecode_is_there(images):
    for image in images.values():
        names = {path.name for path in image.files}
        assert not names & {"pip", "pip3"}
        assert any(name.endswith(".pyc") for name in names)


#: Extras that the agent's image is without, and why.
LEFT_OUT = {
    "all": "the others together",
    "exporter": "the other image",
    "parquet": "a file for people who export the store, 165 MB",
}


def test_the_agents_image_has_each_extra_that_a_setting_may_ask_for(repository):
    """Whoever sets it by the chart cannot install a library."""
    project = tomllib.loads((repository / "pyproject.toml").read_text("utf-8"))["project"]
    text = dockerfile(repository, "agent")
    (found,) = re.findall(r"'\.\[([a-z,]+)\]'", text)
    assert set(found.split(",")) == project["optional-dependencies"].keys() - LEFT_OUT.keys()


#: Imports all of ours, makes an API client of Kubernetes, and writes numbers in every language.
WHOLE = """
import importlib, pkgutil
import gputailor_agent, gputailor_dashboards
from gputailor_agent.reports import catalogues
from babel.numbers import format_decimal
import kubernetes.client, kubernetes.config
for package in (gputailor_agent, gputailor_dashboards):
    for one in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if not one.name.endswith("__main__") and ".migrations.env" not in one.name:
            importlib.import_module(one.name)
for name in catalogues.LOCALES.values():
    print(name, format_decimal(1234.5, locale=name))
"""


def test_nothing_that_the_agent_loads_was_cut_from_its_image(images, tmp_path):
    agent = images["agent"]
    python = agent.root / "opt/gputailor/bin/python"
    command = as_user(agent.user, [str(python), "-c", WHOLE])
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")
    assert done.returncode == 0, done.stderr
    assert "en_US 1,234.5" in done.stdout
    assert "zh_Hans_CN 1,234.5" in done.stdout
    # A chat's service is a plug-in of apprise, loaded by its name.
    asked = "import apprise; assert apprise.Apprise().add('json://chat.example.org/room')"
    tried = as_user(agent.user, [str(python), "-c", asked])
    assert subprocess.run(tried, capture_output=True, check=False, cwd="/").returncode == 0
    # The client of Kubernetes, as far as it goes without a cluster.
    kubeconfig = agent.root / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG, "utf-8")
    looked = agent.start(tmp_path / "doctor.log", "doctor", "--kubeconfig", str(kubeconfig))
    looked.popen.wait(60)
    assert "the API server running?" in " ".join(looked.output.split())
    assert "Traceback" not in looked.output


def test_both_entry_points_run_as_their_users_and_write_nothing_into_their_tree(images, tmp_path):
    exporter, agent = images["exporter"], images["agent"]
    assert (exporter.user, agent.user) == (0, 65532)
    before = exporter.files | agent.files
    simulated = ("--backend", "simulated", "--scenario", "demo", "--node", "a100-0")
    measures = exporter.start(tmp_path / "exporter.log", *simulated, "--listen", "127.0.0.1:0")
    try:
        eventually(lambda: httpx.get(f"{measures.url()}/readyz").is_success, "it measures")
        settings = agent.root / "agent.yaml"
        told = {"targets": [measures.url()], "listen": "127.0.0.1:0", "scrape_seconds": 1}
        store = f"sqlite:///{agent.root}/var/lib/gputailor/gputailor.db"
        settings.write_text(yaml.safe_dump(told | {"store": store, "kubernetes": False}), "utf-8")
        judges = agent.start(tmp_path / "agent.log", "serve", "--config", str(settings))
        try:
            ready = f"{judges.url(60)}/readyz"
            eventually(lambda: httpx.get(ready).is_success, "it judges", seconds=90)
            assert judges.stop() == 0, judges.output
        finally:
            judges.end()
        assert measures.stop() == 0, measures.output
    finally:
        measures.end()
    assert exporter.files | agent.files == before
    assert (agent.root / "var/lib/gputailor/gputailor.db").stat().st_uid == agent.user
