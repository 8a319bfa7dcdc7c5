"""Flags over environment over defaults, and wrong ones said in words."""

import argparse
from pathlib import Path

import pytest

from gputailor_exporter.collectors import COLLECTORS, DEFAULT
from gputailor_exporter.options import (
    DEFAULT_LISTEN,
    EPILOG,
    listen_address,
    parse_options,
    parser,
    variable,
)


def parsed(*flags, **environment):
    return parse_options(flags, environment)


def test_defaults_suit_a_gpu_node():
    options = parsed()
    assert options.backend == "nvml"
    assert options.listen == (("", int(DEFAULT_LISTEN.partition(":")[2])),)
    assert options.interval == 1.0
    assert options.linger == 180.0
    assert options.attribution == "kubernetes"
    assert options.histogram


def test_the_environment_wins_over_defaults_and_flags_over_it():
    name = variable("interval")
    assert parsed(**{name: "2"}).interval == 2.0
    assert parsed("--interval", "3", **{name: "2"}).interval == 3.0


#: What an option may be set to beside its default; a path for those that are not here.
OTHER = {
    "backend": "drm",
    "listen": ":1",
    "interval": "7",
    "linger": "7",
    "hang-after": "7",
    "keep-allocations": "7",
    "attribution": "none",
    "sharing": "mps",
    "log-level": "debug",
    "no-histogram": "1",
    "require-devices": "1",
    **{f"collect.{one.name}": str(not one.default) for one in COLLECTORS},
}


def test_every_flag_has_an_environment_variable():
    for action in parser()._actions:
        flag = action.option_strings[-1].removeprefix("--")
        if flag in {"help", "version", "scenario"}:  # a scenario needs its back end
            continue
        assert parsed(**{variable(flag): OTHER.get(flag, "/x")}) != parsed(), flag


def test_addresses_are_repeated_or_separated_by_commas_and_flags_win():
    expected = (("127.0.0.1", 1), ("::1", 2))
    name = variable("listen")
    assert parsed("--listen", "127.0.0.1:1", "--listen", "[::1]:2").listen == expected
    assert parsed("--listen", "127.0.0.1:1,[::1]:2").listen == expected
    assert parsed(**{name: "127.0.0.1:1, [::1]:2"}).listen == expected
    assert parsed("--listen", ":3", **{name: ":4"}).listen == (("", 3),)


def test_collectors_are_turned_on_and_off_by_flag_over_environment():
    assert parsed().collectors == DEFAULT
    assert parsed("--collect.xid=false").collectors == DEFAULT - {"xid"}
    assert parsed("--collect.serial", "true").collectors == DEFAULT | {"serial"}
    name = variable("collect.xid")
    assert name == "GPUTAILOR_EXPORTER_COLLECT_XID"
    assert parsed(**{name: "false"}).collectors == DEFAULT - {"xid"}
    assert parsed("--collect.xid=true", **{name: "false"}).collectors == DEFAULT


def test_the_old_name_of_the_histogram_switch_is_an_alias():
    assert parsed("--no-histogram") == parsed("--collect.histogram=false")
    assert parsed("--no-histogram", "--collect.histogram=true").histogram
    assert parsed(
        GPUTAILOR_EXPORTER_NO_HISTOGRAM="1", GPUTAILOR_EXPORTER_COLLECT_HISTOGRAM="1"
    ).histogram
    assert not parsed("--no-histogram", GPUTAILOR_EXPORTER_COLLECT_HISTOGRAM="1").histogram


@pytest.mark.parametrize(("text", "kept"), [("1", False), ("true", False), ("0", True), ("", True)])
def test_the_histogram_can_be_turned_off_by_environment(text, kept):
    assert parsed(GPUTAILOR_EXPORTER_NO_HISTOGRAM=text).histogram is kept


def test_the_histogram_can_be_turned_off_by_flag():
    assert not parsed("--no-histogram").histogram


def test_the_node_is_named_by_flag_environment_downward_api_or_host_in_this_order(monkeypatch):
    monkeypatch.setattr("socket.gethostname", lambda: "host")
    assert parsed().node == "host"
    assert parsed(NODE_NAME="api").node == "api"
    assert parsed(NODE_NAME="api", GPUTAILOR_EXPORTER_NODE="env").node == "env"
    assert parsed("--node", "flag", NODE_NAME="api", GPUTAILOR_EXPORTER_NODE="env").node == "flag"


@pytest.mark.parametrize(
    ("text", "address"),
    [
        (":9836", ("", 9836)),
        ("127.0.0.1:0", ("127.0.0.1", 0)),
        ("[::1]:80", ("::1", 80)),
        ("gpu-node:65535", ("gpu-node", 65535)),
    ],
)
def test_an_address_is_host_and_port(text, address):
    assert listen_address(text) == address


@pytest.mark.parametrize("text", ["9836", "x:", ":65536", "::1:80", "a:b"])
def test_what_is_no_address_is_refused(text):
    with pytest.raises(argparse.ArgumentTypeError, match="HOST:PORT"):
        listen_address(text)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--backend", "cuda"], "expected one of nvml, amd, drm, auto, simulated, not 'cuda'"),
        (["--interval", "0"], "expected seconds from 0.05 to 10, not '0'"),
        (["--interval", "60"], "expected seconds from 0.05 to 10, not '60'"),
        (["--linger", "inf"], "expected seconds from 0 up, not 'inf'"),
        (["--interval", "nan"], "not 'nan'"),
        (["--linger", "-1"], "expected seconds"),
        (["--log-level", "loud"], "expected one of debug"),
        (["--backend", "simulated"], "needs --scenario"),
        (["--scenario", "x"], "is for --backend simulated"),
        (["--unknown"], "unrecognized arguments"),
        (["--collect.xid=perhaps"], "--collect.xid: expected true or false, not 'perhaps'"),
        (["--collect.nothing=true"], "unrecognized arguments"),
        (["--listen", ":1,nowhere"], "expected HOST:PORT, for example :9836, not 'nowhere'"),
    ],
)
def test_wrong_usage_ends_with_code_2_and_says_what_was_expected(flags, said, capsys):
    with pytest.raises(SystemExit) as ended:
        parsed(*flags)
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("text", ["x", "0"])
def test_a_wrong_environment_variable_is_named(text, capsys):
    with pytest.raises(SystemExit) as ended:
        parsed(GPUTAILOR_EXPORTER_INTERVAL=text)
    assert ended.value.code == 2
    assert "GPUTAILOR_EXPORTER_INTERVAL" in capsys.readouterr().err


def test_a_wrong_truth_value_is_named(capsys):
    with pytest.raises(SystemExit):
        parsed(GPUTAILOR_EXPORTER_NO_HISTOGRAM="perhaps")
    assert "NO_HISTOGRAM: expected true or false" in capsys.readouterr().err


def test_help_tells_environment_simulation_and_exit_codes():
    text = parser().format_help()
    one_line = " ".join(text.split())
    assert EPILOG.splitlines()[0] in text
    for word in ("simulate", "exit codes", "default: :9836"):
        assert word in one_line


def test_paths_are_paths():
    assert parsed("--proc-root", "/host/proc").proc_root == Path("/host/proc")
