"""A user's own prices and hardware come first, from a file or a folder, by whatever they have."""

import pytest

from gputailor_agent.catalog import CatalogueError, load_catalogue
from gputailor_agent.catalog.devices import GIB
from gputailor_agent.catalog.prices import CURRENCY_LABEL, PRICE_LABEL

BARE_METAL = (
    "accelerator,purchase_price,years,power_price_per_kwh,pue,currency\n"
    "H100 SXM5 80GB,35064,4,0.10,1.5,EUR\n"
)
PAGE = """# TYPE node_gpu_hourly_cost gauge
node_gpu_hourly_cost{instance="a",instance_type="p4d.24xlarge",node="a",region="us-east-1"} 2
node_gpu_hourly_cost{instance="b",instance_type="p4d.24xlarge",node="b",region="us-east-1"} 4
node_gpu_hourly_cost{instance="c",instance_type="p4d.24xlarge",node="c",region="us-east-1"} 1
node_gpu_hourly_cost{instance="d",instance_type="m7i.large",node="d"} 0
node_gpu_hourly_cost{instance="e",node="e"} 3
kubecost_node_is_spot{node="c"} 1
"""


def written(tmp_path, content, name="own.csv"):
    path = tmp_path / name
    path.write_text(content, "utf-8")
    return path


def test_own_hardware_that_nobody_knows_is_found_by_its_names(tmp_path):
    own = written(
        tmp_path,
        "accelerator,vendor,memory_gb,usable_memory_mib,bandwidth_gb_s,names,mig_card,source\n"
        "H100 XL 96GB,NVIDIA,96,95000,3350,NVIDIA H100 XL;h100xl,H20 96GB,our data sheet\n",
    )
    found = load_catalogue(own).find("NVIDIA-H100-XL")
    assert found.key == "H100 XL 96GB"
    assert found.own
    assert found.usable_memory_bytes == 95000 * 2**20
    assert found.sources["bandwidth_bytes_per_second"] == "our data sheet"
    assert "1g.12gb" in found.mig_by_name
    assert found.tdp_watts is None


def test_own_figures_replace_ours_and_the_others_stay(tmp_path):
    own = written(tmp_path, "accelerator,usable_memory_mib,tdp_w\nNVIDIA L4,22000,60\n")
    theirs, ours = load_catalogue(own).find("L4"), load_catalogue().find("L4")
    assert (theirs.usable_memory_bytes, theirs.tdp_watts) == (22000 * 2**20, 60)
    assert theirs.bandwidth_bytes_per_second == ours.bandwidth_bytes_per_second
    assert theirs.dense_flops == ours.dense_flops
    assert theirs.memory_bytes == ours.memory_bytes


def test_hardware_with_an_unknown_mig_card_is_refused(tmp_path):
    own = written(tmp_path, "accelerator,memory_gb,mig_card\nX1,80,A200\n")
    with pytest.raises(
        CatalogueError, match=r"own\.csv:2: mig_card must be a card of MIG profiles"
    ):
        load_catalogue(own)


def test_bare_metal_gets_an_hourly_price_by_purchase_power_and_pue(tmp_path):
    catalogue = load_catalogue(written(tmp_path, BARE_METAL))
    price = catalogue.price(catalogue.find("H100 SXM5 80GB"))
    # 35064 / (4 x 8766 h) = 1; 0.7 kW x 1.5 x 0.10 = 0.105
    assert price.amount_per_gpu_hour == pytest.approx(1.105)
    assert (price.currency, price.own) == ("EUR", True)
    assert "capital 1.0000, power 0.1050" in price.source


def test_bare_metal_of_a_card_without_a_known_tdp_asks_for_its_watts(tmp_path):
    content = BARE_METAL.replace("H100 SXM5 80GB", "A10G")
    with pytest.raises(CatalogueError, match=r":2: watts must be given"):
        load_catalogue(written(tmp_path, content))


def test_a_pue_below_one_is_refused(tmp_path):
    with pytest.raises(CatalogueError, match=r":2: pue must be 1 or more"):
        load_catalogue(written(tmp_path, BARE_METAL.replace("1.5", "0.9")))


def test_opencosts_page_gives_the_median_price_of_an_instance_type(tmp_path):
    catalogue = load_catalogue(written(tmp_path, PAGE, "opencost.prom"))
    a100 = catalogue.find("A100 SXM4 40GB")
    price = catalogue.price(a100, instance_type="p4d.24xlarge", region="us-east-1")
    assert price.amount_per_gpu_hour == 3  # of 2 and 4; the spot node is apart, 0 is no price
    assert "OpenCost" in price.source
    spot = catalogue.price(a100, instance_type="p4d.24xlarge", capacity_type="spot")
    assert spot.amount_per_gpu_hour == 1
    assert catalogue.of_instance("p4d.24xlarge") == a100


def test_a_page_whose_nodes_have_no_instance_type_at_all_is_refused(tmp_path):
    page = 'node_gpu_hourly_cost{instance="e",node="e"} 3\n'
    with pytest.raises(
        CatalogueError, match=r"oc\.prom:1: instance_type must not be blank: node e"
    ):
        load_catalogue(written(tmp_path, page, "oc.prom"))


def test_opencosts_pricing_table_prices_gpus_by_their_label(tmp_path):
    own = written(
        tmp_path,
        "EndTimeStamp,InstanceID,Region,AssetClass,InstanceIDField,InstanceType,MarketPriceHourly,Version\n"
        "2026-10-01 00:00:00 UTC,Tesla-T4,,gpu,nvidia.com/gpu_type,,0.40,\n"
        "2026-10-01 00:00:00 UTC,node-1,,node,metadata.name,,0.20,\n",
    )
    catalogue = load_catalogue(own)
    price = catalogue.price(catalogue.find("T4"))
    assert (price.amount_per_gpu_hour, price.as_of) == (0.40, "2026-10-01")


def test_a_folder_holds_all_kinds_and_prices_may_be_for_own_hardware(tmp_path):
    written(tmp_path, "accelerator,memory_gb,vendor\nX9,64,Acme\n", "hardware.csv")
    written(tmp_path, "accelerator,price_per_gpu_hour\nX9,0.9\n", "prices.csv")
    written(tmp_path, "notes of ours", "README.md")
    catalogue = load_catalogue(tmp_path)
    x9 = catalogue.find("x9")
    assert catalogue.price(x9).amount_per_gpu_hour == 0.9
    assert x9.memory_bytes == 64 * GIB


def test_a_node_with_a_price_on_its_label_costs_that():
    catalogue = load_catalogue()
    l4 = catalogue.find("L4")
    labels = {PRICE_LABEL: "0.25", CURRENCY_LABEL: "CHF"}
    price = catalogue.price(l4, instance_type="g6.xlarge", labels=labels)
    assert (price.amount_per_gpu_hour, price.currency) == (0.25, "CHF")
    listed = catalogue.price(l4, instance_type="g6.xlarge", labels={PRICE_LABEL: "cheap"})
    assert listed.provider == "aws"


def test_reserved_capacity_costs_its_commitment_where_known_and_else_the_list_price():
    catalogue = load_catalogue()
    a100 = catalogue.find("A100 SXM4 40GB")
    kinds = {
        kind: catalogue.price(
            a100, instance_type="a2-highgpu-1g", region="us-central1", capacity_type=kind
        )
        for kind in ("on-demand", "reserved-1y", "reserved-3y", "reserved")
    }
    amounts = {kind: price.amount_per_gpu_hour for kind, price in kinds.items()}
    assert amounts["reserved-3y"] < amounts["reserved-1y"] < amounts["on-demand"]
    assert amounts["reserved"] == amounts["reserved-1y"]
    assert kinds["reserved-1y"].as_of == "2026-02-12"
    l4 = catalogue.find("L4")
    unknown = catalogue.price(l4, instance_type="g6.xlarge", capacity_type="reserved-1y")
    assert unknown.kind == "on_demand"


def test_every_reserved_price_is_below_the_list_price_of_its_instance():
    prices = load_catalogue().prices
    listed = {
        price.instance_type: price.amount_per_gpu_hour
        for price in prices
        if price.kind == "on_demand"
    }
    reserved = [price for price in prices if price.kind.startswith("reserved")]
    assert len(reserved) >= 10
    for price in reserved:
        assert price.amount_per_gpu_hour < listed[price.instance_type], price
        assert price.as_of
        assert price.accelerator
