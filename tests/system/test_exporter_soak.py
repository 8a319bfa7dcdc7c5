"""Two minutes of pods, processes and MIG instances that come and go: the exporter does not grow."""

import pytest

from tests.benchmarks.soak_exporter import MIB, soak

pytestmark = [pytest.mark.system, pytest.mark.timeout(200)]

#: Memory levels out after some thousand pods (make soak); two minutes see only that nothing runs
#: away: pages and tables still find their size, and the allocator keeps what it once had.
MOST_GROWTH = 2 * MIB
#: The goal of the whole exporter, bytes; here with two minutes of names that came and went.
MOST_RESIDENT = 40_000_000


def test_memory_is_flat_while_pods_and_instances_come_and_go(tmp_path, fake_nvml_library, capsys):
    found = soak(tmp_path, fake_nvml_library, minutes=2.0)
    with capsys.disabled():
        print(f"\n{found.table()}")  # noqa: T201 - the figure is what the test is for
    assert found.pods > 100
    assert found.instances > 30
    assert found.growth < MOST_GROWTH
    assert max(found.resident) < MOST_RESIDENT
    assert found.files < 40
    assert found.p99 < 1.0
