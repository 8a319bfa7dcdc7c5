"""Back ends by name: built in, of another package, or whatever is on this node."""

import re
import subprocess
import sys
import time
import urllib.request
from dataclasses import replace

import pytest

from gputailor_exporter.devices import registry
from gputailor_exporter.devices.base import DeviceError, DeviceIdentity, Reason
from gputailor_exporter.devices.registry import BUILT_IN, BackendSettings, create, known, registered
from gputailor_exporter.devices.several import Several, make_auto
from tests.exporter.stubs import StubBackend
from tests.fakes.amd_tree import Machine

AMD = DeviceIdentity("0", "GPU-amd", vendor="amd")
NVIDIA = DeviceIdentity("0", "GPU-nvidia")


def example(repository) -> str:
    """The example of the page for those who add a vendor."""
    page = (repository / "docs/backends.md").read_text("utf-8")
    return re.search(r"```python\n(.*?)```", page, re.DOTALL)[1]


def package(folder, code, name="acme", factory="acme_gputailor:make"):
    """Write a package as an installer leaves it: a module, and metadata with an entry point."""
    (folder / f"{factory.partition(':')[0]}.py").write_text(code, "utf-8")
    metadata = folder / f"{name}_gputailor-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {name}-gputailor\nVersion: 1.0\n", "utf-8"
    )
    (metadata / "entry_points.txt").write_text(f"[{registry.GROUP}]\n{name} = {factory}\n", "utf-8")


@pytest.fixture
def installed(tmp_path, monkeypatch, repository):
    """The documented example, found by a real entry point."""
    package(tmp_path, example(repository))
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    sys.modules.pop("acme_gputailor", None)


def settings(machine):
    return BackendSettings(proc_root=machine.proc, sys_root=machine.sys)


def test_built_in_back_ends_are_known_and_others_are_not():
    assert all(known(name) for name in BUILT_IN)
    assert not known("acme")
    assert registered() == ()


@pytest.mark.parametrize("name", ["nvml", "amd", "drm", "auto"])
def test_each_built_in_back_end_can_be_made(name, tmp_path):
    assert create(name, settings(Machine(tmp_path))).name == name


def test_a_name_that_is_not_known_is_said_with_those_that_are():
    with pytest.raises(DeviceError, match="known: nvml, amd, drm, auto, simulated"):
        create("acme", BackendSettings())


def test_the_documented_example_is_a_back_end(installed, tmp_path):
    assert registered() == ("acme",)
    folder = tmp_path / "sys/class/acme/acme0"
    folder.mkdir(parents=True)
    (folder / "busy_percent").write_text("25\n", "utf-8")
    (folder / "memory").write_text("1024 512\n", "utf-8")
    backend = create("acme", BackendSettings(sys_root=tmp_path / "sys"))
    backend.open()
    (device,) = backend.devices()
    reading = backend.read(device, 1.0)
    assert reading.signals["kernel"].value == 0.25
    assert reading.memory.used_bytes == 512
    (folder / "busy_percent").write_text("4294967295\n", "utf-8")
    found = backend.read(device, 2.0)
    assert "kernel" not in found.signals
    assert found.unavailable["kernel"] is Reason.INVALID_VALUE
    (folder / "memory").unlink()
    assert backend.read(device, 3.0).memory is None
    backend.close()


def test_the_documented_example_without_a_device_says_so(installed, tmp_path):
    with pytest.raises(DeviceError, match="acme"):
        create("acme", BackendSettings(sys_root=tmp_path)).open()


def test_the_exporter_serves_what_the_example_reads(installed, tmp_path):
    folder = tmp_path / "sys/class/acme/acme0"
    folder.mkdir(parents=True)
    (folder / "busy_percent").write_text("25\n", "utf-8")
    (folder / "memory").write_text("1024 512\n", "utf-8")
    command = [sys.executable, "-m", "gputailor_exporter", "--backend", "acme"]
    command += ["--attribution", "none", "--sys-root", str(tmp_path / "sys")]
    command += ["--listen", "127.0.0.1:0", "--interval", "0.1"]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        text=True,
        env={"PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"},
    )
    try:
        url = process.stdout.readline().split()[-1].rstrip("/")
        page = _page_with(f"{url}/metrics", "gputailor_device_info{")
    finally:
        process.terminate()
        process.wait(10)
        process.stdout.close()
    assert 'vendor="acme"' in page
    assert 'gpu_uuid="ACME-acme0"' in page


def _page_with(url, text, within=15.0):
    deadline = time.monotonic() + within
    while True:
        page = urllib.request.urlopen(url, timeout=5).read().decode()
        if text in page or time.monotonic() > deadline:
            return page
        time.sleep(0.05)


def test_a_broken_package_is_named_and_harms_nobody_else(tmp_path, monkeypatch):
    package(tmp_path, "import a_driver_that_is_not_here\n", "broken", "broken_gputailor:make")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(DeviceError, match=r"broken_gputailor:make.*What to do"):
        create("broken", BackendSettings())


def test_a_package_cannot_take_a_built_in_name(tmp_path, monkeypatch):
    package(tmp_path, "make = print\n", "nvml", "rogue_gputailor:make")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert registered() == ()
    assert type(create("nvml", BackendSettings())).__name__ == "NvmlBackend"


def test_every_name_of_the_page_is_a_back_end(repository):
    page = (repository / "docs/backends.md").read_text("utf-8")
    for name in BUILT_IN:
        assert f"| `{name}` |" in page


# -- several at once -------------------------------------------------------------------------


class Refusing(StubBackend):
    """Has no device, as a node without that vendor."""

    ready = False

    def open(self):
        if not self.ready:
            raise DeviceError(Reason.DRIVER_ERROR, f"no {self.name} here")
        super().open()


def test_two_vendors_on_a_node_are_read_side_by_side():
    both = Several([StubBackend((NVIDIA,)), StubBackend((AMD,))])
    both.open()
    assert both.devices() == (NVIDIA, AMD)
    assert both.expected() == 2
    assert both.read(AMD, 1.0).at == 1.0
    both.close()


class Sparing(Refusing):
    """Notes whose processes are wanted."""

    wanted = None

    def want_processes(self, gpu_uuids):
        self.wanted = gpu_uuids


def test_whose_processes_are_wanted_is_told_to_all_and_to_those_that_come_later():
    now, later = Sparing((NVIDIA,), name="now"), Sparing((AMD,), name="later")
    now.ready = True
    both = Several([now, StubBackend((DeviceIdentity("2", "GPU-other"),)), later])
    both.open()
    both.want_processes(frozenset({"GPU-amd"}))
    later.ready = True
    both.devices()
    assert now.wanted == later.wanted == {"GPU-amd"}


def test_other_drivers_count_only_where_no_known_vendor_is():
    display = DeviceIdentity("0", "PCI-0000:00:02.0", vendor="intel")
    with_gpu = Several([StubBackend((AMD,))], [StubBackend((display,))])
    alone = Several([Refusing((AMD,))], [StubBackend((display,))])
    with_gpu.open()
    alone.open()
    assert with_gpu.devices() == (AMD,)
    assert alone.devices() == (display,)


def test_a_node_without_any_device_says_what_was_tried():
    none = Several([Refusing(name="nvml"), Refusing(name="amd")], [Refusing(name="drm")])
    with pytest.raises(DeviceError, match=r"nvml: no nvml here; amd: .*; drm: no drm here"):
        none.open()


def test_a_driver_that_is_loaded_later_is_found_at_the_next_discovery():
    late = Refusing((AMD,), name="amd")
    both = Several([StubBackend((NVIDIA,)), late])
    both.open()
    assert both.devices() == (NVIDIA,)
    late.ready = True
    assert both.devices() == (NVIDIA, AMD)


def test_a_back_end_that_fails_later_keeps_its_devices_and_harms_no_other():
    failing = StubBackend((NVIDIA,))
    both = Several([failing, StubBackend((AMD,))])
    both.open()

    def fail(*_):
        raise DeviceError(Reason.DRIVER_ERROR, "it hangs")

    failing.discover = failing.answer = fail
    assert both.devices() == (NVIDIA, AMD)
    with pytest.raises(DeviceError, match="it hangs"):
        both.read(NVIDIA, 2.0)
    assert both.read(AMD, 2.0).at == 2.0


def test_a_device_that_is_gone_is_lost():
    both = Several([StubBackend((NVIDIA,))])
    both.open()
    with pytest.raises(DeviceError, match="no back end finds it"):
        both.read(AMD, 1.0)


def test_where_the_only_back_end_fails_discovery_fails():
    failing = StubBackend((NVIDIA,))
    one = Several([failing])
    one.open()

    def fail():
        raise DeviceError(Reason.DRIVER_ERROR, "gone")

    failing.discover = fail
    with pytest.raises(DeviceError, match="gone"):
        one.devices()


def test_a_replaced_driver_asks_for_a_new_process_though_others_work():
    failing = StubBackend((NVIDIA,))
    both = Several([failing, StubBackend((AMD,))])
    both.open()

    def fail():
        raise DeviceError(Reason.DRIVER_ERROR, "replaced", driver_replaced=True)

    failing.discover = fail
    with pytest.raises(DeviceError, match="replaced"):
        both.devices()


def test_events_of_all_back_ends_are_told():
    first, second = StubBackend((NVIDIA,)), StubBackend((AMD,))
    both = Several([first, second])
    both.open()
    first.events = ["a"]
    second.events = ["b"]
    assert both.wait_events(0.02) == ("a", "b")


def test_auto_takes_the_amd_cards_of_a_node(tmp_path):
    machine = Machine(tmp_path)
    machine.mi300x()
    machine.card(0, "0000:03:00.0", "i915", render=129).write(vendor="0x8086", device="0x56c0")
    auto = make_auto(replace(settings(machine), patience_seconds=1.0))
    auto.open()
    assert [one.vendor for one in auto.devices()] == ["amd"]
    auto.close()
