"""Names lead to devices, devices to prices; what is not known stays None."""

import pytest

from gputailor_agent.catalog import CatalogueError, load_catalogue
from gputailor_agent.catalog.devices import GIB

CATALOGUE = load_catalogue()


@pytest.mark.parametrize(
    ("name", "memory_gib", "key"),
    [
        ("NVIDIA A100-SXM4-80GB", None, "A100 SXM4 80GB"),
        ("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", None, "A100 SXM4 40GB"),
        ("NVIDIA A100 80GB PCIe", None, "A100 PCIe 80GB"),
        ("Tesla-T4-SHARED", None, "T4"),
        ("Tesla T4", 15, "T4"),
        ("NVIDIA H100 80GB HBM3", 79.6, "H100 SXM5 80GB"),
        ("NVIDIA L4", None, "L4"),
        ("NVIDIA GeForce RTX 4090", 24, "RTX 4090"),
        ("NVIDIA GeForce RTX 2070", 8, "RTX 2070"),
        ("a100", 40, "A100 SXM4 40GB"),
        ("a100", 80, "A100 SXM4 80GB"),
        ("H100", 94, "H100 NVL 94GB"),
        ("H20", 141, "H20 141GB"),
    ],
)
def test_a_name_as_drivers_labels_and_price_lists_write_it_leads_to_its_device(
    name, memory_gib, key
):
    found = CATALOGUE.find(name, None if memory_gib is None else int(memory_gib * GIB))
    assert found is not None
    assert found.key == key


@pytest.mark.parametrize("name", ["", "a100", "NVIDIA GeForce RTX 4060 Laptop GPU", "Voodoo 2"])
def test_an_unknown_or_ambiguous_name_leads_nowhere(name):
    assert CATALOGUE.find(name) is None


def test_every_alias_and_every_device_key_is_found_and_every_mig_card_belongs_to_a_device():
    for device in CATALOGUE.devices:
        assert CATALOGUE.find(device.key) is not None, device.key
    cards = {profile.card for device in CATALOGUE.devices for profile in device.mig}
    assert {"A30 24GB", "A100 40GB", "A100 80GB", "H100 80GB", "H200 141GB"} <= cards


def test_usable_memory_is_never_more_than_nominal_and_every_figure_has_a_source():
    for device in CATALOGUE.devices:
        if device.memory_bytes is None:
            assert device.usable_memory_bytes is None
            continue
        assert device.usable_memory_bytes <= device.memory_bytes
        for figure in ("memory_bytes", "bandwidth_bytes_per_second", "fp32_flops", "sm_count"):
            if getattr(device, figure) is not None:
                assert device.sources.get(figure), (device.key, figure)


def test_mig_profiles_are_keyed_by_card_and_their_memory_is_as_measured():
    nvl = CATALOGUE.find("NVIDIA H100 NVL")
    assert nvl.mig_by_name["1g.12gb"].usable_memory_bytes == int(10.75 * GIB)
    assert nvl.mig_by_name["1g.12gb"].sm_count == 16
    a100 = CATALOGUE.find("NVIDIA A100-SXM4-40GB")
    assert a100.mig_by_name["1g.5gb"].max_instances == 7
    assert "1g.10gb" in a100.mig_by_name
    assert CATALOGUE.find("NVIDIA L4").mig == ()


def test_an_instance_type_gives_its_own_list_price_per_gpu():
    spec = CATALOGUE.find("NVIDIA A100-SXM4-80GB")
    price = CATALOGUE.price(spec, instance_type="p4de.24xlarge", region="us-east-1")
    assert price.amount_per_gpu_hour == pytest.approx(27.44705 / 8)
    assert price.as_of == "2026-07-20"
    assert not price.estimate


def test_without_an_instance_type_the_price_is_a_stated_estimate():
    price = CATALOGUE.price(CATALOGUE.find("NVIDIA L4"))
    assert price.estimate
    assert 0.5 < price.amount_per_gpu_hour < 1.2


def test_a_device_without_any_price_has_none():
    assert CATALOGUE.price(CATALOGUE.find("NVIDIA GeForce RTX 2070")) is None


def test_own_prices_come_first(tmp_path):
    own = tmp_path / "prices.csv"
    own.write_text("accelerator,price_per_gpu_hour,currency\nNVIDIA L4,0.31,EUR\n", "utf-8")
    catalogue = load_catalogue(own)
    price = catalogue.price(catalogue.find("NVIDIA-L4"), instance_type="g6.xlarge")
    assert (price.amount_per_gpu_hour, price.currency, price.own) == (0.31, "EUR", True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ":1: expected a CSV header"),
        ("gpu,cost\nL4,1\n", ":1: expected a CSV header"),
        ("accelerator,price_per_gpu_hour\nL4,cheap\n", ":2: price_per_gpu_hour must be a number"),
        ("accelerator,price_per_gpu_hour\nL4,-1\n", ":2: price_per_gpu_hour must be 0 or more"),
        ("accelerator,price_per_gpu_hour\nL4,nan\n", ":2: price_per_gpu_hour must be 0 or more"),
        ("accelerator,price_per_gpu_hour\n,1\n", ":2: name an accelerator"),
        ("accelerator,price_per_gpu_hour\nVoodoo 2,1\n", "no accelerator is named 'Voodoo 2'"),
        (
            "accelerator,price_per_gpu_hour,capacity_type\nL4,1,free\n",
            ":2: capacity_type must be on-demand or spot",
        ),
    ],
)
def test_a_prices_file_that_makes_no_sense_says_line_and_expectation(tmp_path, text, expected):
    own = tmp_path / "prices.csv"
    own.write_text(text, "utf-8")
    with pytest.raises(CatalogueError, match=r"prices\.csv") as caught:
        load_catalogue(own)
    assert expected in str(caught.value)
