"""One wheel; each extra alone is enough for its own part, and brings nothing of the others."""

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]


def run(*command, **options):
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, check=False, **options
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory, repository) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    constraints = {"PIP_CONSTRAINT": str(repository / "constraints.txt")}
    run(
        *(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", folder, repository),
        env=os.environ | constraints,
    )
    (built,) = folder.iterdir()
    return built


@pytest.fixture
def installed(wheel, tmp_path, repository):
    """A function: a new environment's ``bin`` with the wheel and one extra."""

    def install(extra: str) -> Path:
        folder = tmp_path / f"env-{extra or 'none'}"
        venv.create(folder, with_pip=False)
        wanted = f"{wheel}[{extra}]" if extra else str(wheel)
        run(
            *(sys.executable, "-m", "uv", "pip", "install", "--quiet"),
            *("--python", folder / "bin" / "python"),
            *("-c", repository / "constraints.txt", wanted),
        )
        return folder / "bin"

    return install


def modules(bin_folder: Path) -> set[str]:
    """Names of what is installed."""
    code = (
        "from importlib import metadata as m; print(*(d.name.lower() for d in m.distributions()))"
    )
    return set(run(bin_folder / "python", "-c", code).split())


def test_the_exporter_alone_is_small_and_runs_a_scenario(installed, tmp_path):
    folder = installed("exporter")
    assert not modules(folder) & {"numpy", "sqlalchemy", "fastapi", "typer", "rich", "grpcio"}
    assert "gputailor-exporter" in run(folder / "gputailor-exporter", "--help")
    run(
        *(folder / "gputailor-exporter", "simulate", "--scenario", "demo", "--days", "1"),
        *("--out", tmp_path / "history", "--manifests", tmp_path / "manifests.json"),
    )
    assert list((tmp_path / "history").iterdir())
    refused = subprocess.run(
        [folder / "gputailor", "report"], capture_output=True, text=True, check=False
    )
    assert refused.returncode == 1
    assert "pip install 'gputailor[agent]'" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_the_agent_alone_judges_a_log(installed, repository):
    folder = installed("agent")
    assert not modules(folder) & {"grafanalib", "nvidia-ml-py", "h2", "grpcio"}
    logs = sorted((repository / "tests/agent/sources/logs").glob("*.csv"))
    out = run(folder / "gputailor", "analyse", logs[0])
    assert logs[0].name in out
    assert "gputailor" in run(folder / "kubectl-gputailor", "--version")
    refused = subprocess.run(
        [folder / "gputailor", "dashboards", "generate", "x"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert refused.returncode == 1
    assert "pip install 'gputailor[dashboards]'" in refused.stderr
    exporter = subprocess.run(
        [folder / "gputailor-exporter", "--backend", "nvml"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert exporter.returncode == 1
    assert "pip install 'gputailor[exporter]'" in exporter.stderr


def test_the_dashboards_alone_generate(installed, tmp_path):
    folder = installed("dashboards")
    assert not modules(folder) & {"numpy", "sqlalchemy", "fastapi", "h2"}
    out = run(folder / "gputailor", "dashboards", "generate", tmp_path / "out")
    assert "gputailor-cluster.json" in out
    for name in ("gputailor", "kubectl-gputailor"):
        assert run(folder / name, "--version").startswith("gputailor ")


def test_the_wheel_carries_data_files_and_type_markers(wheel):
    names = run(sys.executable, "-m", "zipfile", "-l", wheel)
    for wanted in (
        "gputailor_agent/py.typed",
        "gputailor_exporter/py.typed",
        "gputailor_dashboards/py.typed",
        "gputailor_agent/catalog/devices.csv",
        "gputailor_exporter/scenarios/demo.yaml",
        "licenses/LICENSE",
    ):
        assert wanted in names
    assert "tests/" not in names
