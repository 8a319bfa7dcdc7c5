"""Folders and object stores keep every report in all its formats, once, whatever crashes."""

import csv
import io
import json
import logging
import re
import sys

import msgspec
import pytest

from gputailor_agent.reports.beside import NOTHING
from gputailor_agent.reports.delivery import folder, objects
from gputailor_agent.reports.delivery.content import kept_content
from gputailor_agent.reports.delivery.errors import DeliveryError
from gputailor_agent.reports.delivery.keeping import team_folders
from gputailor_agent.reports.delivery.mail import SendError
from gputailor_agent.reports.delivery.settings import DeliverySettings, ObjectStore, Receivers
from gputailor_agent.reports.delivery.teams import parts
from gputailor_agent.store import Outbox, Store
from tests.agent.reports.plans import sample_plan
from tests.agent.schedule.test_delivering import Kill, delivery, keep, letters, run
from tests.agent.schedule.test_delivering_channels import NOWHERE, notice, of_team
from tests.agent.schedule.test_noticing import T0
from tests.fakes.bucket import Bucket

NAMES = {"report.html", "report.md", "report.json", "report.csv"}
KEYS = "[default]\naws_access_key_id = AKIAOPEN\naws_secret_access_key = SECRETkey/+\n"


@pytest.fixture
def store():
    with Store.open() as opened:
        yield opened


@pytest.fixture
def bucket():
    with Bucket() as made:
        yield made


@pytest.fixture
def keys(tmp_path):
    path = tmp_path / "keys"
    path.write_text(KEYS)
    return path


def place(bucket, keys, **more):
    options = {"bucket": "reports", "prefix": "gpu/weekly", "endpoint": bucket.url}
    return ObjectStore(**(options | {"credentials_file": keys} | more))


def names(where):
    return {one.name for one in where.iterdir()}


def test_a_folder_has_every_report_in_all_its_formats(store, tmp_path):
    agent = delivery(store, **NOWHERE, folder=tmp_path)
    for period, now in (("2027-01-04T07:00", T0), ("2027-01-11T07:00", T0 + 7)):
        keep(store, agent, period, now)
        assert run(agent, now) == 1
    assert names(tmp_path / "test") == {"2027-01-04T07-00", "2027-01-11T07-00"}
    kept = tmp_path / "test" / "2027-01-11T07-00"
    assert names(kept) == NAMES
    assert "<style>" in (kept / "report.html").read_text("utf-8")  # for browsers, not for mails
    assert (kept / "report.md").read_text("utf-8").startswith("# GPU Tailor report: test")
    assert json.loads((kept / "report.json").read_text("utf-8"))["plan"]["made_at"] == T0 + 7
    rows = list(csv.reader(io.StringIO((kept / "report.csv").read_text("utf-8"))))
    assert len(rows) > 3
    assert len({len(row) for row in rows if row}) == 1


def test_a_report_that_is_put_again_takes_its_own_place(tmp_path):
    first = kept_content(sample_plan(), "2027-01-04T07:00")
    folder.keep(tmp_path, first)
    other = tmp_path / "test" / "2027-01-04T07-00" / "note.txt"
    other.write_text("somebody's")
    folder.keep(tmp_path, kept_content(sample_plan(made_at=1.0), "2027-01-04T07:00"))
    assert names(other.parent) == NAMES | {"note.txt"}
    assert json.loads((other.parent / "report.json").read_text())["plan"]["made_at"] == 1.0
    assert names(tmp_path / "test") == {"2027-01-04T07-00"}


def test_a_write_that_fails_half_way_shows_nothing(tmp_path, monkeypatch):
    written = folder._write

    def full(path, text):
        if path.name == "report.json":
            raise OSError(28, "No space left on device")
        written(path, text)

    monkeypatch.setattr(folder, "_write", full)
    with pytest.raises(SendError, match="cannot be written to: No space left on device"):
        folder.keep(tmp_path, kept_content(sample_plan(), "2027-01-04T07:00"))
    assert names(tmp_path / "test") == set()


def test_a_folder_that_cannot_be_made_is_tried_again(store, tmp_path):
    (tmp_path / "taken").write_text("a file")
    agent = delivery(store, **NOWHERE, folder=tmp_path / "taken")
    keep(store, agent)
    assert run(agent, T0) == 0
    (tmp_path / "taken").unlink()
    assert run(agent, T0 + 60) == 1
    assert (tmp_path / "taken" / "test").is_dir()


@pytest.mark.parametrize("cluster", ["../../etc", "a/b", "..", "", "x\x00y", "集群"])
def test_no_name_of_a_cluster_leads_out_of_the_folder(tmp_path, cluster):
    inside = tmp_path / "kept"
    folder.keep(inside, kept_content(sample_plan(cluster=cluster), "2027-01-04T07:00"))
    assert names(tmp_path) == {"kept"}
    (only,) = inside.iterdir()
    assert names(only / "2027-01-04T07-00") == NAMES


def test_a_kill_after_writing_writes_the_same_again_and_nothing_beside_it(
    store, tmp_path, monkeypatch
):
    agent = delivery(store, **NOWHERE, folder=tmp_path)
    keep(store, agent)
    with monkeypatch.context() as patched:

        def die(*_):
            raise Kill

        patched.setattr(Outbox, "sent", die)
        with pytest.raises(Kill):
            run(agent, T0)
    before = (tmp_path / "test" / "2027-01-11T07-00" / "report.json").read_bytes()
    assert run(delivery(store, **NOWHERE, folder=tmp_path), T0 + 15) == 1
    assert names(tmp_path / "test") == {"2027-01-11T07-00"}
    assert (tmp_path / "test" / "2027-01-11T07-00" / "report.json").read_bytes() == before


TEAMED = dict.fromkeys(["vision:a", "speech", "vision-a", "default"], Receivers())


def of_teams(*teams):
    """A plan with a workload of each team."""
    return sample_plan(made_at=T0, verdicts=tuple(of_team(team, 1, T0) for team in teams))


def test_every_team_has_a_folder_of_its_own_with_its_part_and_no_more(store, tmp_path):
    agent = delivery(store, **NOWHERE, folder=tmp_path, teams=TEAMED)
    keep(store, agent, plan=of_teams("vision:a", "vision-a", "none"))
    assert run(agent, T0) == 1
    (kept,) = (tmp_path / "test").iterdir()
    assert names(kept) == NAMES | {"teams"}
    assert names(kept / "teams") == {"vision-a", "vision-a-2", "default"}  # none of speech's
    for place, team in (("vision-a", "vision:a"), ("vision-a-2", "vision-a"), ("default", "none")):
        assert names(kept / "teams" / place) == NAMES
        told = (kept / "teams" / place / "report.csv").read_text("utf-8")
        assert [one for one in ("vision:a", "vision-a", "none") if f"{one}/Deployment" in told] == [
            team
        ]


def test_a_teams_folder_is_the_same_whoever_else_has_something_to_be_told(store, tmp_path):
    agent = delivery(store, **NOWHERE, folder=tmp_path, teams=TEAMED)
    keep(store, agent, plan=of_teams("vision-a"))
    assert run(agent, T0) == 1
    (kept,) = (tmp_path / "test").iterdir()
    assert names(kept / "teams") == {"vision-a-2"}


def test_teams_parts_that_are_put_again_take_their_own_places(tmp_path):
    settings = DeliverySettings(teams=TEAMED)
    for made_at in (1.0, 2.0):
        plan = msgspec.structs.replace(of_teams("speech", "none"), made_at=made_at)
        several = list(parts(plan, NOTHING, settings))
        folder.keep(tmp_path, kept_content(plan, "2027-01-04T07:00", NOTHING, several[1:]))
    kept = tmp_path / "test" / "2027-01-04T07-00"
    for place in ("", "teams/speech", "teams/default"):
        told = json.loads((kept / place / "report.json").read_text("utf-8"))
        assert told["plan"]["made_at"] == 2.0


@pytest.mark.parametrize("team", ["../../etc", "..", "/", "x\x00y", "组", ""])
def test_no_name_of_a_team_leads_out_of_its_folder(tmp_path, team):
    (place,) = team_folders([team]).values()
    assert re.fullmatch(r"teams/[A-Za-z0-9_-][A-Za-z0-9._-]*/", place)


def test_names_of_teams_that_look_alike_have_folders_apart():
    found = team_folders(["a/b", "a-b", "a-b-2", "a:b"])
    assert list(found.values()) == ["teams/a-b/", "teams/a-b-2/", "teams/a-b-2-2/", "teams/a-b-3/"]


def test_notices_are_not_kept_there(store, tmp_path):
    agent = delivery(store, **NOWHERE, folder=tmp_path)
    notice(store, agent, T0, of_team("vision", 1, T0))
    assert letters(store) == []


def test_an_object_store_gets_every_format_under_prefix_cluster_and_period(store, bucket, keys):
    agent = delivery(store, **NOWHERE, objects=place(bucket, keys))
    for _ in range(2):
        keep(store, agent)
    assert run(agent, T0) == 1
    base = "/reports/gpu/weekly/test/2027-01-11T07-00/"
    assert set(bucket.objects) == {base + name for name in NAMES}
    assert json.loads(bucket.objects[f"{base}report.json"])["plan"]["cluster"] == "test"
    assert bucket.kinds[f"{base}report.html"] == "text/html; charset=utf-8"
    (letter,) = letters(store)
    assert letter.recipient == f"s3://reports/gpu/weekly at 127.0.0.1:{bucket.server_port}"
    assert all("AKIAOPEN" in one["authorization"] for _, _, one in bucket.asked)


@pytest.mark.parametrize(
    "answer",
    [(403, "may not write there"), (404, "no such bucket"), (500, "cannot be written to")],
)
def test_a_refusal_is_told_without_keys_and_tried_again(store, bucket, keys, caplog, answer):
    status, told = answer
    caplog.set_level(logging.DEBUG)
    bucket.status = status
    bucket.body = b"<Error><Code>X</Code><AWSAccessKeyId>AKIAOPEN</AWSAccessKeyId></Error>"
    agent = delivery(store, **NOWHERE, objects=place(bucket, keys, timeout_seconds=1.0))
    keep(store, agent)
    assert run(agent, T0) == 0
    assert told in letters(store)[0].reason
    for secret in ("SECRETkey", "AKIAOPEN"):
        assert secret not in caplog.text + letters(store)[0].reason + repr(agent.settings)
    bucket.status, bucket.body = 200, b""
    assert run(agent, T0 + 60) == 1


def test_a_server_that_is_away_is_told(keys):
    with Bucket() as made:
        gone = place(made, keys, timeout_seconds=1.0)
    with pytest.raises(SendError, match=r"s3://reports/gpu/weekly at .* cannot be written to"):
        objects.opened(gone)(kept_content(sample_plan(), "2027-01-04T07:00"))


def test_keys_that_changed_are_read_anew(bucket, keys):
    made = kept_content(sample_plan(), "2027-01-04T07:00")
    objects.opened(place(bucket, keys))(made)
    keys.write_text(KEYS.replace("AKIAOPEN", "AKIANEW"))
    objects.opened(place(bucket, keys))(made)
    assert "AKIANEW" in bucket.asked[-1][2]["authorization"]


def test_without_a_file_the_keys_of_the_environment_count(bucket, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAENV")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "SECRETkey")
    made = kept_content(sample_plan(), "2027-01-04T07:00")
    objects.opened(place(bucket, None))(made)
    assert "AKIAENV" in bucket.asked[-1][2]["authorization"]


@pytest.mark.parametrize(
    ("path_style", "host"),
    [(True, "https://s3.example.org:9000"), (False, "https://reports.s3.example.org:9000")],
)
def test_the_bucket_may_stand_in_the_hosts_name(monkeypatch, path_style, host):
    found = {}
    store = objects.imported().store
    monkeypatch.setattr(store, "S3Store", lambda bucket, **more: found.update(more, bucket=bucket))
    endpoint = "https://s3.example.org:9000"
    objects.opened(ObjectStore(bucket="reports", endpoint=endpoint, path_style=path_style))
    assert (found["bucket"], found["endpoint"]) == ("reports", host)
    assert found["virtual_hosted_style_request"] is not path_style
    assert not found["client_options"]["allow_http"]


def test_without_its_library_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "obstore.store", None)
    with pytest.raises(DeliveryError, match=r"pip install 'gputailor\[objects\]'"):
        objects.imported()
    with pytest.raises(SendError, match="obstore"):
        objects.opened(ObjectStore(bucket="reports"))


@pytest.mark.parametrize(
    ("url", "found"),
    [("s3://reports", ("reports", "")), ("s3://my.reports/a/b_c/", ("my.reports", "a/b_c"))],
)
def test_an_address_is_bucket_and_prefix(url, found):
    assert objects.located(url, "objects_url") == found


@pytest.mark.parametrize(
    "url",
    ["reports", "https://x/y", "s3://", "s3://A", "s3://re/../x", "s3://reports//x", "s3://re?x"],
)
def test_a_wrong_address_is_told(url):
    with pytest.raises(DeliveryError, match=r"objects_url: expected s3://BUCKET"):
        objects.located(url, "objects_url")


@pytest.mark.parametrize(
    "text", ["", "SECRET", "[default]\naws_access_key_id = SECRET\n", "[default\nSECRET", "\udcff"]
)
def test_a_file_without_keys_is_told_and_not_shown(tmp_path, text):
    path = tmp_path / "keys"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(DeliveryError, match="objects_credentials_file") as told:
        objects.credentials(path, "objects_credentials_file")
    assert "SECRET" not in str(told.value)
