"""The whole pages of fixed machines, and that no label or family is on them that is not declared."""

import shutil
import subprocess
from itertools import zip_longest

import pytest
from prometheus_client.parser import text_string_to_metric_families

from gputailor_exporter import metrics as m
from gputailor_exporter.metrics import FAMILIES, Family, Kind
from tests.exporter.golden_machines import FOLDER, MACHINES, page_of
from tests.fakes.fixtures import fake_driver, fake_nvml_library, preloaded_nvml

__all__ = ["fake_driver", "fake_nvml_library", "preloaded_nvml"]

FILES = sorted(path.name for path in FOLDER.glob("*.prom"))

#: Families of devices and containers that no golden machine shows, and why.
UNSEEN = {m.DEVICE_SERIAL.name: "off unless it is asked for"}


def read(name):
    return (FOLDER / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", MACHINES)
def test_the_page_of_a_fixed_machine_equals_its_golden_file(preloaded_nvml, tmp_path, name):
    page = page_of(name, preloaded_nvml, tmp_path).splitlines()
    for number, (now, kept) in enumerate(zip_longest(page, read(f"{name}.prom").splitlines()), 1):
        place = f"line {number}; to write it anew: python -m tests.exporter.golden_machines"
        assert same(now, kept), f"{place}\n{now}\n{kept}"


def same(line, other):
    """Whether lines are equal; a number may differ in what processors round differently."""
    if line is None or other is None or line.startswith("#"):
        return line == other
    (series, number), (other_series, other_number) = (x.rsplit(" ", 1) for x in (line, other))
    return series == other_series and float(number) == pytest.approx(float(other_number), rel=1e-9)


@pytest.mark.parametrize("name", FILES)
def test_promtool_finds_no_fault_in_a_golden_file(name):
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed (Debian package prometheus)")
    done = subprocess.run(
        [promtool, "check", "metrics"],
        input=read(name),
        text=True,
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def faults(page):
    """Families, labels and types of a page that the contract does not declare, as sentences."""
    declared = {family.name: family for family in FAMILIES}
    found = []
    for family in text_string_to_metric_families(page):
        known = declared.get(family.name) or declared.get(f"{family.name}_total")
        if known is None:
            found.append(f"{family.name} is not declared")
            continue
        if family.type != known.kind or family.documentation != known.help:
            found.append(f"{family.name} is declared otherwise")
        for sample in family.samples:
            extra = {"le"} if sample.name.endswith("_bucket") else set()
            if set(sample.labels) != set(known.labels) | extra:
                found.append(f"{sample.name} has labels {sorted(sample.labels)}")
    return found


@pytest.mark.parametrize("name", FILES)
def test_no_family_and_no_label_is_published_that_is_not_declared(name):
    assert faults(read(name)) == []


def test_an_undeclared_label_or_family_would_be_found():
    head = "# HELP gputailor_device_up x\n# TYPE gputailor_device_up gauge\n"
    assert faults(head + 'gputailor_device_up{node="a",gpu="0",gpu_uuid="b",extra="c"} 1\n')
    assert faults("gputailor_device_downs 1\n")


def test_the_golden_machines_show_every_family_of_devices_and_containers():
    shown = {family.name for name in FILES for family in text_string_to_metric_families(read(name))}

    def visible(family: Family) -> bool:
        name = family.name.removesuffix("_total") if family.kind is Kind.COUNTER else family.name
        return name in shown

    parts = ("gputailor_device_", "gputailor_container_")
    missing = {f.name for f in FAMILIES if f.name.startswith(parts) and not visible(f)}
    assert missing == set(UNSEEN)


@pytest.mark.parametrize("name", FILES)
def test_a_container_has_at_most_90_series_on_a_device(name):
    series: dict[tuple[str, ...], int] = {}
    for family in text_string_to_metric_families(read(name)):
        for sample in family.samples:
            if sample.name.startswith("gputailor_container_"):
                key = tuple(sample.labels[label] for label in m.CONTAINER_LABELS)
                series[key] = series.get(key, 0) + 1
    assert max(series.values(), default=0) <= 90
