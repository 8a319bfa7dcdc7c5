"""catalogue list, check and update as people call them."""

import json

import pytest

from gputailor_agent.cli import app, catalogue


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch, tmp_path):
    for name in ("GPUTAILOR_PRICES", "GPUTAILOR_MAX_PRICE_AGE_DAYS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)


def run(capsys, *arguments) -> tuple[int, str, str]:
    code = app.run("gputailor", ["catalogue", *(str(argument) for argument in arguments)])
    out, err = capsys.readouterr()
    assert "Traceback" not in out + err
    return code, out, err


def prices(tmp_path, content="accelerator,price_per_gpu_hour,as_of\nL4,0.31,2020-01-01\n"):
    path = tmp_path / "prices.csv"
    path.write_text(content, "utf-8")
    return path


def test_list_shows_a_vendors_cards_with_unknown_and_price_date(capsys):
    code, out, err = run(capsys, "list", "--vendor", "huawei")
    assert (code, err) == (0, "")
    assert "Ascend 910B2" in out
    assert "unknown" in out
    assert "NVIDIA" not in out.split("Sources")[0].replace("NVIDIA MIG", "")


@pytest.mark.parametrize("vendor", ["nvidia", "amd", "huawei", "moore", "intel", "google"])
def test_every_vendor_has_cards_with_memory_and_speed(capsys, vendor):
    _, out, _ = run(capsys, "list", "--vendor", vendor, "--output", "json")
    devices = [row["device"] for row in json.loads(out)["rows"]]
    assert len(devices) >= 2
    assert any(one["memory_bytes"] and one["bandwidth_bytes_per_second"] for one in devices)
    assert any(one["fp16_tensor_flops"] for one in devices)


def test_json_has_the_source_of_every_figure_and_the_age_of_every_price(capsys):
    _, out, _ = run(capsys, "list", "--gpu", "H100 SXM5", "--output", "json")
    (row,) = json.loads(out)["rows"]
    assert row["device"]["sources"]["fp8"].startswith("NVIDIA H100 data sheet")
    assert row["device"]["dense_flops"]["fp8"] == pytest.approx(1979e12)
    assert row["price_age_days"] >= 0


def test_list_of_prices_can_be_narrowed_to_provider_and_region(capsys):
    _, out, _ = run(
        capsys,
        "list",
        "--kind",
        "prices",
        "--provider",
        "gcp",
        "--region",
        "us-central1",
        "-o",
        "json",
    )
    found = [row["price"] for row in json.loads(out)["rows"]]
    assert {price["provider"] for price in found} == {"gcp"}
    assert {price["kind"] for price in found} == {"on_demand", "spot", "reserved_1y", "reserved_3y"}


def test_list_of_slices_shows_each_card_once(capsys):
    code, out, _ = run(capsys, "list", "--kind", "mig", "--gpu", "H100")
    assert code == 0
    assert "H100 NVL 94GB" in out
    assert "10.8 GiB" in out


def test_an_old_price_says_its_age(capsys, tmp_path):
    _, out, _ = run(capsys, "list", "--gpu", "L4", "--prices", prices(tmp_path))
    assert "2020-01-01, " in out
    assert "days old" in out


def test_own_prices_are_listed_with_any_setting_of_the_threshold(capsys, tmp_path):
    _, out, _ = run(
        capsys, "list", "--gpu", "L4", "--prices", prices(tmp_path), "--max-age-days", 99999
    )
    assert "days old" not in out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--kind", "cards"), "--kind: expected devices, prices, mig, found 'cards'"),
        (("--vendor", "acme"), "vendors are AMD, "),
        (("--output", "xml"), "--output: expected table, markdown, json, found 'xml'"),
    ],
)
def test_wrong_usage_of_list_exits_2(capsys, arguments, told):
    code, _, err = run(capsys, "list", *arguments)
    assert code == 2
    assert told in err


def test_check_says_what_is_in_a_good_file(capsys, tmp_path):
    code, out, err = run(capsys, "check", prices(tmp_path))
    assert code == 0
    assert "1 price, 0 devices: fine" in out
    assert "warning: the price of L4 is old: 2020-01-01, " in err


def test_check_exits_3_where_a_price_is_older_than_asked_for(capsys, tmp_path):
    assert run(capsys, "check", prices(tmp_path), "--max-age-days", 30)[0] == 3
    fresh = prices(tmp_path, f"accelerator,price_per_gpu_hour,as_of\nL4,1,{catalogue.today()}\n")
    assert run(capsys, "check", fresh, "--max-age-days", 30)[0] == 0


def test_check_tells_every_fault_and_exits_1(capsys, tmp_path):
    path = prices(tmp_path, "accelerator,price_per_gpu_hour\nL4,x\nVoodoo 2,1\n")
    code, out, err = run(capsys, "check", path)
    assert code == 1
    assert "prices.csv:2: price_per_gpu_hour must be a number such as 1.25, found 'x'" in out
    assert "prices.csv:3: accelerator 'Voodoo 2' is not known: use a name" in out
    assert "2 faults; nothing of it is used" in err


def test_check_of_a_file_that_is_not_there_is_wrong_usage(capsys):
    code, _, err = run(capsys, "check", "none.csv")
    assert code == 2
    assert "none.csv does not exist" in err


def test_update_says_what_would_change_and_writes_only_when_told(capsys, tmp_path):
    folder = catalogue.own_folder()
    code, out, _ = run(capsys, "update", prices(tmp_path))
    assert code == 0
    assert "new      prices.csv: accelerator L4, price_per_gpu_hour 0.31" in out
    assert "nothing was written; add --write" in out
    assert not folder.exists()
    _, out, _ = run(capsys, "update", prices(tmp_path), "--write")
    assert f"--prices {folder}" in out
    _, out, _ = run(capsys, "update", prices(tmp_path), "--write")
    assert "nothing to change, 1 row as before" in out
    _, out, _ = run(capsys, "update", prices(tmp_path, "accelerator,price_per_gpu_hour\nL4,0.2\n"))
    assert "changed  prices.csv: L4: price_per_gpu_hour 0.31 -> 0.2" in out


def test_update_refuses_a_file_with_a_fault_and_a_file_in_place_of_the_folder(capsys, tmp_path):
    bad = prices(tmp_path, "accelerator,price_per_gpu_hour\nL4,x\n")
    code, _, err = run(capsys, "update", bad, "--write")
    assert code == 1
    assert "prices.csv:2:" in err
    code, _, err = run(capsys, "update", prices(tmp_path), "--into", bad)
    assert code == 2
    assert "expected a folder" in err


def test_slices_of_several_sources_tell_which_is_of_which_card(capsys):
    code, out, _ = run(capsys, "list", "--kind", "mig", "--gpu", "B300")
    told = " ".join(out.split())
    assert code == 0
    assert "Sources: aws/sagemaker-hyperpod-cli#403 (P6-B300) (B300 269GB); NVIDIA/" in told
    assert "MIG user guide" not in told


def test_a_slice_that_was_found_at_one_place_only_is_marked(capsys):
    _, unsure, _ = run(capsys, "list", "--kind", "mig", "--gpu", "B300")
    assert "4g.135gb?" in unsure
    assert "?: not found again at a second place." in " ".join(unsure.split())
    _, sure, _ = run(capsys, "list", "--kind", "mig", "--gpu", "A30")
    assert "?" not in sure
    assert "Source: NVIDIA MIG user guide." in sure
