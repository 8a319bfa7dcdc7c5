"""The README's installation, from a copy of the checkout into an environment of its own."""

import os
import shutil
import venv

import pytest

from tests.readme import commands
from tests.readme.commands import runs

pytestmark = [pytest.mark.system, pytest.mark.timeout(400)]

INSTALL, WHEEL = "pip install '.[all]'", "pip wheel . --no-deps"
PARTS = ("exporter", "agent", "dashboards", "helm", "tests", "docs")


@pytest.fixture
def checkout(repository, tmp_path):
    """What a clone has, without what was built."""
    folder = tmp_path / "checkout"
    folder.mkdir()
    for part in PARTS:
        built = shutil.ignore_patterns("__pycache__")
        shutil.copytree(repository / part, folder / part, ignore=built)
    for path in repository.iterdir():
        if path.is_file():
            shutil.copy(path, folder)
    return folder


@runs(INSTALL, WHEEL)
def test_a_checkout_is_installed_and_makes_one_wheel(checkout, tmp_path, repository):
    venv.create(tmp_path / "env", with_pip=True)
    programs = tmp_path / "env" / "bin"
    constraints = str(repository / "constraints.txt")
    env = commands.surroundings(tmp_path, programs, PIP_CONSTRAINT=constraints)
    env["PATH"] = os.pathsep.join((str(programs), os.environ["PATH"]))
    commands.run(INSTALL, checkout, env, seconds=300)
    for program in ("gputailor", "kubectl-gputailor"):
        assert commands.run(f"{program} --version", tmp_path, env).startswith("gputailor ")
    commands.run("gputailor-exporter --help", tmp_path, env)
    commands.run("gputailor dashboards generate out", tmp_path, env)
    commands.run(WHEEL, checkout, env)
    assert [path.name[:10] for path in checkout.glob("*.whl")] == ["gputailor-"]
