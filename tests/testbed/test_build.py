"""A set of programs is built once, whole, and never taken for built when it is not."""

import multiprocessing
import os
import re
import stat

import pytest

from tests.testbed import build, servers
from tests.testbed.build import BuildError, Module

GO = """#!/bin/sh
echo "$*" >> {log}
[ -e {slow} ] && sleep 3
[ -e {fail} ] && echo "undefined: X" && exit 1
while [ "$1" != -o ]; do shift; done
printf '#!/bin/sh\\necho tool version 1.2.3\\n' > "$2"
chmod +x "$2"
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A set of two programs whose go.mod lies in a folder of the test."""
    monkeypatch.setattr(build, "HERE", tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    (tmp_path / "cache").mkdir()
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "go.mod").write_text("module set\n")
    (tmp_path / "set" / "go.sum").write_text("")
    made = Module("set", {"one": "example.org/one", "two": "example.org/two"})
    monkeypatch.setattr(build, "MODULES", (made,))
    return made


@pytest.fixture
def go(tmp_path, monkeypatch):
    """A stand-in for the compiler that writes down its calls and can be told to fail."""
    folder = tmp_path / "bin"
    folder.mkdir()
    script = folder / "go"
    script.write_text(GO.format(**{name: tmp_path / name for name in ("log", "slow", "fail")}))
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return tmp_path


def calls(go):
    path = go / "log"
    return path.read_text().splitlines() if path.exists() else []


def test_what_was_built_is_not_built_again(module, go):
    assert build.build(module) == build.build(module)
    assert len(calls(go)) == 2
    assert build.find("two") == build.built_folder(module) / "two"


def test_another_go_sum_is_another_build(module, go):
    before = build.build(module)
    (module.folder / "go.sum").write_text("example.org/one v1.0.0 h1:x=\n")
    assert build.find("one") is None
    assert build.build(module) != before


def test_a_build_that_fails_leaves_nothing_and_says_why(module, go):
    (go / "fail").touch()
    with pytest.raises(BuildError, match=r"example.org/one cannot be built(.|\n)*undefined: X"):
        build.build(module)
    assert build.find("one") is None
    (go / "fail").unlink()
    assert build.build(module).is_dir()


def test_a_build_killed_half_way_is_not_taken_for_built_and_is_made_good(module, go):
    (go / "slow").touch()
    builder = multiprocessing.get_context("fork").Process(target=build.build, args=(module,))
    builder.start()
    servers.eventually(lambda: calls(go), "the compiler runs", seconds=10, pause_seconds=0.01)
    builder.kill()
    builder.join()
    (go / "slow").unlink()
    assert build.find("one") is None
    assert list(build.cache_folder().glob(".set-*"))
    build.build(module)
    assert build.find("one") is not None
    assert not list(build.cache_folder().glob(".set-*"))


def test_the_assets_folder_is_searched_first(module, go, tmp_path, monkeypatch):
    build.build(module)
    assets = tmp_path / "assets"
    assets.mkdir()
    (assets / "one").touch(mode=0o755)
    (assets / "two").touch(mode=0o644)  # not a program
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(assets))
    assert build.find("one") == assets / "one"
    assert build.find("two") == build.built_folder(module) / "two"


def test_without_go_it_says_what_is_missing(module, monkeypatch, capsys):
    monkeypatch.setenv("PATH", "/nonexistent")
    assert build.main([]) == 1
    said = capsys.readouterr().err
    assert "go is not on PATH" in said
    assert "KUBEBUILDER_ASSETS" in said
    assert "one, two" in said


def test_version_time_and_place_are_printed(module, go, capsys):
    assert build.main(["one"]) == 0
    said = capsys.readouterr().out
    assert re.search(r"tool version 1\.2\.3 \(built in \d+ s, \d+ MiB\): \S+/one\n", said)


def test_an_unknown_program_is_named_with_what_there_is(module, capsys):
    assert build.main(["three"]) == 1
    assert "unknown program 'three': expected one of set, one, two" in capsys.readouterr().err


def test_a_test_that_needs_an_unbuilt_program_is_skipped_by_name(module, monkeypatch):
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="not built: two; run `make testbed`"):
        servers.need("two")


def test_under_ci_a_missing_program_is_a_failure(module, monkeypatch):
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="not built: one, two"):
        servers.need("one", "two")


def test_a_server_is_started_again_on_other_ports_when_one_was_taken():
    tried = []

    def start(ports):
        tried.append(ports)
        if len(tried) == 1:
            raise servers.ServerError("listen tcp: bind: address already in use")
        return "running"

    assert servers.start_on_free_ports(2, start) == "running"
    assert len(tried) == 2
    assert len(set(tried[0])) == 2


def test_a_server_that_ends_early_is_reported_with_its_last_words(tmp_path):
    server = servers.Server("short", ["sh", "-c", "echo no such flag; exit 3"], tmp_path / "log")
    with pytest.raises(servers.ServerError, match=r"short ended with 3:\nno such flag"):
        server.wait_ready(lambda: False, seconds=10)


def test_a_server_is_stopped_by_its_id(tmp_path):
    server = servers.Server("long", ["sleep", "60"], tmp_path / "log")
    assert server.alive
    server.stop()
    assert not server.alive


def test_every_set_pins_its_modules():
    for module in build.MODULES:
        assert stat.S_ISREG((module.folder / "go.mod").stat().st_mode)
        text = (module.folder / "go.mod").read_text("utf-8")
        for package in module.programs.values():
            assert re.search(rf"^(tool|\t)\s*{re.escape(package)}$", text, re.MULTILINE), package
        assert (module.folder / "go.sum").stat().st_size > 0


def versions(name):
    """Version by module of a folder's go.mod."""
    text = (build.HERE / name / "go.mod").read_text("utf-8")
    return dict(re.findall(r"^\s*(\S+\.\S+/\S+) (v\S+)", text, re.MULTILINE))


def test_helm_3_is_built_from_the_libraries_that_kubernetes_was_built_from():
    ours, theirs = versions("helm3"), versions("kubernetes")
    shared = ours.keys() & theirs.keys()
    assert len(shared) > 80
    assert {name for name in shared if ours[name] != theirs[name]} == set()
    order = [module.name for module in build.MODULES]
    assert order.index("kubernetes") < order.index("helm3")
