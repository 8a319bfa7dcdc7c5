"""Names lead to devices, devices to prices; what is not known stays None."""

import pytest

from gputailor_agent.catalog import CatalogueError, load_catalogue
from gputailor_agent.catalog.devices import GIB, read_price_rows

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
        # GKE's accelerator labels
        ("nvidia-tesla-t4", None, "T4"),
        ("nvidia-tesla-v100", None, "V100 SXM2 16GB"),
        ("nvidia-tesla-p100", None, "P100 PCIe 16GB"),
        ("nvidia-tesla-a100", None, "A100 SXM4 40GB"),
        ("nvidia-a100-80gb", None, "A100 SXM4 80GB"),
        ("nvidia-l4", None, "L4"),
        ("nvidia-h100-80gb", None, "H100 SXM5 80GB"),
        ("nvidia-h100-mega-80gb", None, "H100 SXM5 80GB"),
        ("nvidia-h200-141gb", None, "H200 SXM 141GB"),
        ("nvidia-b200", None, "B200"),
        ("nvidia-gb300", None, "GB300 (per GPU)"),
        # Karpenter's, CoreWeave's and Alibaba's
        ("a10g", 22.35, "A10G"),
        ("k80", 12, "K80 (per GPU)"),
        ("b200", 179.1, "B200"),
        ("b300", 268.6, "B300"),
        ("H100_NVLINK_80GB", 80, "H100 SXM5 80GB"),
        ("V100M32", None, "V100 SXM2 32GB"),
        ("t4g", 16, "T4G"),
        ("rtx-pro-4500", 32, "RTX PRO 4500 Blackwell"),
        ("radeon-pro-v520", 8, "Radeon Pro V520"),
        # other vendors' labellers
        ("AMD_Instinct_MI300X_OAM", 192, "MI300X"),
        ("AMD Instinct MI355X", None, "MI355X"),
        ("Ascend910B3", 64, "Ascend 910B3"),
        # drivers
        ("NVIDIA B200", 179.06, "B200"),
        ("NVIDIA GB300 NVL", 278, "GB300 (per GPU)"),
        ("NVIDIA GH200 96GB HBM3", 95.6, "GH200 96GB"),
        ("NVIDIA GH200 480GB", 95.6, "GH200 96GB"),
        ("Tesla V100-PCIE-16GB", 16, "V100 PCIe 16GB"),
        ("Tesla P100-PCIE-12GB", 12, "P100 PCIe 12GB"),
        (
            "NVIDIA RTX PRO 6000 Blackwell Workstation Edition",
            95,
            "RTX PRO 6000 Blackwell Workstation",
        ),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", 95, "RTX PRO 6000 Blackwell Server"),
        ("NVIDIA RTX PRO 5000 Blackwell", 47.4, "RTX PRO 5000 Blackwell 48GB"),
        ("NVIDIA RTX PRO 5000 Blackwell", 71.2, "RTX PRO 5000 Blackwell 72GB"),
        ("NVIDIA B300 SXM6 AC", 268.6, "B300"),
        ("NVIDIA H200 NVL", 139.8, "H200 NVL 141GB"),
        ("HL-325L", 128, "Gaudi3"),
    ],
)
def test_a_name_as_drivers_labels_and_price_lists_write_it_leads_to_its_device(
    name, memory_gib, key
):
    found = CATALOGUE.find(name, None if memory_gib is None else int(memory_gib * GIB))
    assert found is not None
    assert found.key == key


@pytest.mark.parametrize(
    "name",
    [
        "",
        "a100",
        "NVIDIA GeForce RTX 4060 Laptop GPU",
        "NVIDIA GeForce RTX 4090 Laptop GPU",
        "NVIDIA GeForce RTX 2080 SUPER",
        "NVIDIA RTX 4000 Ada Generation",
        "GRID T4-8Q",
        "Voodoo 2",
    ],
)
def test_an_unknown_or_ambiguous_name_leads_nowhere(name):
    assert CATALOGUE.find(name) is None


def test_a_card_of_clearly_another_size_is_not_the_one_of_that_name():
    assert CATALOGUE.find("NVIDIA GeForce RTX 3080", 10 * GIB).key == "RTX 3080"
    assert CATALOGUE.find("NVIDIA GeForce RTX 3080", 12 * GIB) is None
    assert CATALOGUE.find("AMD Instinct MI250X", 64 * GIB) is None  # one die of two


#: Models in price lists for which there are no device figures.
WITHOUT_FIGURES = {
    *("qualcomm-ai100", "inferentia", "inferentia2", "trainium", "trainium2"),
}


def test_every_price_leads_to_a_device_or_is_known_to_have_none():
    lost = {
        (price.instance_type, row["gpu_model"])
        for row in read_price_rows()
        for price in CATALOGUE.prices
        if price.instance_type == row["instance_type"] and not price.accelerator
        if row["gpu_model"] not in WITHOUT_FIGURES
    }
    assert lost == set()


def test_an_instance_type_tells_its_device():
    assert CATALOGUE.of_instance("Standard_NC24ads_A100_v4").memory_bytes == 80 * GIB
    assert CATALOGUE.of_instance("g6.12xlarge").key == "L4"
    assert CATALOGUE.of_instance("m7i.large") is None


def test_a_b200_has_the_memory_that_drivers_and_clouds_report():
    b200 = CATALOGUE.find("NVIDIA B200")
    assert b200.memory_bytes == 180 * GIB
    assert b200.usable_memory_bytes == pytest.approx(179 * GIB, rel=0.001)
    assert "7g.180gb" in b200.mig_by_name


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
        (
            "accelerator,price_per_gpu_hour\nVoodoo 2,1\n",
            ":2: accelerator 'Voodoo 2' is not known: use a name",
        ),
        (
            "accelerator,price_per_gpu_hour,capacity_type\nL4,1,free\n",
            ":2: capacity_type must be on-demand, spot, reserved-1y or reserved-3y, found 'free'",
        ),
    ],
)
def test_a_prices_file_that_makes_no_sense_says_line_and_expectation(tmp_path, text, expected):
    own = tmp_path / "prices.csv"
    own.write_text(text, "utf-8")
    with pytest.raises(CatalogueError, match=r"prices\.csv") as caught:
        load_catalogue(own)
    assert expected in str(caught.value)
