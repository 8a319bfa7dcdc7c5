"""List prices: every one dated and sourced, cheaper where it must be, and for one GPU."""

from collections import defaultdict
from datetime import date
from statistics import median

import pytest

from gputailor_agent.catalog import load_catalogue
from gputailor_agent.catalog.devices import GIB, read_price_rows, read_reserved_rows

CATALOGUE = load_catalogue()
LISTED = read_price_rows()
RESERVED = read_reserved_rows()
_LAST = date(2026, 12, 31)


@pytest.mark.parametrize("row", [*LISTED, *RESERVED], ids=lambda row: row["instance_type"])
def test_every_price_has_a_date_and_a_source(row):
    assert row["source"]
    assert date(2025, 1, 1) <= date.fromisoformat(row["snapshot_date"]) <= _LAST


def test_spot_is_cheaper_than_on_demand_and_not_for_free():
    for row in LISTED:
        if row["spot_usd_h"] and row["on_demand_usd_h"]:
            share = float(row["spot_usd_h"]) / float(row["on_demand_usd_h"])
            assert 0.05 < share < 1, row["instance_type"]


def test_a_longer_commitment_is_cheaper_and_any_is_cheaper_than_on_demand():
    on_demand = {
        (row["provider"], row["instance_type"]): float(row["on_demand_usd_h"])
        for row in LISTED
        if row["on_demand_usd_h"]
    }
    terms = defaultdict(dict)
    for row in RESERVED:
        terms[row["provider"], row["instance_type"]][int(row["term_years"])] = float(row["usd_h"])
    for key, by_years in terms.items():
        prices = [by_years[years] for years in sorted(by_years)]
        assert prices == sorted(prices, reverse=True), key
        if key in on_demand:
            assert max(prices) < on_demand[key], key


def test_a_price_per_gpu_is_the_instances_over_its_gpus():
    paid = {
        (row["provider"], row["instance_type"], column): float(row[column]) / count
        for row in LISTED
        for column in ("on_demand_usd_h", "spot_usd_h")
        if row[column] and (count := float(row["gpu_count"] or 0))
    }
    kinds = {"on_demand": "on_demand_usd_h", "spot": "spot_usd_h"}
    told = {
        (price.provider, price.instance_type, kinds[price.kind]): price.amount_per_gpu_hour
        for price in CATALOGUE.prices
        if price.kind in kinds
    }
    assert told == pytest.approx(paid)


def test_gpus_of_an_instance_are_counted_right():
    """A GPU of a larger instance costs about what it costs in the smaller ones of its model.

    Instances with few GPUs and many CPUs cost more a GPU; a wrong count makes it cost a fraction.
    """
    per_gpu = defaultdict(list)
    for price in CATALOGUE.prices:
        if price.kind == "on_demand" and price.gpu_count >= 1:
            per_gpu[price.provider, price.accelerator].append(price)
    for prices in per_gpu.values():
        amounts = sorted(price.amount_per_gpu_hour for price in prices)
        if len(amounts) > 1:
            assert amounts[0] > 0.6 * amounts[1], prices[0].instance_type


def test_no_provider_asks_a_tenth_or_ten_times_what_others_ask():
    cheapest = defaultdict(dict)
    for price in CATALOGUE.prices:
        if price.kind == "on_demand" and price.gpu_count >= 1 and price.accelerator:
            known = cheapest[price.accelerator].get(price.provider, float("inf"))
            cheapest[price.accelerator][price.provider] = min(known, price.amount_per_gpu_hour)
    for key, by_provider in cheapest.items():
        usual = median(by_provider.values())
        for provider, amount in by_provider.items():
            assert 0.2 < amount / usual < 5, (key, provider)


def test_the_memory_of_a_price_list_is_that_of_its_device():
    for row in LISTED:
        device = CATALOGUE.of_instance(row["instance_type"])
        whole = float(row["gpu_count"] or 0) >= 1
        if device is None or not row["gpu_memory_gib_each"] or not whole:
            continue
        listed = float(row["gpu_memory_gib_each"]) * GIB
        assert listed == pytest.approx(device.memory_bytes, rel=0.08), row["instance_type"]


def test_the_same_instance_type_stands_once_per_provider_and_region():
    keys = [(row["provider"], row["instance_type"], row["region"]) for row in LISTED]
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize(
    "key",
    [
        *("B200", "B300", "GB200 (per GPU)", "GH200 96GB", "H200 SXM 141GB", "H100 SXM5 80GB"),
        *("H100 PCIe 80GB", "H100 NVL 94GB", "L40S", "L40", "A10G", "MI300X", "T4G"),
        *("RTX PRO 6000 Blackwell Server", "RTX PRO 4500 Blackwell", "RTX A4000"),
    ],
)
def test_widespread_cards_have_a_price(key):
    assert CATALOGUE.price(CATALOGUE.find(key)) is not None
