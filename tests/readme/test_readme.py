"""Every command of the README is run by a test, and every page that it names is there."""

import re
from collections import Counter
from importlib import import_module

import pytest

from tests.readme import commands

#: Modules whose tests run commands of the README.
MODULES = ("test_commands", "test_demo", "test_install", "test_cluster")


def run_by_tests() -> Counter[str]:
    """How many tests run each command."""
    modules = (import_module(f"tests.readme.{name}") for name in MODULES)
    tests = (one for module in modules for one in vars(module).values())
    return Counter(command for one in tests for command in getattr(one, "readme_commands", ()))


def test_every_command_that_is_shown_is_run_by_one_test():
    shown = commands.shown()
    assert len(shown) >= 15
    assert run_by_tests() == Counter(set(shown))


def test_a_command_in_the_middle_of_a_sentence_is_a_bare_name():
    """What has options is shown on a line of its own, where the test above finds it."""
    inline = re.findall(
        r"`((?:gputailor|gputailor-exporter|helm|kubectl|make|pip) [^`]+)`", commands.text()
    )
    assert [one for one in inline if " -" in one] == []


def test_a_command_is_only_changed_in_its_places():
    command = "gputailor serve --target http://node-1:9836"
    assert commands.elsewhere(command, {"node-1:9836": "host:1"}).endswith("http://host:1")
    with pytest.raises(AssertionError, match="stands 0 times"):
        commands.elsewhere(command, {"node-2": "host"})


def test_a_command_that_the_readme_does_not_show_is_no_test_of_it():
    with pytest.raises(AssertionError, match="not in the README"):
        commands.runs("gputailor invent")(test_a_command_is_only_changed_in_its_places)


def test_every_page_that_is_linked_is_there(repository):
    for target in re.findall(r"\]\(([^)#]+)\)", commands.text()):
        if "://" in target:
            pytest.fail(f"an outside link in the README: {target}")
        assert (repository / target).exists(), target
