"""Commands that the README shows are commands that exist, with options that exist."""

import re
import shlex
from argparse import ArgumentParser

import pytest
from typer.main import get_command

from gputailor_agent.cli.app import build
from gputailor_exporter import simulate
from gputailor_exporter.options import parse_options


def commands(repository, program):
    """The README's indented lines that call ``program``."""
    text = (repository / "README.md").read_text("utf-8")
    lines = [line.split("  #")[0].strip() for line in text.splitlines() if line.startswith("    ")]
    return [shlex.split(line)[1:] for line in lines if re.match(rf"{program}( |$)", line)]


def test_every_gputailor_command_is_understood(repository, tmp_path, monkeypatch):
    shown = commands(repository, "gputailor")
    assert len(shown) >= 5
    monkeypatch.chdir(tmp_path)
    for name in ("run.csv", "cluster.json", "gputailor.db"):
        (tmp_path / name).write_text("", "utf-8")
    root = get_command(build())
    for arguments in shown:
        context = root.make_context("gputailor", list(arguments), resilient_parsing=False)
        name, command, rest = root.resolve_command(
            context, [*context._protected_args, *context.args]
        )
        parsed = command.make_context(name, rest, parent=context)
        assert parsed.params, arguments


def test_every_exporter_command_is_understood(repository):
    shown = commands(repository, "gputailor-exporter")
    assert shown
    for arguments in shown:
        if arguments[:1] == ["simulate"]:
            parser = ArgumentParser()
            simulate.add_arguments(parser)
            assert parser.parse_args(arguments[1:]).scenario
        else:
            assert parse_options(arguments, {}).listen


def test_every_make_target_exists(repository):
    makefile = (repository / "Makefile").read_text("utf-8")
    targets = {arguments[0] for arguments in commands(repository, "make")}
    assert {"demo", "test", "test-system"} <= targets
    for target in targets:
        assert re.search(rf"^{re.escape(target)}:", makefile, re.MULTILINE), target


def test_every_page_that_is_linked_is_there(repository):
    text = (repository / "README.md").read_text("utf-8")
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        if "://" in target:
            pytest.fail(f"an outside link in the README: {target}")
        assert (repository / target).exists(), target
