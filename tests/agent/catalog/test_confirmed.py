"""A second reading is of a figure that stands there, from elsewhere, and agrees with it."""

import csv
from importlib import resources

import pytest

from gputailor_agent.catalog import load_catalogue
from gputailor_agent.catalog.loading import load_with_faults

_SOURCE = {
    "memory_gb": "memory_source",
    "usable_memory_mib": "usable_memory_source",
    "bandwidth_gb_s": "bandwidth_source",
    "fp16_tensor_dense_tflops": "tensor_source",
    "fp32_tflops": "fp32_source",
    "tdp_w": "tdp_source",
    "sm_count": "sm_source",
    "tensor_cores": "tensor_cores_source",
    "interconnect_gb_s_bidir": "interconnect_source",
    "compute_capability": "cc_source",
}
_EXACT = {"tensor_cores", "compute_capability", "sm_count"}


def rows(name):
    text = resources.files("gputailor_agent.catalog").joinpath(name).read_text("utf-8")
    return list(csv.DictReader(text.splitlines()))


DEVICES = {row["accelerator"]: row for row in rows("devices.csv")}
READINGS = rows("confirmed.csv")
CARDS = {device.key: device for device in load_catalogue().devices}


@pytest.mark.parametrize("figure", sorted(_SOURCE))
def test_a_second_reading_agrees_with_the_figure(figure):
    for reading in READINGS:
        if reading["figure"] != figure:
            continue
        stands = DEVICES[reading["accelerator"]][figure]
        if figure in _EXACT:
            assert reading["read"] == stands, reading
        else:
            assert float(reading["read"]) == pytest.approx(float(stands), rel=0.02), reading


def test_a_second_reading_is_not_of_the_same_place_and_stands_once():
    for reading in READINGS:
        source = DEVICES[reading["accelerator"]][_SOURCE[reading["figure"]]]
        assert source
        assert reading["confirmed_by"].partition(" ")[0] != source.partition(" ")[0], reading
    keys = [(reading["accelerator"], reading["figure"]) for reading in READINGS]
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize("name", ["throughput.csv", "mig.csv"])
def test_a_row_is_not_confirmed_by_its_own_source(name):
    for row in rows(name):
        assert row["confirmed_by"] != row["source"] or "documentation" in row["source"], row


def test_every_figure_of_a_device_has_a_source():
    for row in DEVICES.values():
        for figure, source in _SOURCE.items():
            assert bool(row[figure]) == bool(row[source]), (row["accelerator"], figure)
        assert bool(row["memory_type"]) == bool(row["memory_type_source"])


def test_figures_without_a_second_reading_are_told():
    told = {(reading["accelerator"], reading["figure"]) for reading in READINGS}
    assert ("L40S", "tdp_w") in told
    assert "tdp_watts" not in CARDS["L40S"].unconfirmed_figures
    assert ("MI308X", "bandwidth_gb_s") not in told
    assert "bandwidth_bytes_per_second" in CARDS["MI308X"].unconfirmed_figures
    assert "interconnect_bytes_per_second" not in CARDS["TITAN V"].unconfirmed_figures  # unknown


def test_an_own_figure_needs_no_second_reading(tmp_path):
    path = tmp_path / "hardware.csv"
    path.write_text("accelerator,bandwidth_gb_s\nMI308X,5300\n", "utf-8")
    catalogue, faults = load_with_faults(path)
    assert faults == ()
    assert "bandwidth_bytes_per_second" not in catalogue.find("MI308X").unconfirmed_figures


@pytest.mark.parametrize(
    "key",
    [
        *("H100 SXM5 80GB", "H100 NVL 94GB", "H200 SXM 141GB", "A100 SXM4 80GB", "A100 SXM4 40GB"),
        *("L40S", "L40", "L4", "A10", "A40", "B200", "B300", "GB200 (per GPU)", "T4"),
        *("MI300X", "MI325X", "MI350X", "MI355X", "Gaudi3", "Gaudi2", "TPU v5e", "TPU v5p"),
        "MTT S4000",
    ],
)
def test_what_sizes_a_widespread_card_was_read_twice(key):
    """Memory, bandwidth and dense FP16: what advice about another card rests on."""
    sized = {"memory_bytes", "bandwidth_bytes_per_second", "fp16_tensor_flops"}
    assert not sized & set(CARDS[key].unconfirmed_figures)
