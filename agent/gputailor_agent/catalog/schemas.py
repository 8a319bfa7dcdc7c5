"""The schemas: what a user may write, and what our own data files hold.

``OWN`` are the tables of a user, recognised by their header; ``PACKAGED`` are ours by file name.
"""

from typing import Final

from gputailor_agent.catalog.tables import (
    Column,
    Schema,
    choice,
    currency,
    day,
    number,
    text,
    version,
    whole,
)

#: How capacity is bought; the first is the default.
CAPACITY_TYPES: Final = ("on-demand", "spot", "reserved-1y", "reserved-3y")

#: Number types of ``throughput.csv``: dense, that is without structured sparsity.
THROUGHPUT_TYPES: Final = (
    *("fp64", "fp64_tensor", "tf32", "fp16", "bf16", "fp8", "fp4", "int8", "int4"),
)

_ACCELERATOR: Final = "the GPU's name as nvidia-smi or catalogue list prints it"
_NOTE: Final = Column("note", "anything", text)
_AS_OF: Final = Column("as_of", "the date the price was read", day)
_CURRENCY: Final = Column("currency", "USD unless said", currency)
_REGION: Final = Column("region", "the cloud's region", text)
_SOURCE: Final = Column("source", "where the figure comes from", text)

PRICES: Final = Schema(
    "own prices",
    (
        Column("price_per_gpu_hour", "price of one GPU hour", number("1.25"), required=True),
        Column("accelerator", _ACCELERATOR, text),
        Column("instance_type", "the cloud's instance type", text),
        _CURRENCY,
        Column("capacity_type", "how it is bought", choice(*CAPACITY_TYPES)),
        _REGION,
        _AS_OF,
        _SOURCE,
        _NOTE,
    ),
    marks=("price_per_gpu_hour",),
    one_of=("accelerator", "instance_type"),
)

_DEVICE_COLUMNS: Final = (
    Column("accelerator", _ACCELERATOR, text, required=True),
    Column("vendor", "who makes it", text),
    Column("memory_gb", "nominal memory", number("80", above=True)),
    Column("usable_memory_mib", "memory as the driver reports it", number("81080", above=True)),
    Column("bandwidth_gb_s", "memory bandwidth in GB/s", number("3350", above=True)),
    Column("fp16_tensor_dense_tflops", "dense FP16 of tensor cores", number("989", above=True)),
    Column("fp32_tflops", "FP32 outside tensor cores", number("66.9", above=True)),
    Column("tdp_w", "power limit in watts", number("700", above=True)),
    Column("sm_count", "multiprocessors, compute units, Xe-cores or AI cores", whole("132")),
    Column("tensor_cores", "whether it has any", choice("yes", "no")),
    Column("interconnect_gb_s_bidir", "between cards, both ways, GB/s", number("900")),
    Column("compute_capability", "NVIDIA's", version),
    _NOTE,
)

HARDWARE: Final = Schema(
    "own hardware",
    (
        *_DEVICE_COLUMNS,
        Column("names", "other names, with ; between", text),
        Column("mig_card", "card of mig.csv whose MIG profiles it has", text),
        _SOURCE,
    ),
    marks=("accelerator", "memory_gb"),
)

BARE_METAL: Final = Schema(
    "bare metal",
    (
        Column("accelerator", _ACCELERATOR, text, required=True),
        Column(
            "purchase_price",
            "one GPU with its share of server, network and racks",
            number("38000", above=True),
            required=True,
        ),
        Column("years", "of use", number("4", above=True), required=True),
        Column("power_price_per_kwh", "price of a kWh", number("0.12"), required=True),
        Column("pue", "power usage effectiveness of the room", number("1.5"), required=True),
        Column("watts", "drawn by one GPU; its TDP unless said", number("700", above=True)),
        Column("server_watts", "share of the server's other power", number("300")),
        Column("residual_price", "what it is sold for afterwards", number("2000")),
        Column("upkeep_per_year", "staff, space, support, per GPU", number("1500")),
        _CURRENCY,
        _AS_OF,
        _SOURCE,
        _NOTE,
    ),
    marks=("purchase_price",),
)

#: OpenCost's pricing CSV, which Kubecost reads too. Only GPU rows are used.
OPENCOST: Final = Schema(
    "OpenCost's pricing",
    (
        Column("EndTimestamp", "unused there; taken as the price's date", text),
        Column("InstanceID", "the asset", text),
        Column("Region", "topology.kubernetes.io/region", text),
        Column("AssetClass", "node, pv or gpu", text, required=True),
        Column("InstanceIDField", "where the id stands", text),
        Column("InstanceType", "node.kubernetes.io/instance-type", text),
        Column("MarketPriceHourly", "price per hour", number("1.25"), required=True),
        Column("Version", "unused", text),
    ),
    marks=("AssetClass", "MarketPriceHourly"),
)

OWN: Final = (PRICES, BARE_METAL, OPENCOST, HARDWARE)

_SOURCED: Final = (
    *("memory", "usable_memory", "bandwidth", "tensor", "fp32", "tdp", "sm", "tensor_cores"),
    *("interconnect", "cc", "memory_type"),
)

#: Figures of ``devices.csv`` that ``confirmed.csv`` may hold a second reading of.
_FIGURES: Final = (
    *("memory_gb", "usable_memory_mib", "bandwidth_gb_s", "fp16_tensor_dense_tflops"),
    *("fp32_tflops", "tdp_w", "sm_count", "tensor_cores", "interconnect_gb_s_bidir"),
    "compute_capability",
)

_CONFIRMED: Final = Column(
    "confirmed_by", "where the figure was read again; blank: nowhere, so it is used with care", text
)

PACKAGED: Final = {
    "devices.csv": Schema(
        "devices",
        (
            *_DEVICE_COLUMNS,
            Column("memory_type", "kind of its memory", text),
            Column("memory_bus_bits", "width of its memory's bus", whole("5120")),
            *(Column(f"{name}_source", "its source", text) for name in _SOURCED),
        ),
        marks=("accelerator",),
    ),
    "confirmed.csv": Schema(
        "second readings",
        (
            Column("accelerator", "key of devices.csv", text, required=True),
            Column("figure", "column of devices.csv", choice(*_FIGURES), required=True),
            Column("read", "what stands there", text, required=True),
            Column("confirmed_by", "where it was read again", text, required=True),
        ),
        marks=("figure",),
    ),
    "throughput.csv": Schema(
        "throughput",
        (
            Column("accelerator", "key of devices.csv", text, required=True),
            Column("type", "number type", choice(*THROUGHPUT_TYPES), required=True),
            Column("dense_tflops", "without sparsity", number("989", above=True), required=True),
            Column("source", "where it is published", text, required=True),
            _CONFIRMED,
        ),
        marks=("dense_tflops",),
    ),
    "mig.csv": Schema(
        "MIG profiles",
        (
            Column("card", "card", text, required=True),
            Column("profile", "name of the profile", text, required=True),
            Column("max_instances", "instances on one card", whole("7"), required=True),
            Column("compute_slices", "compute slices", whole("1"), required=True),
            Column("memory_slices", "memory slices", whole("1"), required=True),
            Column("sm_count", "SMs", whole("14")),
            Column("usable_memory_gib", "memory as the driver reports it", number("10.75")),
            Column("source", "where it is published", text, required=True),
            _CONFIRMED,
        ),
        marks=("profile",),
    ),
    "prices.csv": Schema(
        "list prices",
        (
            Column("provider", "cloud", text, required=True),
            Column("instance_type", "instance type", text, required=True),
            Column("region", "region", text),
            Column("gpu_model", "GPU", text, required=True),
            Column("gpu_count", "GPUs of the instance", number("8")),
            Column("gpu_memory_gib_each", "memory of each", number("80")),
            Column("vcpus", "virtual CPUs", number("96")),
            Column("ram_gib", "memory", number("1152")),
            Column("on_demand_usd_h", "whole instance per hour", number("27.4")),
            Column("spot_usd_h", "whole instance per hour", number("9.5")),
            Column("snapshot_date", "when it was read", day),
            Column("source", "where it is published", text, required=True),
            _NOTE,
        ),
        marks=("on_demand_usd_h",),
    ),
    "reserved.csv": Schema(
        "reserved prices",
        (
            Column("provider", "cloud", text, required=True),
            Column("instance_type", "instance type", text, required=True),
            Column("region", "region", text, required=True),
            Column("gpu_model", "GPU", text, required=True),
            Column("gpu_count", "GPUs of the instance", number("8", above=True), required=True),
            Column("gpu_memory_gib_each", "memory of each", number("80"), required=True),
            Column("term_years", "years of commitment", choice("1", "3"), required=True),
            Column("usd_h", "whole instance per hour", number("13.9"), required=True),
            Column("snapshot_date", "when it was read", day, required=True),
            Column("source", "where it is published", text, required=True),
        ),
        marks=("usd_h",),
    ),
    "aliases.csv": Schema(
        "aliases",
        (
            Column("name", "name as drivers and lists write it", text, required=True),
            Column("memory_gib", "which variant of the name", number("80")),
            Column("accelerator", "key of devices.csv", text, required=True),
            Column("mig_card", "card of mig.csv", text),
        ),
        marks=("name",),
    ),
}
