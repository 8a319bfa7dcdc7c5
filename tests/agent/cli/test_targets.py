"""Targets as people write them, and variables that look like settings."""

import pytest

from gputailor_agent.cli.environment import is_service_link, strangers
from gputailor_agent.cli.errors import UsageError
from gputailor_agent.cli.settings import AgentSettings, load_settings
from gputailor_agent.cli.targets import exporter_url


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("::::", "an IPv6 address stands in brackets"),
        ("fe80::1:9836", "an IPv6 address stands in brackets"),
        ("http://[::g]:1", "port|IPv6"),
        ("node-1:port", "its port is no number"),
        ("node-1:99999", "its port is no number up to 65535"),
        ("node-1:0", "no port is 0"),
        ("http://", "it has no host"),
        ("http:///metrics", "it has no host"),
        ("", "it has no host"),
        ("a b:1", "there is a blank in it"),
        ("..:9836", "no host is called '..'"),
        ("node,1:9836", "no host is called 'node,1'"),
        ("file:///etc/passwd", "exporters are asked by http or https"),
        ("http://u:SEC/RET@h:1", "in a password / [?] # are written %2F"),
    ],
)
def test_what_names_no_exporter_is_refused_with_words(target, why):
    with pytest.raises(ValueError, match=why) as told:
        exporter_url(target)
    assert "expected a URL or HOST:PORT of an exporter" in str(told.value)
    assert "SEC" not in str(told.value)


@pytest.mark.parametrize(
    ("target", "url"),
    [
        ("[::1]:9836", "http://[::1]:9836/metrics"),
        ("node_1.lab.:9836", "http://node_1.lab.:9836/metrics"),
        ("node-1?token=x", "http://node-1/metrics?token=x"),
        ("https://u:p%2Fw@h/x?y=/z", "https://u:p%2Fw@h/x?y=/z"),
    ],
)
def test_a_target_keeps_its_credentials_and_its_query(target, url):
    assert exporter_url(target) == url


def test_every_wrong_target_is_told_at_once():
    with pytest.raises(UsageError, match=r"'::::': .*; .*'ftp://h': exporters are asked by http"):
        load_settings({"targets": ["::::", "ok:1", "ftp://u:p@h"]}, None)


def told(environment):
    return dict(strangers(environment, AgentSettings.model_fields))


def test_a_mistyped_variable_is_told_with_the_nearest_name():
    assert told({"GPUTAILOR_TRAGETS": "a:1"}) == {
        "GPUTAILOR_TRAGETS": "; did you mean GPUTAILOR_TARGETS?"
    }


def test_settings_the_exporters_variables_and_other_peoples_are_no_mistakes():
    names = [f"GPUTAILOR_{name.upper()}" for name in AgentSettings.model_fields]
    names += ["gputailor_cluster", "GPUTAILOR_CONFIG", "GPUTAILOR_LANGUAGE", "PATH", "GPUTAILORX"]
    names += ["GPUTAILOR_EXPORTER_LISTEN", "GPUTAILOR_EXPORTER_NO_HISTOGRAM"]
    assert told(dict.fromkeys(names, "x")) == {}


def test_what_kubernetes_sets_for_a_service_of_our_name_is_no_mistake():
    """As kubelet writes it for Services gputailor, gputailor-agent and gputailor-exporter."""
    links = {}
    for service in ("GPUTAILOR", "GPUTAILOR_AGENT", "GPUTAILOR_EXPORTER", "GPUTAILOR_SMTP"):
        links |= {
            f"{service}_SERVICE_HOST": "10.0.0.1",
            f"{service}_SERVICE_PORT": "9400",
            f"{service}_SERVICE_PORT_HTTP_METRICS": "9400",
            f"{service}_PORT": "tcp://10.0.0.1:9400",
            f"{service}_PORT_9400_TCP": "tcp://10.0.0.1:9400",
            f"{service}_PORT_9400_TCP_PROTO": "tcp",
            f"{service}_PORT_9400_TCP_PORT": "9400",
            f"{service}_PORT_9400_TCP_ADDR": "10.0.0.1",
        }
    assert told(links) == {}


def test_a_port_of_a_setting_that_there_is_not_is_no_service_link():
    assert not is_service_link("GPUTAILOR_SMPT_PORT", "25")
    assert told({"GPUTAILOR_SMPT_PORT": "25"}) == {
        "GPUTAILOR_SMPT_PORT": "; did you mean GPUTAILOR_SMTP_PORT?"
    }


def test_a_mistyped_variable_is_an_error_beside_every_other_fault(monkeypatch):
    monkeypatch.setenv("GPUTAILOR_TRAGETS", "a:1")
    monkeypatch.setenv("GPUTAILOR_WINDOW_DAYS", "-1")
    with pytest.raises(UsageError) as caught:
        load_settings({}, None)
    assert "GPUTAILOR_TRAGETS: there is no such setting; did you mean GPUTAILOR_TARGETS?" in str(
        caught.value
    )
    assert "window_days: expected" in str(caught.value)


def test_a_variable_like_no_setting_is_told_and_stops_nobody(monkeypatch, capsys):
    monkeypatch.setenv("GPUTAILOR_OF_SOMEBODY_ELSE", "1")
    load_settings({}, None)
    assert "warning: GPUTAILOR_OF_SOMEBODY_ELSE is no setting" in capsys.readouterr().err
