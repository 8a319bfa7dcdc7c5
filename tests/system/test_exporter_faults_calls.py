"""Each call of the driver fails in each way, on one GPU: no other GPU notices, and nothing lies.

The list of calls is what the fake driver saw the exporter make, never a list written by hand. To
keep the time bounded, one machine has many GPUs, and each pair of them (one whole, one cut by MIG)
gets another call's fault.
"""

import time
from dataclasses import dataclass
from itertools import islice

import pytest

from tests.fakes.kubelet import Kubelet
from tests.fakes.nvml import FakeDriver, FakeEvent
from tests.system.exporter_parts import (
    NOTES,
    Node,
    Page,
    busy_gpu,
    contradictions,
    fell,
    figures,
    get,
    mig_gpu,
    missing,
    observed_seconds,
    wait_for,
    working,
)

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

NOT_SUPPORTED, LOST = 3, 15
BLANKS = (0xFFFFFFFFFFFFFFFF, 0x7FFFFFFFFFFFFFF2)
#: Pairs of GPUs that faults fall on; the last pair stays well.
PAIRS = 18

#: Calls that return no number a reader could take for a measurement: texts, handles, lists, orders.
NO_NUMBER = frozenset(
    {
        "nvmlInitWithFlags",
        "nvmlShutdown",
        "nvmlSystemGetDriverVersion",
        "nvmlSystemGetCudaDriverVersion_v2",
        "nvmlDeviceGetCount_v2",
        "nvmlDeviceGetHandleByIndex_v2",
        "nvmlDeviceGetHandleByUUID",
        "nvmlDeviceGetUUID",
        "nvmlDeviceGetName",
        "nvmlDeviceGetPciInfo_v3",
        "nvmlDeviceGetMigMode",
        "nvmlDeviceGetMigDeviceHandleByIndex",
        "nvmlDeviceGetDeviceHandleFromMigDeviceHandle",
        "nvmlEventSetCreate",
        "nvmlEventSetWait_v2",
        "nvmlEventSetFree",
        "nvmlDeviceRegisterEvents",
        "nvmlGpmQueryDeviceSupport",
        "nvmlGpmSampleAlloc",
        "nvmlGpmSampleGet",
        "nvmlGpmMigSampleGet",
        "nvmlGpmSampleFree",
        "nvmlDeviceGetRetiredPages",
        "nvmlDeviceGetSerial",
    }
)


@dataclass
class Seen:
    """What the driver was asked, and what it answers when all is well."""

    device: tuple[str, ...]
    system: tuple[str, ...]
    numbers: frozenset[str]
    whole: dict
    cut: dict


def machine(folder, library, pairs=PAIRS + 1):
    """Pairs of GPUs, a whole one (even number) and a cut one, each held by a pod."""
    folder.mkdir(parents=True, exist_ok=True)
    driver = FakeDriver(folder / "nvml-state")
    for pair in range(pairs):
        whole = driver.add(busy_gpu())
        kinds = ("compute", "mps", "graphics")
        whole.processes += [working(10 * pair + n, kind=kind) for n, kind in enumerate(kinds, 1)]
        driver.add(mig_gpu(pair))
    kubelet = Kubelet(folder / "kubelet.sock")
    node = Node(folder, library, driver, kubelet)
    kubelet.start()
    node.hand_out({f"pod-{i}": [node.uuids(i)[-1]] for i in range(len(driver.gpus))})
    return node


@pytest.fixture(scope="module")
def seen(tmp_path_factory, fake_nvml_library):
    """Watch the exporter on a well machine through all it ever does."""
    folder = tmp_path_factory.mktemp("well")
    node = machine(folder, fake_nvml_library, pairs=1)
    notes = folder / "notes"
    node.variables[NOTES] = str(notes)
    try:
        process = node.run()
        wait_for(node.settled, what="all is observed")
        page = node.page()
        truth = [figures(page.gpu(i, node.uuids(i))) for i in (0, 1)]
        node.driver.gpus[0].events.append(FakeEvent(79))
        node.fault({("*", 0): {"error": LOST}, ("*", 1): {"error": LOST}})
        wait_for(lambda: not node.up(0) and not node.up(1))
        node.fault({})
        wait_for(lambda: node.up(0) and node.up(1))
        node.fault({("nvmlDeviceGetProcessUtilization", 0): {"error": NOT_SUPPORTED}})
        wait_for(lambda: "number nvmlDeviceGetProcessesUtilizationInfo" in notes.read_text())
        assert process.stop() == 0
    finally:
        node.stop()
    noted = [line.split() for line in notes.read_text().splitlines()]
    kinds = {kind: {name for one, name in noted if one == kind} for kind, _ in noted}
    assert len(kinds["device"]) > 35, "the exporter asks far more than this"
    return Seen(
        tuple(sorted(kinds["device"])),
        tuple(sorted(kinds["system"] - kinds["device"])),
        frozenset(kinds["number"]),
        *truth,
    )


def batches(functions):
    rest = iter(functions)
    while batch := list(islice(rest, PAIRS)):
        yield batch


def on_pairs(batch, **what):
    """The fault of each function on a pair of GPUs of its own."""
    return {
        (function, 2 * place + half): what
        for place, function in enumerate(batch)
        for half in (0, 1)
    }


def check(node: Node, seen: Seen, batch, before: Page | None = None) -> Page:
    """Assert that well GPUs say all, all right, and faulty ones nothing wrong; returns the page."""
    page = node.page()
    wrong = []
    for index in range(len(node.driver.gpus)):
        said = page.gpu(index, node.uuids(index))
        truth = seen.cut if index % 2 else seen.whole
        place = index // 2
        whose = batch[place] if place < len(batch) else "no fault"
        if whose == "nvmlDeviceGetMigMode" and index % 2:
            continue  # without this answer it is a whole GPU, whose memory is another
        wrong += [f"GPU {index} ({whose}): {text}" for text in contradictions(said, truth)]
        if before is not None:
            was = before.gpu(index, node.uuids(index))
            wrong += [f"GPU {index} ({whose}): fell: {text}" for text in fell(was, said)]
            if place >= len(batch) and not observed_seconds(said) > observed_seconds(was):
                wrong.append(f"GPU {index} (no fault) is not observed any more")
    assert not wrong, "\n".join(wrong)
    wait_for(lambda: rest_settled(node, seen, batch), 10.0, "well GPUs say all")
    assert get(f"{node.url}/healthz")[0] == 200
    return page


def well(node: Node) -> bool:
    page = node.page()
    return all(node.up(index, page) for index in range(len(node.driver.gpus)))


def rest_settled(node: Node, seen: Seen, batch) -> bool:
    """Whether the GPUs without a fault have said all they have to say."""
    page = node.page()
    indices = range(2 * len(batch), len(node.driver.gpus))
    return all(
        not missing(page.gpu(i, node.uuids(i)), seen.cut if i % 2 else seen.whole) for i in indices
    )


@pytest.fixture
def node(tmp_path, fake_nvml_library):
    made = machine(tmp_path, fake_nvml_library)
    yield made
    made.stop()


EVERY_CYCLE = {
    "nvmlDeviceGetSamples",
    "nvmlDeviceGetMemoryInfo_v2",
    "nvmlDeviceGetTotalEnergyConsumption",
    "nvmlDeviceGetFieldValues",
}


def test_a_call_that_begins_to_hang_harms_its_own_gpu_only(node, seen):
    node.run()
    wait_for(lambda: rest_settled(node, seen, []), what="all is observed")
    down = set()
    for batch in batches(seen.device):
        before = check(node, seen, [], None)
        node.fault(on_pairs(batch, hang=1))
        time.sleep(1.5)
        page = check(node, seen, batch, before)
        time.sleep(0.5)
        page = check(node, seen, batch, page)
        down |= {
            f
            for i, f in enumerate(batch)
            if not (node.up(2 * i, page) and node.up(2 * i + 1, page))
        }
        node.fault({})
        wait_for(lambda: well(node), what=f"all are back after {batch}")
    # these are made in each cycle; a call that is made every few seconds may not come up meanwhile
    assert down >= EVERY_CYCLE


def test_a_call_that_hangs_from_the_start_harms_its_own_gpu_only(node, seen):
    for batch in batches(seen.device):
        node.fault(on_pairs(batch, hang=1))
        process = node.run()
        wait_for(lambda b=batch: rest_settled(node, seen, b), what="the others are observed")
        check(node, seen, batch)
        node.fault({})
        wait_for(lambda: well(node), what=f"all are back after {batch}")
        assert process.stop() == 0


def test_what_is_not_supported_is_absent_and_the_rest_is_right(node, seen):
    for batch in batches(seen.device):
        node.fault(on_pairs(batch, error=NOT_SUPPORTED))
        process = node.run()
        wait_for(lambda b=batch: rest_settled(node, seen, b), what="the others are observed")
        check(node, seen, batch)
        assert process.stop() == 0


def test_every_call_is_known_to_return_a_number_or_not_to(seen):
    both = {*seen.device, *seen.system}
    assert sorted(both - seen.numbers - NO_NUMBER) == []


@pytest.mark.parametrize("blank", BLANKS, ids=hex)
def test_a_blank_number_is_never_shown(node, seen, blank):
    numbers = sorted(seen.numbers & set(seen.device))
    assert len(numbers) > 20
    for batch in batches(numbers):
        node.driver.raw = {
            (function, 2 * place + half): blank
            for place, function in enumerate(batch)
            for half in (0, 1)
        }
        process = node.run()
        wait_for(lambda b=batch: rest_settled(node, seen, b), what="the others are observed")
        check(node, seen, batch)
        assert process.stop() == 0
