"""Fixtures every test folder may use, and the rule that CI skips nothing.

The rule is about what CI can install, and a GPU is not: tests that are marked ``gpu`` are skipped by
name where there is none, in CI as anywhere else.
"""

import os
from pathlib import Path

import hypothesis
import pytest

# Property tests have no deadline: on a busy machine wall time is no property of the code.
hypothesis.settings.register_profile("no-deadline", deadline=None)
hypothesis.settings.load_profile("no-deadline")

#: Fixtures of tests.testbed.fixtures: what stands behind them is built by ``make testbed``.
SERVERS = frozenset(
    {"control_plane", "control_plane_factory", "helm", "helm3", "kube_state_metrics"}
)

REPOSITORY = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def repository() -> Path:
    """Root of the checkout."""
    return REPOSITORY


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Return the folder of real data beside the checkout, or skip by name."""
    folder = Path(os.environ.get("GPUTAILOR_SHARED", REPOSITORY.parent / "shared")) / "data"
    if not folder.is_dir():
        pytest.skip(f"real data is not here: {folder} (set GPUTAILOR_SHARED)")
    return folder


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse a test of the fast suite that needs a server of the test bed.

    On a new machine the fast suite runs before the servers are built.
    """
    wrong = [
        f"{item.nodeid} uses {', '.join(sorted(built))}"
        for item in items
        if item.get_closest_marker("system") is None
        and (built := SERVERS.intersection(getattr(item, "fixturenames", ())))
    ]
    if wrong:
        text = "\n  ".join(wrong)
        raise pytest.UsageError(f"mark them with pytest.mark.system, or need no server:\n  {text}")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """Turn a skip into a failure where CI is set: nothing but the GPU may be missing there."""
    outcome = yield
    report = outcome.get_result()
    if item.get_closest_marker("gpu") is not None:
        return
    if report.skipped and os.environ.get("CI") and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped under CI: {report.longrepr}"
