"""The exporter's options: flags over environment over defaults.

Every option has an environment variable, ``GPUTAILOR_EXPORTER_`` and the flag's name. Standard
library only, so that ``--help`` answers before any extra is installed.
"""

import argparse
import math
import re
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gputailor_exporter import __version__

ENVIRONMENT_PREFIX: Final = "GPUTAILOR_EXPORTER_"

#: Beside 9835 of nvidia_gpu_exporter, so that both can run on one host network.
DEFAULT_LISTEN: Final = "0.0.0.0:9836"

POD_RESOURCES_SOCKET: Final = "/var/lib/kubelet/pod-resources/kubelet.sock"

_LISTEN: Final = re.compile(r"(?P<host>\[[0-9a-fA-F:.]*\]|[^:\[\]]*):(?P<port>\d{1,5})")


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line and the environment asked for; times in seconds."""

    backend: str
    scenario: Path | None
    node: str
    listen: tuple[str, int]
    interval: float
    linger: float
    attribution: str
    sharing: str | None
    pod_resources_socket: str
    proc_root: Path
    pod_logs_root: Path
    histogram: bool
    web_config: Path | None
    log_level: str


def listen_address(text: str) -> tuple[str, int]:
    """Parse HOST:PORT, :PORT or [IPV6]:PORT."""
    match = _LISTEN.fullmatch(text)
    if match is None or int(match["port"]) > 65535:  # noqa: PLR2004 - the highest TCP port
        raise argparse.ArgumentTypeError(f"expected HOST:PORT, for example :9836, not {text!r}")
    return match["host"].strip("[]") or "0.0.0.0", int(match["port"])


def _seconds(least: float, most: float = math.inf) -> Callable[[str], float]:
    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if not least <= value <= most or math.isinf(value):
            limits = f"from {least:g} " + ("up" if math.isinf(most) else f"to {most:g}")
            raise argparse.ArgumentTypeError(f"expected seconds {limits}, not {text!r}")
        return value

    return parse


def _one_of(*names: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in names:
            raise argparse.ArgumentTypeError(f"expected one of {', '.join(names)}, not {text!r}")
        return text

    return parse


def _truth(text: str) -> bool:
    if text.lower() in {"1", "true", "yes", "on"}:
        return True
    if text.lower() in {"", "0", "false", "no", "off"}:
        return False
    raise argparse.ArgumentTypeError(f"expected true or false, not {text!r}")


#: flag -> (parser, default, metavar, help)
_FLAGS: Final[dict[str, tuple[Callable[[str], Any], Any, str, str]]] = {
    "backend": (
        _one_of("nvml", "simulated"),
        "nvml",
        "nvml|simulated",
        "how devices are read; simulated needs --scenario",
    ),
    "scenario": (Path, None, "FILE", "scenario of the simulated back end (YAML), or demo"),
    "node": (str, None, "NAME", "name of this node (default: NODE_NAME, else the host name)"),
    "listen": (listen_address, DEFAULT_LISTEN, "HOST:PORT", "where to serve; port 0: a free one"),
    "interval": (
        _seconds(0.05, 10.0),
        1.0,
        "SECONDS",
        "time between two readings of a device; above 1 s bursts blur in the histograms",
    ),
    "linger": (
        _seconds(0.0),
        180.0,
        "SECONDS",
        "how long counters of an ended container stay: two scrapes and 60 s",
    ),
    "attribution": (
        _one_of("kubernetes", "none"),
        "kubernetes",
        "kubernetes|none",
        "kubernetes: lead devices to containers by kubelet; none: devices alone, without kubelet",
    ),
    "sharing": (
        _one_of("time_slicing", "mps"),
        None,
        "time_slicing|mps",
        "how replicas of a device share it, which their ids do not tell",
    ),
    "pod-resources-socket": (str, POD_RESOURCES_SOCKET, "PATH", "kubelet's PodResources socket"),
    "proc-root": (Path, Path("/proc"), "PATH", "the host's /proc"),
    "pod-logs-root": (Path, Path("/var/log/pods"), "PATH", "the host's /var/log/pods"),
    "web-config": (Path, None, "FILE", "Prometheus web-config file: TLS and basic auth"),
    "log-level": (
        _one_of("debug", "info", "warning", "error"),
        "info",
        "LEVEL",
        "debug, info, warning or error",
    ),
}

EPILOG: Final = f"""\
examples:
  gputailor-exporter                               a node of a cluster, with kubelet
  gputailor-exporter --attribution none            a machine outside Kubernetes
  gputailor-exporter --backend simulated --scenario demo --node a100-0 --listen 127.0.0.1:9836
                                                   to look at it without a GPU
then: curl http://127.0.0.1:9836/metrics, /healthz, /readyz (503 until the first full cycle)

environment: every option can be given as {ENVIRONMENT_PREFIX}NAME, for example
{ENVIRONMENT_PREFIX}LISTEN; flags win over the environment.

other command: gputailor-exporter simulate writes the history of a scenario to files
(gputailor-exporter simulate --help).

exit codes: 0 stopped as asked, 1 failed, 2 wrong usage.
"""


def variable(flag: str) -> str:
    """Return the environment variable of a flag."""
    return ENVIRONMENT_PREFIX + flag.upper().replace("-", "_")


def parser() -> argparse.ArgumentParser:
    """Return the parser; options not given are left out of its result."""
    made = argparse.ArgumentParser(
        prog="gputailor-exporter",
        description="Measures the GPUs of this node and the containers that hold them.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        argument_default=argparse.SUPPRESS,
    )
    for flag, (parse, default, metavar, text) in _FLAGS.items():
        shown = f" (default: {default})" if default is not None else ""
        made.add_argument(f"--{flag}", type=parse, metavar=metavar, help=text + shown)
    made.add_argument(
        "--no-histogram",
        dest="histogram",
        action="store_false",
        help="leave out container histograms (50 of at most 90 series per container and GPU)",
    )
    made.add_argument("--version", action="version", version=f"gputailor-exporter {__version__}")
    return made


def parse_options(arguments: Sequence[str], environment: Mapping[str, str]) -> Options:
    """Return the options; a wrong one ends the process with code 2 and one line that says why."""
    made = parser()
    given = vars(made.parse_args(arguments))
    values: dict[str, Any] = {}
    for flag, (parse, default, _, _) in _FLAGS.items():
        name = flag.replace("-", "_")
        text = environment.get(variable(flag))
        if name in given:
            values[name] = given[name]
        elif text:
            values[name] = _from_environment(made, flag, parse, text)
        else:
            values[name] = listen_address(default) if flag == "listen" else default
    off = environment.get(variable("no-histogram"), "")
    without = _from_environment(made, "no-histogram", _truth, off)
    values["histogram"] = given.get("histogram", not without)
    values["node"] = values["node"] or environment.get("NODE_NAME") or socket.gethostname()
    if values["backend"] == "simulated" and values["scenario"] is None:
        made.error("--backend simulated needs --scenario FILE")
    if values["backend"] != "simulated" and values["scenario"] is not None:
        made.error("--scenario is for --backend simulated")
    return Options(**values)


def _from_environment(
    made: argparse.ArgumentParser, flag: str, parse: Callable[[str], Any], text: str
) -> Any:
    try:
        return parse(text)
    except argparse.ArgumentTypeError as error:
        made.error(f"{variable(flag)}: {error}")
