"""The entry point: says what is missing, keeps exit codes, shows no traceback."""

import subprocess
import sys
from pathlib import Path

import pytest

import gputailor_agent
from gputailor_agent.cli import app, entry

#: The agent's code is there and nothing else that is installed.
WITHOUT = f"""
import sys
sys.path.insert(0, {str(Path(gputailor_agent.__file__).parents[1])!r})
from gputailor_agent.cli import entry
entry.main()
"""


def test_without_the_extra_the_user_is_told_what_to_install():
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", WITHOUT], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "pip install 'gputailor[agent]'" in done.stderr
    assert "typer" in done.stderr
    assert "Traceback" not in done.stderr


def run(capsys, *arguments: str) -> tuple[int, str, str]:
    code = app.run("gputailor", arguments)
    out, err = capsys.readouterr()
    return code, out, err


def test_help_lists_every_command_and_an_example(capsys):
    code, out, _ = run(capsys, "--help")
    assert code == 0
    for word in ("demo", "serve", "report", "analyse", "explain", "doctor", "Exit codes"):
        assert word in out


@pytest.mark.parametrize("command", ["demo", "serve", "report", "analyse", "explain", "doctor"])
def test_the_help_of_every_command_shows_examples(capsys, command):
    code, out, _ = run(capsys, command, "--help")
    assert code == 0
    assert f"gputailor {command}" in out.split("Examples:")[1]


def test_the_version_is_told(capsys):
    code, out, _ = run(capsys, "--version")
    assert code == 0
    assert out.startswith("gputailor 0.")


@pytest.mark.parametrize(
    "arguments",
    [
        ("nonsense",),
        ("report", "--nonsense"),
        ("analyse",),
        ("report", "--output", "xml", "--archive", "."),
        ("report",),
        ("report", "--archive", "/does/not/exist"),
        ("report", "--archive", ".", "--fail-on", "saving"),
        ("report", "--archive", ".", "--for", "nonsense"),
    ],
)
def test_wrong_usage_exits_2_with_words_and_no_traceback(capsys, arguments, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    code, out, err = run(capsys, *arguments)
    assert code == 2
    assert err
    assert "Traceback" not in out + err


def test_called_as_a_kubectl_plugin_it_names_itself_so(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["/usr/bin/kubectl-gputailor", "--help"])
    with pytest.raises(SystemExit) as stopped:
        entry.main()
    assert stopped.value.code == 0
    assert "kubectl gputailor" in capsys.readouterr().out


def test_commands_of_other_packages_are_added(monkeypatch, capsys):
    class Point:
        def load(self):
            def register(typer_app):
                typer_app.command("hello")(lambda: sys.stdout.write("hello\n"))

            return register

    app.build.cache_clear()
    monkeypatch.setattr(app.metadata, "entry_points", lambda group: [Point()])
    try:
        assert run(capsys, "hello")[:2] == (0, "hello\n")
    finally:
        monkeypatch.undo()
        app.build.cache_clear()


def test_a_package_whose_commands_cannot_be_loaded_takes_no_other_command_with_it(
    monkeypatch, capsys
):
    class Point:
        name, value = "broken", "broken_package:register"

        def load(self):
            raise ModuleNotFoundError("No module named 'grafanalib'")

    app.build.cache_clear()
    monkeypatch.setattr(app.metadata, "entry_points", lambda group: [Point()])
    try:
        code, out, err = run(capsys, "--version")
        assert code == 0
        assert out.startswith("gputailor ")
        assert "warning: the command 'broken'" in err
        assert "grafanalib" in err
    finally:
        monkeypatch.undo()
        app.build.cache_clear()


def test_a_command_loads_no_server_and_no_database_of_other_commands():
    script = (
        "import sys; from gputailor_agent.cli import app; app.run('gputailor', ['analyse', '-h']);"
        "sys.exit(', '.join({'fastapi', 'uvicorn', 'sqlalchemy', 'apscheduler'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.stderr.strip() == ""
    assert "Usage" in done.stdout


def test_completion_knows_every_command(monkeypatch, capsys):
    monkeypatch.setenv("_GPUTAILOR_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "gputailor ")
    monkeypatch.setenv("COMP_CWORD", "1")
    _, out, _ = run(capsys, "report")
    assert {"demo", "serve", "report", "analyse", "explain", "doctor"} <= set(out.split())
