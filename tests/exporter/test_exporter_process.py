"""The exporter as people start it: a real process, real HTTP, signals, memory."""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from importlib.resources import files

import psutil
import pytest

from gputailor_exporter.cli import main
from tests.exporter.stubs import eventually
from tests.testbed.servers import free_ports

SCENARIO = files("gputailor_exporter") / "scenarios" / "demo.yaml"

#: Measured 34 MiB; dcgm-exporter was OOM-killed at 400 MiB under its own default limits.
MOST_MEMORY_MIB = 80


def environment(**more):
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("GPUTAILOR_EXPORTER_")
    }
    return {**kept, **more}


@contextmanager
def exporter(*flags, **env):
    command = [sys.executable, "-m", "gputailor_exporter", "--listen", "127.0.0.1:0", *flags]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(**env)
    )
    try:
        line = process.stdout.readline()
        assert line.startswith("listening on http://127.0.0.1:"), process.stderr.read()
        yield process, line.split()[-1]
    finally:
        process.kill()
        process.communicate()


def simulated(node="a100-0"):
    return ("--backend", "simulated", "--scenario", str(SCENARIO), "--node", node)


def fetch(url):
    with urllib.request.urlopen(url, timeout=5) as answer:
        return answer.read().decode()


def is_ready(url):
    try:
        return bool(fetch(f"{url}/readyz"))
    except OSError:
        return False


def test_a_simulated_node_serves_containers_within_bounded_memory_and_stops_on_sigterm():
    with exporter(*simulated(), "--interval", "0.1") as (process, url):
        eventually(lambda: is_ready(url), within=15)
        eventually(
            lambda: "gputailor_container_gpu_allocated{" in fetch(f"{url}/metrics"), within=15
        )
        for _ in range(50):
            page = fetch(f"{url}/metrics")
        memory = psutil.Process(process.pid).memory_info().rss / 2**20
        assert page.count("gputailor_device_up{") == 8
        assert memory < MOST_MEMORY_MIB
        before = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0
        assert time.monotonic() - before < 5
        assert "Traceback" not in process.stderr.read()


@pytest.mark.parametrize("closed", [(0, 1, 2), (1,), (2,)], ids=str)
def test_it_serves_with_standard_streams_closed_and_no_answer_holds_its_log(closed):
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    closing = " ".join(f"{number}>&-" for number in closed)
    flags = ["--listen", f"127.0.0.1:{port}", "--log-level", "debug", *simulated()]
    command = [sys.executable, "-m", "gputailor_exporter", *flags]
    process = subprocess.Popen(
        ["/bin/sh", "-c", f'exec "$@" {closing}', "sh", *command],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment(),
    )
    try:
        eventually(lambda: is_ready(url), within=20.0)
        assert fetch(f"{url}/metrics").startswith("# HELP gputailor_")
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0
    finally:
        process.kill()
        process.wait()


def test_a_node_is_named_in_any_bytes():
    with exporter("--attribution", "none", "--backend", "amd", "--node", os.fsdecode(b"n\xff")) as (
        _,
        url,
    ):
        eventually(lambda: "gputailor_exporter_build_info" in fetch(f"{url}/metrics"))


def test_the_environment_configures_the_process():
    env = {
        "GPUTAILOR_EXPORTER_BACKEND": "simulated",
        "GPUTAILOR_EXPORTER_SCENARIO": str(SCENARIO),
        "NODE_NAME": "t4-0",
        "GPUTAILOR_EXPORTER_NO_HISTOGRAM": "1",
        "GPUTAILOR_EXPORTER_ATTRIBUTION": "none",
    }
    with exporter(**env) as (process, url):
        eventually(lambda: 'node="t4-0"' in fetch(f"{url}/metrics"), within=15)
        assert "gputailor_container_" not in fetch(f"{url}/metrics")
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 0


def run(*flags, **env):
    command = [sys.executable, "-m", "gputailor_exporter", *flags]
    return subprocess.run(
        command, capture_output=True, text=True, env=environment(**env), timeout=30, check=False
    )


def test_without_a_required_driver_it_fails_in_words():
    if os.path.exists("/dev/nvidiactl"):  # noqa: PTH110 - a device node
        pytest.skip("this machine has a driver")
    done = run("--listen", "127.0.0.1:0", "--require-devices")
    assert done.returncode == 1
    assert "What to do" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_taken_port_fails_in_words():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run(*simulated("t4-0"), "--listen", f"127.0.0.1:{port}")
    assert done.returncode == 1
    assert f"cannot listen on 127.0.0.1:{port}" in done.stderr
    assert "--listen" in done.stderr


def test_a_missing_extra_is_named():
    code = (
        "import sys; sys.modules['h11'] = None\n"
        "from gputailor_exporter.cli import main; sys.exit(main(['--listen', '127.0.0.1:0']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 1
    assert "pip install 'gputailor[exporter]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_help_needs_no_extra():
    code = (
        "import sys; sys.modules.update({n: None for n in ('h11', 'yaml', 'pynvml')})\n"
        "from gputailor_exporter.cli import main; main(['--help'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 0
    assert "--pod-resources-socket" in done.stdout


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--backend", "simulated", "--scenario", "/nowhere.yaml"), "/nowhere.yaml"),
        (simulated("no-such-node"), "no-such-node"),
        ((*simulated("t4-0"), "--web-config", "/nowhere.yml"), "/nowhere.yml: cannot be read"),
    ],
)
def test_what_cannot_start_ends_with_code_1_and_the_reason(flags, said, capsys):
    assert main([*flags, "--listen", "127.0.0.1:0"]) == 1
    assert said in capsys.readouterr().err


def test_the_simulate_command_is_handed_on(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["simulate", "--help"])
    assert ended.value.code == 0
    assert "--scenario" in capsys.readouterr().out
