"""What the chart tells the agent: its settings, its secrets, its store."""

from pathlib import Path

import pytest
import yaml

from gputailor_agent.catalog import load_catalogue
from gputailor_agent.cli.settings import load_settings
from gputailor_agent.store import Store
from tests import postgres
from tests.helm.objects import containers, of_kind, one, pod_specs, settings_files, settings_text
from tests.helm.value_sets import PRICES, VALUE_SETS

pytestmark = pytest.mark.system

SECRETS, FILES = "/etc/gputailor-secrets", "/etc/gputailor-files"
DATABASE = "postgresql+psycopg://gputailor:hush@database/gputailor"
#: What Secrets hold, where it is no web address.
SECRET_TEXTS = {"GPUTAILOR_STORE": DATABASE, "store_file": DATABASE}
SERVICE = """[gputailor]
host=127.0.0.1
port={port}
dbname={name}
user=test
password=unasked
"""


def test_the_agent_accepts_its_settings(rendered, tmp_path, monkeypatch):
    if not of_kind(rendered, "Deployment"):
        return  # exporters alone
    for name, text in settings_files(rendered).items():  # as they are mounted together
        told = text.replace("/etc/gputailor/", f"{tmp_path}/")
        told = told.replace(SECRETS, str(tmp_path)).replace(FILES, str(tmp_path))
        (tmp_path / name).write_text(told, "utf-8")
    for spec in pod_specs(of_kind(rendered, "Deployment")):
        for volume in spec["volumes"]:
            for source in volume.get("projected", {}).get("sources", ()):
                (item,) = next(iter(source.values()))["items"]
                kept = SECRET_TEXTS.get(item["path"], "https://secret.example.com")
                (tmp_path / item["path"]).write_text(f"{kept}\n", "utf-8")
        for each in spec["containers"][0].get("env", ()):
            kept = SECRET_TEXTS.get(each["name"], "https://secret.example.com")
            monkeypatch.setenv(each["name"], each.get("value", kept))
        settings = load_settings({}, tmp_path / "agent.yaml")
        assert settings.cluster_access.asked
        assert settings.targets or settings.prometheus_url


def test_the_agent_finds_exporters_by_the_addresses_of_their_service(render):
    objects = render({"exporter": {"port": 9999}})
    service = one(objects, "Service", "-exporter")
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["ports"][0]["port"] == 9999
    targets = yaml.safe_load(settings_text(objects))["targets"]
    assert targets == [f"dns+http://{service['metadata']['name']}.gpus.svc:9999/metrics"]


def test_a_prometheus_that_was_named_is_read_instead_of_exporters(render):
    objects = render({"agent": {"settings": {"prometheus_url": "http://prometheus:9090"}}})
    settings = yaml.safe_load(settings_text(objects))
    assert settings["prometheus_url"] == "http://prometheus:9090"
    assert "targets" not in settings
    assert of_kind(objects, "DaemonSet")


def test_secret_settings_come_from_secrets_and_not_from_the_settings_file(render):
    objects = render(VALUE_SETS["PostgreSQL by a secret"])
    (agent,) = containers(of_kind(objects, "Deployment"))
    (variable,) = (each for each in agent["env"] if each["name"] == "GPUTAILOR_STORE")
    assert variable["valueFrom"] == {"secretKeyRef": {"name": "database", "key": "url"}}


def test_settings_mean_to_the_agent_what_they_meant_to_helm(render, tmp_path):
    limits = {"power_share": 0.00001, "link_bytes_per_second": 1.5e12, "warn_minutes": 0}
    name = "12:30:45 <yes> & \u00fcber"
    given = {"scrape_seconds": 0.25, "thresholds": {"idle": limits}}
    objects = render({"clusterName": name, "agent": {"settings": given}})
    path = tmp_path / "agent.yaml"
    path.write_text(settings_text(objects), "utf-8")
    settings = load_settings({}, path)
    assert settings.thresholds == {"idle": limits}
    assert settings.scrape_seconds == 0.25
    assert settings.cluster == name


def test_keys_left_empty_are_as_good_as_left_out(render):
    empty = {"agent": {"settings": None, "podLabels": None}, "exporter": {"extraArgs": None}}
    assert settings_text(render(empty)) == settings_text(render({}))


def test_a_store_that_was_named_is_not_overwritten(render):
    url = "postgresql://gputailor@database/gputailor"
    objects = render({"agent": {"settings": {"store": url}}})
    assert yaml.safe_load(settings_text(objects))["store"] == url


def test_own_prices_reach_the_agent_as_they_were_given(render, tmp_path):
    objects = render(VALUE_SETS["settings and prices"])
    made = one(objects, "ConfigMap", "-agent")["data"]
    assert made["prices.csv"].strip() == PRICES.strip()
    assert yaml.safe_load(made["agent.yaml"])["prices"] == "/etc/gputailor/prices.csv"
    path = tmp_path / "prices.csv"
    path.write_text(made["prices.csv"], "utf-8")
    assert load_catalogue(path)


def test_a_changed_setting_starts_the_agent_anew(render):
    def stamp(values):
        template = one(render(values), "Deployment", "-agent")["spec"]["template"]
        return template["metadata"]["annotations"]["checksum/settings"]

    assert stamp({}) == stamp({})
    assert stamp({}) != stamp({"clusterName": "blue"})


def test_a_secret_file_is_mounted_and_its_setting_names_it(render):
    objects = render(VALUE_SETS["secrets as files"])
    settings = yaml.safe_load(settings_text(objects))
    (spec,) = pod_specs(of_kind(objects, "Deployment"))
    (volume,) = (each for each in spec["volumes"] if each["name"] == "secrets")
    (mount,) = (each for each in spec["containers"][0]["volumeMounts"] if each["name"] == "secrets")
    assert mount == {"name": "secrets", "mountPath": SECRETS, "readOnly": True}
    assert volume["projected"]["defaultMode"] == 0o440  # the agent's group reads, nobody writes
    found = {
        item["path"]: (source["secret"]["name"], item["key"])
        for source in volume["projected"]["sources"]
        for item in source["secret"]["items"]
    }
    wanted = VALUE_SETS["secrets as files"]["agent"]["secretFiles"]
    assert found == {name: (one["name"], one["key"]) for name, one in wanted.items()}
    assert {name: settings[name] for name in wanted} == {
        name: f"{SECRETS}/{name}" for name in wanted
    }
    assert "env" not in spec["containers"][0]


def test_a_file_from_a_config_map_is_mounted_and_its_setting_names_it(render):
    objects = render(VALUE_SETS["files that are no secret"])
    settings = yaml.safe_load(settings_text(objects))
    (spec,) = pod_specs(of_kind(objects, "Deployment"))
    (volume,) = (each for each in spec["volumes"] if each["name"] == "files")
    found = {
        item["path"]: (source["configMap"]["name"], item["key"])
        for source in volume["projected"]["sources"]
        for item in source["configMap"]["items"]
    }
    wanted = VALUE_SETS["files that are no secret"]["agent"]["configFiles"]
    assert found == {name: (one["name"], one["key"]) for name, one in wanted.items()}
    assert {name: settings[name] for name in wanted} == {name: f"{FILES}/{name}" for name in wanted}


def sample(kind, definitions):
    """Some value that a schema takes."""
    kind = definitions[kind["$ref"].rpartition("/")[2]] if "$ref" in kind else kind
    if "anyOf" in kind:
        return sample(next(one for one in kind["anyOf"] if one.get("type") != "null"), definitions)
    if "enum" in kind:
        return kind["enum"][-1]
    least = kind.get("minimum", kind.get("exclusiveMinimum", 0) + 1)
    made = {"array": ["a"], "boolean": True, "integer": least, "number": least, "object": {}}
    return made.get(kind["type"], "told")


def test_each_setting_of_the_agent_reaches_it_in_one_way_of_the_chart(render, generate, schema):
    """All at once: as it was given, as a mounted file, as a variable; or the chart says why not."""
    agent = schema["properties"]["agent"]["properties"]
    left = set(generate.AgentSettings.model_fields) - generate.CHART_SETS.keys()
    files = {name: {"name": "one", "key": name} for name in agent["configFiles"]["properties"]}
    open_ = {
        name: sample(kind, schema["$defs"])
        for name, kind in agent["settings"]["properties"].items()
        if name not in files
    }
    told = yaml.safe_load(
        settings_text(render({"agent": {"settings": open_, "configFiles": files}}))
    )
    assert {name: told[name] for name in open_} == open_
    assert {name: told[name] for name in files} == {name: f"{FILES}/{name}" for name in files}

    names = agent["secretSettings"]["properties"]
    secrets = {name: {"name": "one", "key": name} for name in names}
    (container,) = containers(of_kind(render({"agent": {"secretSettings": secrets}}), "Deployment"))
    variables = {one["name"] for one in container["env"]}
    assert variables == {f"GPUTAILOR_{name.upper()}" for name in names}
    assert left == open_.keys() | files.keys() | secrets.keys()
    assert files.keys() == agent["secretFiles"]["properties"].keys()
    for name, way in generate.CHART_SETS.items():
        assert way.startswith(("`", "always", "no: ")), name


def test_whatever_may_be_secret_can_come_from_a_mounted_file(generate):
    """A variable can be read by whoever may exec into the pod."""
    kinds = generate.AgentSettings.model_json_schema()["properties"]
    secret = {name for name, kind in kinds.items() if kind.get("writeOnly")}
    assert {f"{name}_file" for name in secret} <= kinds.keys()


def test_the_address_of_a_database_in_a_secret_leaves_no_other_store_and_no_volume(render):
    for values in ("PostgreSQL by its address in a file", "PostgreSQL by a secret"):
        objects = render(VALUE_SETS[values])
        assert "store" not in yaml.safe_load(settings_text(objects))
        assert not of_kind(objects, "PersistentVolumeClaim")


def test_exporters_that_speak_tls_are_asked_so(render):
    objects = render(VALUE_SETS["exporters with TLS that the agent reads"])
    told = yaml.safe_load(settings_text(objects))
    assert told["targets"] == ["dns+https://gt-gputailor-exporter.gpus.svc:9836/metrics"]


def test_the_store_is_postgresql_by_a_file_that_libpq_reads(render, tmp_path, monkeypatch):
    objects = render(VALUE_SETS["PostgreSQL by a file"])
    url = yaml.safe_load(settings_text(objects))["store"]
    (agent,) = containers(of_kind(objects, "Deployment"))
    (variable,) = agent["env"]
    mounted = {each["name"]: each["mountPath"] for each in agent["volumeMounts"]}
    assert variable["name"] == "PGSERVICEFILE"
    assert str(Path(variable["value"]).parent) == mounted["postgresql"]
    assert not of_kind(objects, "PersistentVolumeClaim")
    with postgres.running() as server:
        file = tmp_path / "pg_service.conf"
        name = server.empty().rpartition("/")[2]
        file.write_text(SERVICE.format(port=server.port, name=name), "utf-8")
        monkeypatch.setenv(variable["name"], str(file))
        with Store.open(url) as store, store.transaction() as tx:
            tx.mark_period("blue/start", "first", at=1.0)
        monkeypatch.delenv(variable["name"])
        with Store.open(server.url(name)) as store:
            assert store.period("blue/start", "first") is not None


def test_mails_lead_to_the_address_for_people(render):
    def told(name):
        return yaml.safe_load(settings_text(render(VALUE_SETS[name]))).get("public_url")

    assert told("an Ingress with a login") == "https://gputailor.example.org"
    assert told("an Ingress without TLS") == "http://gpu.example.org"
    assert told("defaults") is None
    assert told("mail and a webhook") == "https://gputailor.example.org"


def test_exporters_in_another_namespace_are_found_there(render):
    objects = render(VALUE_SETS["two namespaces"])
    assert one(objects, "Service", "-exporter")["metadata"]["namespace"] == "kube-system"
    assert one(objects, "Service", "-agent")["metadata"]["namespace"] == "gpus"
    targets = yaml.safe_load(settings_text(objects))["targets"]
    assert targets == ["dns+http://gt-gputailor-exporter.kube-system.svc:9836/metrics"]
