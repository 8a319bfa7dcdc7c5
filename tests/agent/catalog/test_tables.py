"""A table is checked against its schema: every fault names file, line and column."""

from importlib import resources

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputailor_agent import catalog
from gputailor_agent.catalog.schemas import OWN, PACKAGED, PRICES, THROUGHPUT_TYPES
from gputailor_agent.catalog.tables import read_table

DATA = resources.files(catalog)


@pytest.mark.parametrize("name", PACKAGED)
def test_our_own_data_files_keep_to_their_schemas(name):
    checked = read_table(name, DATA.joinpath(name).read_text("utf-8"), PACKAGED[name])
    assert [str(fault) for fault in checked.faults] == []
    assert checked.rows


def test_every_figure_of_a_device_stands_beside_its_source():
    content = DATA.joinpath("devices.csv").read_text("utf-8")
    sources = {
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
    for row in read_table("devices.csv", content, PACKAGED["devices.csv"]).rows:
        for figure, source in sources.items():
            assert bool(row[figure]) <= bool(row[source]), (row["accelerator"], figure)
            if figure != "usable_memory_mib":
                assert bool(row[source]) <= bool(row[figure]), (row["accelerator"], source)


def test_a_source_is_a_name_that_a_reader_can_look_up():
    for name in PACKAGED:
        assert "find_string" not in DATA.joinpath(name).read_text("utf-8")


def test_throughputs_belong_to_devices_and_agree_with_their_fp16_figure():
    known = {device.key: device for device in catalog.load_catalogue().devices}
    rows = read_table(
        "throughput.csv",
        DATA.joinpath("throughput.csv").read_text("utf-8"),
        PACKAGED["throughput.csv"],
    ).rows
    assert {row["type"] for row in rows} <= set(THROUGHPUT_TYPES)
    for row in rows:
        device = known[row["accelerator"]]
        if row["type"] == "bf16" and device.fp16_tensor_flops and device.key != "MI100":
            ratio = float(row["dense_tflops"]) * 1e12 / device.fp16_tensor_flops
            assert ratio == pytest.approx(1, rel=0.03), device.key
        if row["type"] in {"fp8", "int8"} and "bf16" in device.dense_flops:
            ultra = device.key.startswith(("B300", "GB300"))  # they gave INT8 up for FP4
            if not (ultra and row["type"] == "int8"):
                assert device.dense_flops[row["type"]] >= device.dense_flops["bf16"], device.key


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("accelerator,price_per_gpu_hour,curency\nL4,1,EUR\n", "p.csv:1: curency is no column of own prices; did you mean currency?"),
        ("accelerator,price_per_gpu_hour,currency\nL4,1,euro\n", "p.csv:2: currency must be a currency code such as EUR, found 'euro'"),
        ("accelerator,price_per_gpu_hour,as_of\nL4,1,30.11.2026\n", "p.csv:2: as_of must be a date such as 2026-11-30, found '30.11.2026'"),
        ("accelerator,price_per_gpu_hour\n\nL4,1,2\n", "p.csv:3: has 3 cells, the header has 2; quote a cell with ,"),
        ("accelerator,price_per_gpu_hour\nL4,\n", "p.csv:2: price_per_gpu_hour must not be blank: price of one GPU hour"),
        ("accelerator,accelerator,price_per_gpu_hour\nL4,L4,1\n", "p.csv:1: accelerator stands twice in the header; remove one"),
    ],
)  # fmt: skip
def test_a_fault_says_where_and_what_to_do(content, told):
    checked = read_table("p.csv", content, PRICES)
    assert told in [str(fault) for fault in checked.faults]


def test_all_faults_of_a_file_are_told_at_once_and_good_lines_stay():
    content = "accelerator,price_per_gpu_hour\nL4,x\nT4,1\nA10,-2\n"
    checked = read_table("p.csv", content, PRICES)
    assert [fault.line for fault in checked.faults] == [2, 4]
    assert [row["accelerator"] for row in checked.rows] == ["T4"]


@given(st.text(max_size=200), st.sampled_from(OWN))
def test_any_text_at_all_is_answered_with_rows_or_faults(content, schema):
    checked = read_table("x", content.replace("\x00", ""), schema)
    assert checked.rows == () or checked.faults == () or all(f.line > 1 for f in checked.faults)
