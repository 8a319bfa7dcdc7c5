"""A pytest plugin: which test runs which line of the mutated code, and how long each test takes.

Lines that run at import belong to no test (context ''): a change there concerns every test that
runs anything of the module. Times are of the processor, so that a busy machine makes nobody late.
"""

import json
import os
import time
from pathlib import Path

import coverage
import pytest


class Baseline:
    """Coverage with one context per test, and each test's seconds; written at the end."""

    def __init__(self, folder: Path, sources: list[str]) -> None:
        self._folder = folder
        self._seconds: dict[str, float] = {}
        self._failed: set[str] = set()
        self._coverage = coverage.Coverage(
            data_file=str(folder / "coverage"), source=sources, config_file=False, messages=False
        )
        self._coverage.start()

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item, nextitem):
        self._coverage.switch_context(item.nodeid)
        began = time.process_time()
        yield
        if item.nodeid not in self._failed:  # such a test tells nothing of a mutant
            self._seconds[item.nodeid] = time.process_time() - began
        self._coverage.switch_context("")

    def pytest_runtest_logreport(self, report):
        if report.failed:
            self._failed.add(report.nodeid)

    def pytest_sessionfinish(self, session):
        self._coverage.stop()
        self._coverage.save()
        (self._folder / "seconds.json").write_text(json.dumps(self._seconds), "utf-8")


def pytest_configure(config):
    """Register; the folder and what to look at come from who started it (``__main__``)."""
    told = json.loads(os.environ["GPUTAILOR_MUTATION_BASELINE"])
    config.pluginmanager.register(Baseline(Path(told["folder"]), told["sources"]))
