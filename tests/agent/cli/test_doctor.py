"""Each check says what it found, and a problem says what to do."""

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from gputailor_agent.cli import app, doctor


@pytest.fixture
def exporter():
    """A page on a free loopback port; ``page`` and ``status`` can be changed."""

    class Handler(BaseHTTPRequestHandler):
        page = 'gputailor_exporter_build_info 1\ngputailor_device_up{gpu="0"} 1\n'
        status = 200

        def do_GET(self):
            self.send_response(self.status)
            self.end_headers()
            self.wfile.write(self.page.encode())

        def log_message(self, *_):
            """Stay quiet."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"127.0.0.1:{server.server_port}", Handler
    server.shutdown()
    server.server_close()


def test_an_exporter_that_answers_is_fine(exporter):
    check = doctor.exporter_reachable(exporter[0])
    assert check.standing == "ok"
    assert "1 devices" in check.found


def test_an_exporter_that_is_busy_starting_is_told(exporter):
    exporter[1].status = 503
    check = doctor.exporter_reachable(exporter[0])
    assert check.standing == "problem"
    assert "503" in check.found
    assert "first cycle" in check.advice


def test_a_strangers_page_is_told(exporter):
    exporter[1].page = "node_load1 0.5\n"
    assert "is no gputailor exporter" in doctor.exporter_reachable(exporter[0]).found


@pytest.mark.parametrize("target", ["127.0.0.1:1", "ftp://x", "http://[bad"])
def test_an_exporter_that_cannot_be_reached_is_told(target):
    check = doctor.exporter_reachable(target)
    assert check.standing == "problem"
    assert check.advice


def test_a_driver_that_loads_is_fine_and_one_that_does_not_is_a_note():
    def missing(_name):
        raise OSError("libnvidia-ml.so.1: cannot open shared object file")

    assert doctor.driver(lambda _name: object()).standing == "ok"
    check = doctor.driver(missing)
    assert check.standing == "note"
    assert "cannot open" in check.found


def test_a_kubeconfig_that_is_named_but_missing_is_a_problem(tmp_path):
    check = doctor.cluster_access({"KUBECONFIG": str(tmp_path / "none")})
    assert check.standing == "problem"
    assert "KUBECONFIG" in check.advice


def test_no_kubeconfig_at_all_is_only_a_note(tmp_path):
    assert doctor.cluster_access({"HOME": str(tmp_path)}).standing == "note"


def test_a_kubeconfig_that_can_be_read_is_fine(tmp_path):
    path = tmp_path / "config"
    path.write_text("apiVersion: v1\n")
    assert doctor.cluster_access({"KUBECONFIG": str(path)}).standing == "ok"


def test_a_missing_extra_is_told_with_the_command():
    check = doctor.extra_installed("exporter", ("no_such_module", "no.such.module"))
    assert check.standing == "note"
    assert "pip install 'gputailor[exporter]'" in check.advice


def test_doctor_does_not_make_a_store_that_is_not_there(tmp_path):
    path = tmp_path / "none.db"
    check = doctor.store_readable(f"sqlite:///{path}")
    assert check.standing == "problem"
    assert not path.exists()


def test_a_problem_exits_1_and_notes_alone_exit_0(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("GPUTAILOR_STORE", raising=False)
    assert app.run("gputailor", ["doctor"]) == 0
    assert app.run("gputailor", ["doctor", "--target", "127.0.0.1:1"]) == 1
    assert "what to do" in capsys.readouterr().out
