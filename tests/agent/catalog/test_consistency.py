"""Figures of the catalogue hold together: number types, generations, slices and their cards."""

import csv
from importlib import resources

import pytest

from gputailor_agent.catalog import load_catalogue
from gputailor_agent.catalog.devices import GIB

DEVICES = load_catalogue().devices
TYPED = [device for device in DEVICES if len(device.dense_flops) > 1]
SLICED = {profile.card: device for device in DEVICES for profile in device.mig}


def ratio(device, above, below):
    figures = device.dense_flops
    return figures[above] / figures[below] if {above, below} <= set(figures) else None


@pytest.mark.parametrize("device", TYPED, ids=lambda device: device.key)
@pytest.mark.parametrize(
    ("above", "below", "allowed"),
    [
        ("bf16", "tf32", {2}),  # tensor cores since Ampere; AMD's and Moore Threads', too
        ("fp16", "bf16", {1, 2}),  # 2: MI100, whose matrix cores do BF16 at half the rate
        ("fp8", "bf16", {1, 2}),  # Gaudi 3 is as fast in both
        # 4: GeForce, halved with FP32 accumulation; 1/15: Blackwell Ultra gave INT8 up for FP4
        ("int8", "bf16", {1, 2, 4, 1 / 15}),
        ("fp4", "fp8", {2, 3}),  # 3: Blackwell Ultra
        ("int4", "int8", {2}),
        ("fp64_tensor", "fp64", {1, 2}),  # 1: H800, whose FP64 export rules cut
    ],
)
def test_number_types_are_as_fast_as_their_units_are_wide(device, above, below, allowed):
    found = ratio(device, above, below)
    assert found is None or any(found == pytest.approx(times, rel=0.03) for times in allowed)


@pytest.mark.parametrize("device", TYPED, ids=lambda device: device.key)
def test_fewer_bits_are_never_slower(device):
    order = ["fp64", "tf32", "bf16", "fp8", "fp4"]
    figures = [device.dense_flops[name] for name in order if name in device.dense_flops]
    assert figures == sorted(figures)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("H100 SXM5 80GB", "H200 SXM 141GB"),
        ("H100 SXM5 80GB", "GH200 96GB"),
        ("A100 SXM4 40GB", "A100 SXM4 80GB"),
        ("A100 SXM4 80GB", "A800 SXM4 80GB"),
    ],
)
def test_cards_of_one_chip_compute_alike(one, other):
    by_key = {device.key: device for device in DEVICES}
    assert by_key[one].dense_flops == pytest.approx(by_key[other].dense_flops, rel=0.01)
    known = {by_key[key].sm_count for key in (one, other)} - {None}
    assert len(known) <= 1


@pytest.mark.parametrize("card", sorted(SLICED))
def test_slices_of_a_card_never_add_up_to_more_than_the_card(card):
    device = SLICED[card]
    for profile in device.mig:
        times = profile.max_instances
        assert times * profile.compute_slices <= profile.of_compute_slices
        assert times * profile.memory_slices <= profile.of_memory_slices
        # names are rounded to whole gigabytes
        assert times * (profile.memory_bytes - GIB) <= device.memory_bytes
        assert profile.usable_memory_bytes <= profile.memory_bytes
        if profile.sm_count is not None and device.sm_count is not None:
            assert times * profile.sm_count <= device.sm_count


@pytest.mark.parametrize("card", sorted(SLICED))
def test_more_slices_have_no_less_memory_and_no_fewer_multiprocessors(card):
    profiles = SLICED[card].mig
    for one in profiles:
        for other in profiles:
            if one.memory_slices <= other.memory_slices:
                assert one.memory_bytes <= other.memory_bytes
                assert one.usable_memory_bytes <= other.usable_memory_bytes
            known = one.sm_count is not None and other.sm_count is not None
            if known and one.compute_slices < other.compute_slices:
                assert one.sm_count <= other.sm_count


@pytest.mark.parametrize("card", sorted(SLICED))
def test_the_largest_slice_is_the_whole_memory(card):
    device = SLICED[card]
    largest = max(device.mig, key=lambda profile: profile.memory_slices)
    assert largest.memory_bytes == pytest.approx(device.memory_bytes, rel=0.04)


def rows(name):
    text = resources.files("gputailor_agent.catalog").joinpath(name).read_text("utf-8")
    return list(csv.DictReader(text.splitlines()))


def test_a_figure_that_was_not_found_again_is_said_to_be_unconfirmed():
    by_key = {device.key: device for device in DEVICES}
    told = {(row["accelerator"], row["type"]): row["confirmed_by"]
            for row in rows("throughput.csv")}  # fmt: skip
    assert not by_key["A100 SXM4 80GB"].unconfirmed
    for (key, kind), where in told.items():
        assert (kind in by_key[key].unconfirmed) is not bool(where)
    slices = [profile.unconfirmed for device in SLICED.values() for profile in device.mig]
    assert slices.count(False) == sum(bool(row["confirmed_by"]) for row in rows("mig.csv"))
