"""A file of prices goes into the user's folder row by row; nothing else is touched."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputailor_agent.catalog import CatalogueError, load_catalogue
from gputailor_agent.catalog.loading import normalise
from gputailor_agent.catalog.merging import merge, write

TODAY = "2026-11-30"
HEAD = "accelerator,instance_type,price_per_gpu_hour,region\n"


def merged(file, folder):
    return merge(file, folder, today=TODAY, normalise=normalise)


def written(path, content):
    path.write_text(content, "utf-8")
    return path


def test_nothing_is_written_before_write_is_called(tmp_path):
    found = merged(written(tmp_path / "p.csv", HEAD + "L4,,0.5,\n"), tmp_path / "own")
    assert [change.kind for change in found.changes] == ["new"]
    assert not (tmp_path / "own").exists()
    write(found)
    assert (tmp_path / "own" / "prices.csv").exists()
    assert list((tmp_path / "own").glob(".*")) == []


def test_a_row_of_the_same_gpu_is_replaced_however_it_is_spelt_and_others_stay(tmp_path):
    folder = tmp_path / "own"
    write(merged(written(tmp_path / "a.csv", HEAD + "L4,,0.5,\nT4,,0.3,eu\n"), folder))
    found = merged(written(tmp_path / "b.csv", HEAD + "NVIDIA L4,,0.6,\nT4,,0.2,us\n"), folder)
    assert [(change.kind, change.name) for change in found.changes] == [
        ("changed", "NVIDIA L4"),
        ("new", "T4 us"),
    ]
    write(found)
    prices = [price for price in load_catalogue(folder).prices if price.own]
    assert {(p.accelerator, p.region): p.amount_per_gpu_hour for p in prices} == {
        ("L4", ""): 0.6,
        ("T4", "eu"): 0.3,
        ("T4", "us"): 0.2,
    }


def test_a_price_without_a_date_gets_todays_and_keeps_it_while_it_is_the_same(tmp_path):
    folder = tmp_path / "own"
    file = written(tmp_path / "p.csv", HEAD + "L4,,0.5,\n")
    write(merged(file, folder))
    later = merge(file, folder, today="2027-01-01", normalise=normalise)
    assert [change.kind for change in later.changes] == ["same"]
    assert later.texts == {}
    assert later.changes[0].after["as_of"] == TODAY


def test_each_kind_goes_to_its_own_file(tmp_path):
    folder = tmp_path / "own"
    hardware = written(tmp_path / "h.csv", "accelerator,memory_gb\nX1,80\n")
    metal = written(
        tmp_path / "m.csv",
        "accelerator,purchase_price,years,power_price_per_kwh,pue\nL4,2500,4,0.1,1.4\n",
    )
    page = written(
        tmp_path / "oc.prom",
        'node_gpu_hourly_cost{node="a",instance_type="g6.xlarge",region="us-east-1"} 0.7\n',
    )
    for file in (hardware, metal, page):
        write(merged(file, folder))
    assert sorted(path.name for path in folder.iterdir()) == [
        "bare_metal.csv",
        "hardware.csv",
        "prices.csv",
    ]
    catalogue = load_catalogue(folder)
    assert catalogue.find("X1").own
    price = catalogue.price(catalogue.find("L4"), instance_type="g6.xlarge")
    assert price.amount_per_gpu_hour == 0.7


def test_a_file_with_a_fault_changes_nothing(tmp_path):
    file = written(tmp_path / "p.csv", HEAD + "L4,,0.5,\nT4,,cheap,\n")
    with pytest.raises(CatalogueError, match=r"p\.csv:3: price_per_gpu_hour must be a number"):
        merged(file, tmp_path / "own")
    assert not (tmp_path / "own").exists()


def test_a_folder_that_cannot_be_written_is_told(tmp_path):
    blocker = written(tmp_path / "own", "a file")
    found = merged(written(tmp_path / "p.csv", HEAD + "L4,,0.5,\n"), blocker / "below")
    with pytest.raises(CatalogueError, match="cannot write"):
        write(found)


NAMES = st.sampled_from(["L4", "NVIDIA-L4", "T4", "A10", "H100 SXM5 80GB"])


@given(st.lists(st.tuples(NAMES, st.integers(1, 99)), min_size=1, max_size=6))
def test_merging_a_file_twice_changes_nothing_the_second_time(tmp_path_factory, rows):
    folder = tmp_path_factory.mktemp("merge")
    content = HEAD + "".join(f"{name},,{price / 10},\n" for name, price in rows)
    file = written(folder / "p.csv", content)
    write(merged(file, folder / "own"))
    before = (folder / "own" / "prices.csv").read_text("utf-8")
    write(merged(file, folder / "own"))
    held = (folder / "own" / "prices.csv").read_text("utf-8")
    assert held == before
    assert len(held.splitlines()) - 1 == len({normalise(name) for name, _ in rows})
